package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// --open has the system open the report; where that is not possible, it says why, and the
// command ends as it would have.
func TestOpen(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{
		"docs/a.md": "A.", "docs/b.md": "B.", "eval.yaml": goodFile,
		"bin/xdg-open": "#!/bin/sh\necho \"$@\" >> opened\n",
	})
	if err := os.Chmod(filepath.Join(dir, "bin", "xdg-open"), 0o700); err != nil {
		t.Fatal(err)
	}

	redis := redistest.NewTCP(t)
	say := func(opens bool, env []string, args ...string) (opened, stderr string) {
		t.Helper()
		_ = os.Remove(filepath.Join(dir, "opened"))
		p := launchWith(t, dir, env, args...)
		if code := p.wait(); code != 0 {
			t.Errorf("%v ended with %d", args, code)
		}
		testrun.EventuallyGot(t, "the page is opened", func() (string, bool) {
			raw, err := os.ReadFile(filepath.Join(dir, "opened"))
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			opened = strings.TrimSpace(string(raw))
			return p.stderr.String(), !opens || opened != ""
		})
		return opened, p.stderr.String()
	}

	page := filepath.Join(dir, "out", "report.html")
	desktop := []string{"DISPLAY=:0", "PATH=" + filepath.Join(dir, "bin") + ":/usr/bin:/bin"}
	fleet := []string{"--redis", redis.URL(), "--out-dir", "out"}
	for _, args := range [][]string{
		{"run", "eval.yaml", "--out-dir", "out", "--open"},
		{"report", "out", "--open"},
	} {
		if opened, stderr := say(true, desktop, args...); opened != page {
			t.Errorf("%v opened %q, want %q: %s", args, opened, page, stderr)
		}
	}

	enqueue := launch(t, dir, append([]string{"enqueue", "eval.yaml"}, fleet...)...) // its runs are recorded already
	if code := enqueue.wait(); code != 0 {
		t.Fatalf("enqueue ended with %d", code)
	}
	id := strings.TrimSpace(enqueue.stdout.String())
	if opened, stderr := say(true, desktop, append([]string{"collect", id, "--open"}, fleet...)...); opened != page {
		t.Errorf("collect opened %q, want %q: %s", opened, page, stderr)
	}

	for why, env := range map[string][]string{
		"no display":    {"DISPLAY=", "WAYLAND_DISPLAY=", "BROWSER=", "WSL_DISTRO_NAME="},
		"not installed": {"DISPLAY=:0", "PATH=" + filepath.Join(dir, "docs")},
		"--format html": nil,
	} {
		args := []string{"report", "out", "--open"}
		if env == nil {
			args, env = append(args, "--format", "csv"), desktop
		}
		if opened, stderr := say(false, env, args...); opened != "" || !strings.Contains(stderr, why) {
			t.Errorf("%s: opened %q, and said %q", why, opened, stderr)
		}
	}
}
