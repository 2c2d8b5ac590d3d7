package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// threeEssays is a folder of texts of which the first is the best.
func threeEssays() map[string]string {
	return map[string]string{
		"essays/a.md": "The river rises in the hills. It ends in the sea.",
		"essays/b.md": "the the river rises in in the hills. it ends ends in the sea.",
		"essays/c.md": "the the the river rises rises in in the the hills hills",
	}
}

// After a run that is not on a terminal, a person reads what happened and no line of a log: which limits and queues apply
// is for operators. In JSON, a program gets them.
func TestRunSaysNothingInternal(t *testing.T) {
	t.Parallel()
	dir := tree(t, threeEssays())
	run := []string{"run", filepath.Join(dir, "essays"), "--judge", "simulator:careful", "--out-dir", filepath.Join(dir, "out")}
	code, _, stderr := evalfleet(t, nil, run...)
	for line := range strings.Lines(stderr) {
		if regexp.MustCompile(`^\d\d:\d\d:\d\d (DBG|INF) `).MatchString(line) {
			t.Errorf("a line of the log for a person: %s", line)
		}
	}
	if code != 0 || !strings.Contains(stderr, "results in "+filepath.Join(dir, "out")) {
		t.Errorf("run ended with %d and does not say where results are:\n%s", code, stderr)
	}

	code, _, stderr = evalfleet(t, nil, append(run, "--again", "b", "--log-format", "json")...)
	if code != 0 || !strings.Contains(stderr, `"message":"limits are in force"`) || !strings.Contains(stderr, `"message":"serving queue"`) {
		t.Errorf("JSON run ended with %d, without what operators need:\n%s", code, stderr)
	}
}

// The card has a note in full if there is one, and the names of the files beside the report.
func TestCardHasTheNoteAndTheFiles(t *testing.T) {
	t.Parallel()
	dir := tree(t, threeEssays())
	out := filepath.Join(dir, "out")
	code, stdout, stderr := evalfleet(t, nil, "run", filepath.Join(dir, "essays"), "--judge", "simulator:careful", "--out-dir", out)
	if code != 0 {
		t.Fatalf("run ended with %d: %s", code, stderr)
	}
	_, printed, _ := evalfleet(t, nil, "report", out, "--format", "json")
	var built struct{ Notes []string }
	if err := json.Unmarshal([]byte(printed), &built); err != nil || len(built.Notes) != 1 {
		t.Fatalf("got notes %q (%v), want one", built.Notes, err)
	}

	said := strings.Join(strings.Fields(stdout), " ")
	if !strings.Contains(said, "Note "+built.Notes[0]) {
		t.Errorf("the card does not print the note %q:\n%s", built.Notes[0], stdout)
	}
	_, files, _ := strings.Cut(said, " Files ")
	files, _, _ = strings.Cut(files, " and ")
	for name := range strings.SplitSeq(strings.ReplaceAll(files, "/.jsonl", ""), ", ") {
		if _, err := os.Stat(filepath.Join(out, name)); err != nil {
			t.Errorf("the card names %q, which is not in the folder: %v", name, err)
		}
	}
}
