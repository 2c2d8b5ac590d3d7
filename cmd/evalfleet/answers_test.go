package main

import (
	"bufio"
	"database/sql"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// TestAnswersOfFiveModels runs every pair of real answers to one instruction, in both orders, by two judges, and
// compares the rows with its own count of the input.
func TestAnswersOfFiveModels(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	source, err := filepath.Abs("testdata/pandalm/answers.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	want, identical := countPairs(t, source)
	if want != 5800 || want-identical != 5424 {
		t.Fatalf("the input has %d runs, %d with a call; want 5,800 and 5,424", want, want-identical)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "answers.yaml")
	content := fmt.Sprintf(`name: answers
documents: {jsonl: %q, item: item, candidate: generator, text: output, question: instruction}
judges: [simulator:careful, simulator:average]
pairwise: {pairs: all, order: both}
concurrency: {max_concurrency: 50}
`, source)
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	run := launch(t, dir, "run", file, "--allow-outside", "--out-dir", "out")
	if code := run.wait(); code != 0 {
		t.Fatalf("run ended with %d", code)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, "out", "results.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, q := range []struct {
		what, query string
		want        int
	}{
		{"rows", `SELECT count(*) FROM pairwise_results`, want},
		{"different questions", `SELECT count(*) FROM (SELECT DISTINCT item, doc_id_1, doc_id_2, judge FROM pairwise_results)`, want},
		{"runs with a call", `SELECT count(*) FROM (SELECT DISTINCT phase, index_ FROM calls)`, want - identical},
		{"calls", `SELECT count(*) FROM calls`, want - identical},
		{"identical ties", `SELECT count(*) FROM pairwise_results WHERE winner_doc_id = 'tie' AND reason = 'identical'`, identical},
	} {
		var got int
		if err := db.QueryRowContext(t.Context(), q.query).Scan(&got); err != nil || got != q.want {
			t.Errorf("%s: %d, %v; want %d", q.what, got, err, q.want)
		}
	}
	exported, err := os.Open(filepath.Join(dir, "out", "pairwise_results.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer exported.Close()
	if rows, err := csv.NewReader(exported).ReadAll(); err != nil || len(rows) != want+1 {
		t.Errorf("%d lines in the CSV, %v; want %d and a header", len(rows), err, want)
	}
}

// countPairs counts the runs of all pairs within an item, both orders, two
// judges, and those of identical texts among them.
func countPairs(t *testing.T, path string) (runs, identical int) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	answers := map[string][]string{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var answer struct{ Item, Output string }
		if err := json.Unmarshal(lines.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
		answers[answer.Item] = append(answers[answer.Item], answer.Output)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	for _, of := range answers {
		for i, a := range of {
			for j, b := range of {
				if i == j {
					continue
				}
				runs += 2
				if a == b {
					identical += 2
				}
			}
		}
	}
	return runs, identical
}
