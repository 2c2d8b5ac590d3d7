package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// drafts runs an evaluation of some documents, of these kinds of judgments, and returns its output folder.
func drafts(t *testing.T, documents int, kinds string) (dir, out string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "docs"), 0o700); err != nil {
		t.Fatal(err)
	}
	for k := range documents {
		text := fmt.Sprintf("The text of writer %d. %s", k, strings.Repeat("It goes on. ", 3*k))
		if err := os.WriteFile(filepath.Join(dir, "docs", fmt.Sprintf("name%d.md", k)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "drafts.yaml")
	if err := os.WriteFile(file, []byte("documents: [\"docs/*.md\"]\njudges: [simulator:careful]\n"+kinds+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out = filepath.Join(dir, "out")
	if code, _, stderr := evalfleet(t, nil, "run", file, "--out-dir", out); code != 0 {
		t.Fatalf("run ended with %d: %s", code, stderr)
	}
	return dir, out
}

// What cannot be voted on is refused with the reason, before a server starts.
func TestVoteRefuses(t *testing.T) {
	t.Parallel()
	_, pairs := drafts(t, 2, "pairwise: {}")
	_, scores := drafts(t, 2, "single: {criteria: [style]}")
	verdicts := filepath.Join(t.TempDir(), "battles.csv")
	if err := os.WriteFile(verdicts, []byte("question_id,model_a,model_b,winner\n1,a,b,model_a\n2,a,b,model_b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ranked := filepath.Join(t.TempDir(), "ranked")
	if code, _, stderr := evalfleet(t, nil, "rank", verdicts, "--out-dir", ranked); code != 0 {
		t.Fatalf("rank ended with %d: %s", code, stderr)
	}
	empty := t.TempDir()

	for want, args := range map[string][]string{
		"vote wants one DIR or ID":                    {},
		"wants one DIR or ID, got 2":                  {pairs, scores},
		"people vote on pairs of texts":               {scores},
		"the texts of this evaluation are not in":     {ranked},
		"has no results":                              {empty},
		"is neither a folder nor the id":              {"nowhere"},
		"name its Redis with --redis":                 {"ev-aaaaaaaaaaaa"},
		"--contested and --narrow exclude each other": {pairs, "--contested", "--narrow"},
		"--sample and --contested exclude each other": {pairs, "--contested", "--sample", "5"},
		"--sample must be from 1 to 10000, got 0":     {pairs, "--sample", "0"},
		"--votes-per-pair must be from 1 to 1000":     {pairs, "--votes-per-pair", "0"},
		"judges agree on every pair":                  {pairs, "--contested"},
		"--listen nonsense":                           {pairs, "--listen", "nonsense"},
		"--auth-file":                                 {pairs, "--auth-file", filepath.Join(empty, "none")},
	} {
		code, stdout, stderr := evalfleet(t, nil, append([]string{"vote"}, args...)...)
		if code != int(exitUsage) || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("vote %q ended with %d, %q, %q; want %q", args, code, stdout, stderr, want)
		}
	}
}
