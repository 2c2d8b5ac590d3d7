package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
)

// In a JSON log, the lines about the progress of a run have numbers that a program reads, and the first has the folder.
func TestJSONLogHasTheProgress(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{
		"docs/a.md": "A.", "docs/b.md": "B.", "eval.yaml": "documents: [docs/*.md]\njudges: [simulator:careful]\npairwise: {}\n",
	})
	out := filepath.Join(t.TempDir(), "out")
	type facts struct {
		Evaluation, Folder  string
		Runs, Ended, Failed *int
	}
	begin := func(args ...string) (begins facts) {
		t.Helper()
		code, _, stderr := evalfleet(t, nil, append([]string{"run", filepath.Join(dir, "eval.yaml"), "--out-dir", out}, args...)...)
		if code != int(exitOK) {
			t.Fatalf("run ended with %d: %s", code, stderr)
		}
		for line := range strings.Lines(stderr) {
			var now facts
			if json.Unmarshal([]byte(line), &now) == nil && now.Runs != nil {
				return now
			}
		}
		return facts{}
	}

	first := begin("--log-format", "json")
	if first.Folder != out || !strings.HasPrefix(first.Evaluation, "ev-") || *first.Runs != 2 || *first.Ended != 0 || *first.Failed != 0 {
		t.Errorf("a run begins with %+v, want the folder %s and 0 of 2 runs", first, out)
	}
	if again := begin("--log-format", "json"); *again.Runs != 2 || *again.Ended != 2 {
		t.Errorf("a repeated run begins with %d of %d runs, want 2 of 2", *again.Ended, *again.Runs)
	}
	if plain := begin(); plain.Runs != nil {
		t.Errorf("plain lines are JSON: %+v", plain)
	}
}

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
	locked := redistest.NewTCP(t)
	if err := locked.Client().ConfigSet(t.Context(), "requirepass", "secret").Err(); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := evalfleet(t, nil, "worker", "--redis", locked.URL(), "--metrics-addr", "off")
	if code != int(exitUnreachable) || !json.Valid([]byte(stderr)) || !strings.Contains(stderr, `"level":"error"`) {
		t.Errorf("a worker whose Redis refuses it ended with %d and\n%swant %d and one object", code, stderr, exitUnreachable)
	}
}
