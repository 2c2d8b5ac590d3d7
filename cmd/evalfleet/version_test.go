package main

import (
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		info  debug.BuildInfo
		stamp string
		want  string
	}{
		{debug.BuildInfo{}, "", "development build"},
		{debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: "(devel)"}}, "v1.2.3-4-g0123456", "v1.2.3-4-g0123456, go1.26.0"},
		{debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "v9.9.9", "v1.2.3"},
		{debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"}}}, "",
			"development build, commit 0123456789ab (changed since), go1.26.0"},
		{debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "false"}}}, "",
			"v1.2.3, commit 0123456789ab, go1.26.0"},
	} {
		if got := version(&c.info, c.stamp); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	for _, args := range [][]string{{"version"}, {"--version"}} {
		code, stdout, stderr := evalfleet(t, nil, args...)
		if code != 0 || !strings.HasPrefix(stdout, "evalfleet ") || stderr != "" {
			t.Errorf("%v: got exit code %d, stdout %q, stderr %q; want the version", args, code, stdout, stderr)
		}
	}
}

// Containers have no files of time zones.
func TestTimeZonesAreBuiltIn(t *testing.T) {
	t.Parallel()
	packages, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(strings.Fields(string(packages)), "time/tzdata") {
		t.Error("the program brings no time zones")
	}
}
