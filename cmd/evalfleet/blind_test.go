package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The simulated judge "loyal" prefers documents with its name in theirs. Blind, which is
// the default, it cannot: the better document wins, and results name it by its id.
func TestBlindJudgeCannotFavourAName(t *testing.T) {
	t.Parallel()
	for blind, want := range map[string]string{"": "other.md", "blind: true\n": "other.md", "blind: false\n": "loyal.md"} {
		dir := tree(t, map[string]string{
			"docs/other.md": "The tide rises twice a day, because the moon pulls the sea towards it.",
			"docs/loyal.md": "Tide it rise rise twise a day of of the mooon pulls pulls on on sea",
			"eval.yaml":     "documents: [docs/*.md]\njudges: [simulator:loyal]\npairwise: {}\n" + blind,
		})
		out := filepath.Join(dir, "out")
		if code, _, stderr := evalfleet(t, nil, "run", filepath.Join(dir, "eval.yaml"), "--out-dir", out); code != 0 {
			t.Fatalf("%qrun ended with %d: %s", blind, code, stderr)
		}
		rows, err := os.ReadFile(filepath.Join(out, "pairwise_results.csv"))
		if err != nil {
			t.Fatal(err)
		}
		if wins := strings.Count(string(rows), ",1,"+want+","); wins != 2 {
			t.Errorf("%q%s wins %d of 2 runs:\n%s", blind, want, wins, rows)
		}
		_, shown, _ := evalfleet(t, nil, "report", out, "--details")
		if said := strings.Contains(shown, "Judges saw the documents' ids"); said != (want == "loyal.md") {
			t.Errorf("%qthe report says that judges saw ids: %t:\n%s", blind, said, shown)
		}
	}
}
