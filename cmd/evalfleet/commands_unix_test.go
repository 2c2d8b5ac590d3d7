//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
)

// commanded writes an evaluation with a check by command that notes each text it reads, and refuses those with braces.
func commanded(t *testing.T) (dir string, ran func() int) {
	t.Helper()
	dir = tree(t, map[string]string{
		"eval.yaml": `documents: {jsonl: answers.jsonl}
judges: ["simulator:careful"]
pairwise: {}
checks: [{command: [./check.sh, "{{question}}"], gate: true, name: tested}]
`,
		"answers.jsonl": `{"id": "a", "item": "q", "question": "Two?", "candidate": "x", "text": "{}"}
{"id": "b", "item": "q", "question": "Two?", "candidate": "y", "text": "Two."}
{"id": "c", "item": "q", "question": "Two?", "candidate": "z", "text": "2"}
{"id": "d", "item": "q", "question": "Two?", "candidate": "again", "text": "2"}
`,
		"check.sh": "#!/bin/sh\necho \"$1\" >> ran\nif grep -q '{'; then echo 'not prose'; exit 1; fi\n",
	})
	if err := os.Chmod(filepath.Join(dir, "check.sh"), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir, func() int {
		text, err := os.ReadFile(filepath.Join(dir, "ran"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.Count(string(text), "Two?\n")
	}
}

// TestCommandsOfChecks: a command of a check runs only if that is allowed, once for each distinct text. Its outcome is
// stored: nothing runs it again, and the report and its tables have it.
func TestCommandsOfChecks(t *testing.T) {
	t.Parallel()
	dir, ran := commanded(t)
	file, out := filepath.Join(dir, "eval.yaml"), filepath.Join(dir, "out")
	for _, command := range [][]string{{"validate", file}, {"estimate", file}, {"run", file, "--dry-run"}} {
		if code, _, stderr := evalfleet(t, nil, command...); code != int(exitOK) || ran() != 0 {
			t.Errorf("%s: code %d, and ran %d commands\n%s", command[0], code, ran(), stderr)
		}
	}
	code, _, stderr := evalfleet(t, nil, "run", file, "--out-dir", out)
	if code != int(exitUsage) || ran() != 0 || !strings.Contains(stderr, "--allow-commands:") ||
		!strings.Contains(stderr, "  ./check.sh '{{question}}'\n") {
		t.Fatalf("without --allow-commands: code %d, and ran %d commands\n%s", code, ran(), stderr)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("the refused command has made its output folder")
	}

	var first string
	for range 2 {
		code, stdout, stderr := evalfleet(t, nil, "run", file, "--out-dir", out, "--allow-commands")
		if code != int(exitOK) || ran() != 3 {
			t.Fatalf("code %d, and ran %d commands, want 3\n%s", code, ran(), stderr)
		}
		if first == "" {
			first = stdout
		}
	}
	for _, command := range [][]string{{"report", out}, {"resume", out}} {
		if code, _, stderr := evalfleet(t, nil, command...); code != int(exitOK) || ran() != 3 {
			t.Errorf("%s: code %d, and ran %d commands\n%s", command[0], code, ran(), stderr)
		}
	}

	for name, want := range map[string]string{
		"scores.csv":   "\n,q,x,a,check,tested,0,",
		"verdicts.csv": "gate: tested",
		"report.html":  "1 of 4 texts failed a gate",
	} {
		if text, err := os.ReadFile(filepath.Join(out, name)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v; want %q", name, err, want)
		}
	}
}

// TestCommandsThatFail: a program that does not start stops the evaluation before it is stored, and one that refuses
// every text is warned of.
func TestCommandsThatFail(t *testing.T) {
	t.Parallel()
	dir, _ := commanded(t)
	file, out := filepath.Join(dir, "eval.yaml"), filepath.Join(dir, "out")
	if err := os.Chmod(filepath.Join(dir, "check.sh"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := evalfleet(t, nil, "run", file, "--out-dir", out, "--allow-commands")
	if code != int(exitUsage) || !strings.Contains(stderr, `check tested: run "./check.sh": permission denied`) {
		t.Errorf("a program that is not executable: code %d\n%s", code, stderr)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("an evaluation whose commands do not start has made its output folder")
	}

	if err := os.WriteFile(filepath.Join(dir, "check.sh"), []byte("#!/bin/sh\necho broken; exit 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "check.sh"), 0o700); err != nil {
		t.Fatal(err)
	}
	code, _, stderr = evalfleet(t, nil, "run", file, "--out-dir", out, "--allow-commands")
	if code != int(exitOK) || !strings.Contains(stderr, "warning: no text passes check tested, which says: broken") {
		t.Errorf("a program that refuses every text: code %d\n%s", code, stderr)
	}
}

// TestCommandsJudgeAnswersToPrompts: in a file with prompts, commands run once there are answers, and not again when the
// command is repeated.
func TestCommandsJudgeAnswersToPrompts(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{
		"prompts.yaml": `prompts: {short: "Answer shortly: {{question}}", long: "Answer: {{question}}"}
models: ["simulator:careful"]
items: [One?, Two?]
judges: ["simulator:careful"]
pairwise: {}
checks: [{command: [sh, -c, "echo ran >> ran; grep -q ."]}]
`,
	})
	out := filepath.Join(dir, "out")
	ran := ""
	for range 2 {
		code, _, stderr := evalfleet(t, nil, "run", filepath.Join(dir, "prompts.yaml"), "--out-dir", out, "--allow-commands")
		text, err := os.ReadFile(filepath.Join(dir, "ran"))
		if code != int(exitOK) || err != nil || ran != "" && ran != string(text) {
			t.Fatalf("code %d, and ran %q (%v); want what the first command ran, %q\n%s", code, text, err, ran, stderr)
		}
		ran = string(text)
	}
	scores, err := os.ReadFile(filepath.Join(out, "scores.csv"))
	if err != nil || strings.Count(string(scores), ",check,") != 4 {
		t.Errorf("scores.csv: %v; want 4 rows of checks\n%s", err, scores)
	}
}

// TestCommandsOfAFleet: `enqueue` runs commands before the evaluation is stored, and not again when Redis has it.
func TestCommandsOfAFleet(t *testing.T) {
	t.Parallel()
	dir, ran := commanded(t)
	redis := redistest.NewTCP(t)
	enqueue := []string{"enqueue", filepath.Join(dir, "eval.yaml"), "--redis", redis.URL(), "--out-dir", filepath.Join(dir, "out")}
	if code, _, stderr := evalfleet(t, nil, enqueue...); code != int(exitUsage) || ran() != 0 || !strings.Contains(stderr, "--allow-commands") {
		t.Fatalf("without --allow-commands: code %d, and ran %d commands\n%s", code, ran(), stderr)
	}
	for range 2 {
		code, id, stderr := evalfleet(t, nil, append(enqueue, "--allow-commands")...)
		if code != int(exitOK) || ran() != 3 {
			t.Fatalf("code %d, and ran %d commands, want 3\n%s", code, ran(), stderr)
		}
		_, status, _ := evalfleet(t, nil, "status", strings.TrimSpace(id), "--json", "--redis", redis.URL())
		if !strings.Contains(strings.Join(strings.Fields(status), ""), `"runs":12`) {
			t.Errorf("status: %s", status)
		}
	}
}
