package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A pipeline ends when a report does not meet what it requires, and reads why.
func TestReportRequires(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{
		"docs/good.md": "The tide rises twice a day, because the moon pulls the sea towards it.",
		"docs/bad.md":  "Tide it rise rise twise a day of of the mooon pulls pulls on on sea",
		"eval.yaml":    "documents: [docs/*.md]\njudges: [simulator:careful]\npairwise: {}\n",
	})
	out, junit := filepath.Join(dir, "out"), filepath.Join(dir, "junit.xml")
	if code, _, stderr := evalfleet(t, nil, "run", filepath.Join(dir, "eval.yaml"), "--out-dir", out); code != 0 {
		t.Fatalf("run ended with %d: %s", code, stderr)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--require", "failed <= 1%", "--require", "missing <= 0"}, 0, "met      failed <= 1%: failed is 0.0 %\nmet      missing <= 0: missing is 0\n"},
		{[]string{"--require", "failed <= 1%", "--require", "good.md >= bad.md @ 0.95", "--junit", junit}, 1, "NOT MET  good.md >= bad.md @ 0.95: "},
		{[]string{"--require", "failed <= 1%", "--require", "good >= bad @ 0.95"}, 2, `there is no candidate "good": want one of bad.md, good.md`},
		{[]string{"--require", "failed < 1"}, 2, "want NEW >= OLD @ 0.95"},
		{[]string{"--require", "good.md >= none, bad.md @ 0.95"}, 2, `there is no candidate "none, bad.md"`},
		{[]string{"--require", "kappa >= forty", "--require", "failed <= 1%"}, 2, `"kappa >= forty": "forty" is not a number`},
		{[]string{"--junit", junit}, 2, "--junit needs at least one --require"},
		{[]string{out, "--require", "failed <= 1%"}, 2, "--require takes one evaluation"},
		{[]string{"--require", "failed <= 1%", "--junit", filepath.Join(dir, "none", "junit.xml")}, 2, "--junit: "},
	} {
		code, stdout, stderr := evalfleet(t, nil, append([]string{"report", out}, c.args...)...)
		if code != c.code || !strings.Contains(stdout+stderr, c.says) {
			t.Errorf("report %v ended with %d, want %d and %q:\n%s%s", c.args, code, c.code, c.says, stdout, stderr)
		}
	}
	if text, err := os.ReadFile(junit); err != nil || !strings.Contains(string(text), `tests="2" failures="1"`) {
		t.Errorf("junit.xml: %v\n%s", err, text)
	}
}
