package main

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// separated is what a summary says of candidates that never lost. An example with this note teaches little.
const separated = "never lost to or tied with the rest"

// runExample runs the evaluation of an example into the folder out of dir.
func runExample(t *testing.T, name string) (dir string, run *program) {
	t.Helper()
	example, err := filepath.Abs(filepath.Join("../../examples", name))
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	run = launch(t, dir, "run", filepath.Join(example, "evaluation.yaml"), "--out-dir", "out")
	if code := run.wait(); code != 0 {
		t.Fatalf("run ended with %d", code)
	}
	return dir, run
}

// TestFirstExample runs the README's first command, which prints what the README shows.
func TestFirstExample(t *testing.T) {
	t.Parallel()
	dir, run := runExample(t, "questions")
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}

	_, sample, _ := strings.Cut(string(readme), "```text\n")
	sample, _, ok := strings.Cut(sample, "```")
	if printed := run.stdout.String(); !ok || !strings.Contains(printed, sample) || strings.Contains(printed, separated) {
		t.Errorf("the README shows\n%s\nand run prints\n%s", sample, printed)
	}
	for _, name := range []string{
		"results.db", "answers.csv", "votes.csv", "items.csv", "verdicts.csv", "calls.csv", "pairwise_results.csv", "elo_summary.csv", "ranking.csv", "manifest.json", "events.jsonl", "report.html", "answers.html",
	} {
		if info, err := os.Stat(filepath.Join(dir, "out", name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEssaysRankInTrueOrder wants the four versions of each essay in their true order, or one neighbouring swap away.
func TestEssaysRankInTrueOrder(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	dir, _ := runExample(t, "essays")
	place := map[string]int{} // by candidate, best first
	for i, row := range readCSV(t, filepath.Join(dir, "out", "ranking.csv")) {
		place[row["candidate"]] = i
	}
	versions := map[string][4]int{} // places of an essay's versions, best version first
	for _, row := range readCSV(t, "../../examples/essays/truth.csv") {
		of := versions[row["essay"]]
		of[row["true_rank"][0]-'1'] = place[row["document"]]
		versions[row["essay"]] = of
	}
	if len(versions) != 4 {
		t.Fatalf("%d essays in the truth, want 4", len(versions))
	}
	for essay, places := range versions {
		inversions := 0
		for i := range places {
			for j := i + 1; j < len(places); j++ {
				if places[i] > places[j] {
					inversions++
				}
			}
		}
		if inversions > 1 {
			t.Errorf("essay %s: versions from best to worst are at %v: %d inversions, want at most 1", essay, places, inversions)
		}
	}
}

// readCSV reads rows by the names in the header.
func readCSV(t *testing.T, path string) []map[string]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	rows := make([]map[string]string, 0, len(lines))
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, name := range lines[0] {
			row[name] = line[i]
		}
		rows = append(rows, row)
	}
	return rows
}
