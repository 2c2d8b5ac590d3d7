//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Links in a received folder lead no command to files elsewhere, and none to a device.
func TestLinksInAReceivedFolderAreNotFollowed(t *testing.T) {
	t.Parallel()
	dir := tree(t, runFiles("mine", "mine", "eval.yaml", "provider: simulator\nmodel: careful\ngrounding: off\nreasoning: off\nruns: [{file_a: a.md, file_b: b.md}]\n"))
	if code := launch(t, dir, "run", "eval.yaml", "--out-dir", "out").wait(); code != 0 {
		t.Fatalf("run ended with %d", code)
	}
	for _, name := range []string{"resume.json.new", "results.rest", "budget.spent", "events.jsonl", "redis.url", "resume.json", "results.db"} {
		path := filepath.Join(dir, "out", name)
		kept, _ := os.ReadFile(path)
		_ = os.Remove(path)
		if err := os.Symlink(filepath.Join(dir, "mine"), path); err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"resume", "retry", "report", "status"} {
			p := launch(t, dir, command, "out")
			if code := p.wait(); code != int(exitUsage) || !strings.Contains(p.stderr.String(), name+" is not a regular file") {
				t.Errorf("%s with a link as %s ended with %d:\n%s", command, name, code, p.stderr.String())
			}
			unchanged(t, dir, map[string]string{"mine": "mine"})
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if kept != nil {
			if err := os.WriteFile(path, kept, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}
