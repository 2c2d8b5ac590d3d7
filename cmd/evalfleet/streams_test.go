package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// Standard error is JSON lines or plain lines, never both: plain by default, and with
// --log-format json each line is an object, the error that ends the command as well.
func TestStandardErrorHasOneFormat(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{
		"docs/a.md": "A.", "docs/b.md": "B.",
		"eval.yaml": "documents: [docs/*.md]\njudges: [simulator:careful, simulator:unknown]\npairwise: {}\nretry: {max_attempts: 1}\n",
	})
	file := filepath.Join(dir, "eval.yaml")
	for _, c := range []struct {
		name string
		env  map[string]string
		args []string
		json bool
	}{
		{"by default", nil, nil, false},
		{"plain", nil, []string{"--log-format", "console"}, false},
		{"JSON", nil, []string{"--log-format", "json"}, true},
		{"JSON by a variable", map[string]string{"EVALFLEET_LOG_FORMAT": "json"}, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"run", file, "--out-dir", filepath.Join(t.TempDir(), "out"), "--log-level", "debug"}, c.args...)
			code, _, stderr := evalfleet(t, c.env, args...)
			if code != int(exitRunsFailed) {
				t.Fatalf("run ended with %d: %s", code, stderr)
			}
			lines, objects, last := 0, 0, ""
			for line := range strings.Lines(stderr) {
				lines++
				last = line
				if json.Valid([]byte(line)) {
					objects++
				}
			}
			if want := map[bool]int{true: lines, false: 0}[c.json]; lines < 4 || objects != want {
				t.Errorf("%d of %d lines are JSON, want %d:\n%s", objects, lines, want, stderr)
			}
			if !strings.Contains(last, "the evaluation has stopped") || strings.Contains(last, `"level":"error"`) != c.json {
				t.Errorf("the last line is not the error in this format: %s", last)
			}
		})
	}
	code, _, stderr := evalfleet(t, nil, "worker", "--redis", "redis://127.0.0.1:1/0")
	if code != int(exitUnreachable) || !json.Valid([]byte(stderr)) || !strings.Contains(stderr, `"level":"error"`) {
		t.Errorf("a worker without its Redis ended with %d and\n%swant %d and one object", code, stderr, exitUnreachable)
	}
}
