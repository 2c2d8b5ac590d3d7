package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// TestDoctor: every check is made, also after one that failed, and each failure says
// what to do. Each model is called once.
func TestDoctor(t *testing.T) {
	t.Parallel()
	nothing := testrun.FreeAddress(t)
	server, err := simulator.Listen("127.0.0.1:0", simulator.Config{Keys: []string{"right"}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	dir := tree(t, map[string]string{
		"docs/a.md": "Alpha.", "docs/b.md": "Beta.",
		"eval.yaml": fmt.Sprintf(`
documents: ["docs/*.md"]
judges: ["good:careful", "good:average", "wrong:careful", "absent:m"]
pairwise: {pairs: all}
providers:
  good: {base_url: "%[1]s/v1", api_key_env: RIGHT}
  wrong: {base_url: "%[1]s/v1", api_key_env: WRONG}
  absent: {base_url: "http://%[2]s/v1"}
`, server.URL, nothing),
	})
	redis := redistest.NewTCP(t)
	env := map[string]string{"RIGHT": "right", "WRONG": "bad"}
	code, stdout, stderr := evalfleet(t, env, "doctor", dir+"/eval.yaml", "--redis", redis.URL(), "--allow-keys", "good=RIGHT", "--allow-keys", "wrong=WRONG")
	if code != int(exitUnreachable) || !strings.Contains(stderr, "2 checks") {
		t.Errorf("exit code %d, want %d, and 2 failed checks: %s", code, exitUnreachable, stderr)
	}
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	for i, want := range []struct{ begin, has string }{
		{"ok    evaluation: ", "2 documents"},
		{"ok    redis: ", "reachable"},
		{"ok    good:careful: ", "answered in"},
		{"ok    good:average: ", "answered in"},
		{"FAIL  wrong:careful: ", "WRONG"},
		{"FAIL  absent:m: ", "http://" + nothing},
	} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], want.begin) || !strings.Contains(lines[i], want.has) {
			t.Errorf("line %d: want %q … %q in\n%s", i+1, want.begin, want.has, stdout)
		}
	}
	if got := server.Stats(); got.All.Arrived != 2 || got.Keys.Wrong != 1 {
		t.Errorf("%d calls arrived with the right key and %d with another, want 2 and 1", got.All.Arrived, got.Keys.Wrong)
	}
}

// TestDoctorFindsTheAddress: an address with a version too much or too little is tried without
// or with it, and the one that answers is named.
func TestDoctorFindsTheAddress(t *testing.T) {
	t.Parallel()
	server, err := simulator.Listen("127.0.0.1:0", simulator.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	dir := tree(t, map[string]string{
		"docs/a.md": "Alpha.", "docs/b.md": "Beta.",
		"eval.yaml": fmt.Sprintf(`
documents: ["docs/*.md"]
judges: ["bare:careful", "versioned:careful", "elsewhere:careful"]
pairwise: {pairs: all}
providers:
  bare: {base_url: "%[1]s"}
  versioned: {dialect: messages, base_url: "%[1]s/v1"}
  elsewhere: {base_url: "%[1]s/nothing/v1"}
`, server.URL),
	})
	code, stdout, stderr := evalfleet(t, nil, "doctor", dir+"/eval.yaml")
	if code != int(exitUnreachable) {
		t.Errorf("exit code %d, want %d: %s", code, exitUnreachable, stderr)
	}
	for _, want := range []string{
		fmt.Sprintf("write base_url: %q", server.URL+"/v1"), fmt.Sprintf("write base_url: %q", server.URL), server.URL + "/nothing does not answer either",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("got\n%s\nwant %s in it", stdout, want)
		}
	}
	if want := fmt.Sprintf("if calls fail with 404, write base_url: %q", server.URL+"/v1"); !strings.Contains(stderr, want) {
		t.Errorf("got the warnings\n%s\nwant %s", stderr, want)
	}
}

// TestAMissingFileIsMissing, whatever flags are beside it.
func TestAMissingFileIsMissing(t *testing.T) {
	t.Parallel()
	missing := t.TempDir() + "/missing.jsonl"
	for _, flags := range [][]string{nil, {"--max-queries", "10"}, {"--judge", "simulator:careful"}, {"--kind", "batch"}, {"--provider", "openai"}} {
		for _, command := range []string{"run", "validate"} {
			if command == "validate" && len(flags) > 0 && flags[0] == "--provider" {
				continue
			}
			code, _, stderr := evalfleet(t, nil, append([]string{command, missing}, flags...)...)
			if code != int(exitUsage) || !strings.Contains(stderr, missing+": no such file") || strings.Count(stderr, "\n") != 1 {
				t.Errorf("%s %v: ended with %d:\n%s", command, flags, code, stderr)
			}
		}
	}
}
