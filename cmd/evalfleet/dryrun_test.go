package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDryRunShowsPromptsAndLeavesNothing has a pair of identical texts first,
// about which no judge is asked, and no Redis at all for enqueue.
func TestDryRunShowsPromptsAndLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{
		"docs/a.md": "Twice.", "docs/b.md": "Twice.", "docs/c.md": "Once, $HOME {x} [[documents]].",
		"evaluation.yaml": `
documents: [docs/*.md]
judges: [simulator:careful, {name: strict, model: simulator:average, overrides: {temperature: 0}}]
single: {criteria: [style]}
pairwise: {order: as_listed, template: own.md}
`,
		"own.md": "Compare for $HOME and {x}.\n[[user]]\nThese:\n[[documents]]\nMind [1].\n",
	})
	file := filepath.Join(dir, "evaluation.yaml")
	before := listing(t, dir)
	for _, test := range []struct {
		args []string
		want []string // headers, in order
	}{
		{[]string{"run", file, "--dry-run"}, []string{"0.0: single", "1.2: pairwise", "0.1: single"}},
		{[]string{"enqueue", "--dry-run", file}, []string{"0.0: single", "1.2: pairwise", "0.1: single"}},
		{[]string{"run", "--dry-run=1", file}, []string{"0.0: single"}},
		{[]string{"run", file, "--dry-run", "99"}, []string{
			"0.0: single", "1.2: pairwise", "0.1: single", "1.3: pairwise", "0.2: single", "1.4: pairwise", "0.3: single",
			"1.5: pairwise", "0.4: single", "0.5: single",
		}},
		{[]string{"run", file, "--dry-run", "--limit", "1"}, []string{"0.0: single"}},
	} {
		code, stdout, stderr := evalfleet(t, nil, append(test.args, "--out-dir", filepath.Join(dir, "out"))...)
		var got []string
		for line := range strings.Lines(stdout) {
			if header, ok := strings.CutPrefix(line, "=== run "); ok {
				got = append(got, strings.TrimSuffix(header, ", trial 1\n"))
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" || code != int(exitOK) {
			t.Errorf("%q ended with %d; runs (-want +got):\n%s%s", test.args, code, diff, stderr)
		}
		if len(test.want) == 3 {
			for _, part := range []string{
				"judge: strict (simulator:average)", `overrides: {"temperature":0}`, "documents: a.md, then c.md",
				"Once, $HOME {x} [[documents]].", "--- schema pairwise_verdict\n{",
				"--- system\nCompare for $HOME and {x}.\n\n--- user\nThese:\n<document id=\"A\" fence=", "\nMind [1].\n\nAnswer with one JSON object", // its own template
				"--- system\nYou are a careful and impartial judge.", "\n- style\n", "\nScale: 1 (worst) to 5 (best). Use", // the built-in one
			} {
				if !strings.Contains(stdout, part) {
					t.Errorf("%q: no %q in\n%s", test.args, part, stdout)
				}
			}
		}
	}
	if code, _, stderr := evalfleet(t, nil, "run", file, "--dry-run=0"); code != int(exitUsage) || !strings.Contains(stderr, "at least 1") {
		t.Errorf("--dry-run=0 ended with %d: %s", code, stderr)
	}
	if diff := cmp.Diff(before, listing(t, dir)); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
}

// listing is every path below a folder.
func listing(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		all = append(all, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Of a verdict in two calls, both prompts are shown.
func TestDryRunShowsBothCalls(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{
		"docs/a.md": "One.", "docs/b.md": "Two.",
		"evaluation.yaml": "documents: [docs/*.md]\njudges: [\"anthropic:claude-3-5-haiku-latest\"]\npairwise: {}\njson: true\n",
	})
	code, stdout, stderr := evalfleet(t, nil, "run", filepath.Join(dir, "evaluation.yaml"), "--dry-run", "1")
	first, second, both := strings.Cut(stdout, "\n=== second call, to openai:gpt-4.1-mini\n")
	if code != int(exitOK) || !both {
		t.Fatalf("ended with %d:\n%s%s", code, stdout, stderr)
	}
	for _, want := range []string{"One.", "Two.", "Answer in prose."} {
		if !strings.Contains(first, want) || strings.Contains(second, want) {
			t.Errorf("%q is not in the first alone:\n%s", want, stdout)
		}
	}
	for _, want := range []string{"(the answer to the above)", "JSON schema: {", "--- schema pairwise_verdict\n{"} {
		if strings.Contains(first, want) || !strings.Contains(second, want) {
			t.Errorf("%q is not in the second alone:\n%s", want, stdout)
		}
	}
}
