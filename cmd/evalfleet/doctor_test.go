package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/redistest"
	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testrun"
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
