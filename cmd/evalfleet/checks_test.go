package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestChecksFromFileToReport: texts are checked when the evaluation is submitted, judges are not asked about one that
// fails a gate, and the report and its tables say so. Repeating the command resumes the same evaluation.
func TestChecksFromFileToReport(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{
		"eval.yaml": `documents: {jsonl: answers.jsonl}
judges: ["simulator:careful"]
pairwise: {}
checks: [{json_schema: {type: object}, gate: true}, {max_words: 3, name: laconic}]
`,
		"answers.jsonl": `{"id": "a", "item": "q", "candidate": "x", "text": "{}"}
{"id": "b", "item": "q", "candidate": "y", "text": "{\"long\": \"one two three\"}"}
{"id": "c", "item": "q", "candidate": "z", "text": "No."}
`,
	})
	file, out := filepath.Join(dir, "eval.yaml"), filepath.Join(dir, "out")
	_, valid, stderr := evalfleet(t, nil, "validate", file)
	if !strings.Contains(strings.Join(strings.Fields(valid), " "), "checked by json_schema (gate), laconic") {
		t.Errorf("validate does not name the checks:\n%s%s", valid, stderr)
	}
	_, estimated, stderr := evalfleet(t, nil, "estimate", file)
	if !regexp.MustCompile(`(?m)^all +6 +4 +2 `).MatchString(estimated) {
		t.Errorf("the estimate is not of 6 runs, of which 4 need no call:\n%s%s", estimated, stderr)
	}

	read := runTwice(t, file, out)
	if calls := strings.Count(read("calls.csv"), "\n") - 1; calls != 2 {
		t.Errorf("%d calls, want 2", calls)
	}
	if scores := read("scores.csv"); !strings.Contains(scores, "\n,q,z,c,check,json_schema,0,") || !strings.Contains(scores, "\n,q,z,c,check,laconic,1,") {
		t.Errorf("scores.csv has no rows of the checks:\n%s", scores)
	}
	if lost := strings.Count(read("verdicts.csv"), "gate: json_schema"); lost != 4 {
		t.Errorf("%d verdicts by the gate, want 4", lost)
	}
	if page := read("report.html"); !strings.Contains(page, "1 of 3 texts failed a gate") || !strings.Contains(page, `id="checks"`) {
		t.Error("the report says nothing about checks")
	}
}

// runTwice runs an evaluation file into a folder and resumes it, and returns a function that reads the folder's files.
func runTwice(t *testing.T, file, out string) (read func(name string) string) {
	t.Helper()
	for range 2 {
		if code, _, stderr := evalfleet(t, nil, "run", file, "--out-dir", out); code != int(exitOK) {
			t.Fatalf("code %d\n%s", code, stderr)
		}
	}
	return func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}
