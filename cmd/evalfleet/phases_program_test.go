package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// someAnswers writes the first answers of the data to dir, and an evaluation of them,
// and returns how many each item has.
func someAnswers(t *testing.T, dir string, lines int, asked string) (file string, perItem map[string]int) {
	t.Helper()
	all, err := os.ReadFile("testdata/pandalm/answers.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	perItem = map[string]int{}
	some := slices.Collect(bytes.Lines(all))[:lines]
	for _, line := range some {
		var answer struct{ Item string }
		if err := json.Unmarshal(line, &answer); err != nil {
			t.Fatal(err)
		}
		perItem[answer.Item]++
	}
	file = filepath.Join(dir, "answers.yaml")
	content := "name: answers\ndocuments: {jsonl: some.jsonl, item: item, candidate: generator, text: output, question: instruction}\n" +
		"judges: [simulator:average]\n" + asked
	for name, text := range map[string][]byte{"some.jsonl": bytes.Join(some, nil), "answers.yaml": []byte(content)} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return file, perItem
}

// rowsOf are the rows of a query of texts on a run's results.
func rowsOf(t *testing.T, dir, query string) (all []string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, "results.db")+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		return nil // not there yet
	}
	defer rows.Close()
	for rows.Next() {
		var row string
		if err := rows.Scan(&row); err != nil {
			t.Fatal(err)
		}
		all = append(all, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestRoundsAfterKill9: an evaluation in rounds that is killed in its second one resumes with
// the pairs that were chosen, and has the same rows as one that was not killed.
func TestRoundsAfterKill9(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	const verdicts = `SELECT id || ' ' || doc_id_1 || ' ' || doc_id_2 || ' ' || winner_doc_id FROM pairwise_results ORDER BY id`
	f := &testFleet{t: t, dir: t.TempDir()}
	f.simulate("--latency", "1ms")
	dir := f.dir
	file, perItem := someAnswers(t, dir, 150, "pairwise: {pairs: swiss:0.9, order: random}\nconcurrency: {max_concurrency: 2}\n")
	run := func(out string) *program {
		return launch(t, dir, "run", file, "--config", "fleet.yaml", "--out-dir", out)
	}
	calls := f.gate()
	calls.open()
	if code := run("whole").wait(); code != 0 {
		t.Fatalf("run ended with %d", code)
	}
	// The second round is let through to its middle, and killed there.
	callsOf := func(round int) int {
		return len(rowsOf(t, filepath.Join(dir, "whole"), fmt.Sprintf(`SELECT id FROM calls WHERE phase = %d`, round)))
	}
	calls = f.gate()
	killed := run("out")
	calls.allow(callsOf(0) + callsOf(1)/2)
	f.untilHeld(calls, 2)
	testrun.Eventually(t, "verdicts of the second round are recorded", func() bool {
		return len(rowsOf(t, filepath.Join(dir, "out"), `SELECT id FROM pairwise_results WHERE id LIKE '1.%'`)) > 0
	})
	killed.signal(syscall.SIGKILL)
	killed.wait()
	left := len(rowsOf(t, filepath.Join(dir, "out"), verdicts))
	calls.open()
	if code := launch(t, dir, "resume", "out", "--config", "fleet.yaml").wait(); code != 0 {
		t.Fatalf("resume ended with %d", code)
	}
	want := rowsOf(t, filepath.Join(dir, "whole"), verdicts)
	if diff := cmp.Diff(want, rowsOf(t, filepath.Join(dir, "out"), verdicts)); diff != "" {
		t.Errorf("verdicts (-whole +killed):\n%s", diff)
	}
	all, connected := 0, 0
	for _, n := range perItem {
		all += n * (n - 1) / 2
		connected += n - 1
	}
	if pairs := max(int(math.Round(0.9*float64(all))), connected); len(want) != pairs || left >= pairs {
		t.Errorf("%d verdicts, %d when killed; want %d in the end", len(want), left, pairs)
	}
	if pairs := rowsOf(t, filepath.Join(dir, "out"), `SELECT DISTINCT min(doc_id_1, doc_id_2) || ' ' || max(doc_id_1, doc_id_2) FROM pairwise_results`); len(pairs) != len(want) {
		t.Errorf("%d different pairs, want %d", len(pairs), len(want))
	}
}

// TestBestAreCompared: after the scores, the three best answers of each item are
// compared, and no others.
func TestBestAreCompared(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, _ := someAnswers(t, dir, 60, "single: {criteria: [clarity, truth]}\npairwise: {top_n: 3, order: random}\nconcurrency: {max_concurrency: 2}\n")
	if code := launch(t, dir, "run", file, "--out-dir", "out").wait(); code != 0 {
		t.Fatalf("run ended with %d", code)
	}
	want := rowsOf(t, filepath.Join(dir, "out"), `
		WITH means AS (SELECT item, doc_id, row_number() OVER (PARTITION BY item ORDER BY avg(score) DESC, doc_id) AS place
			FROM single_doc_results GROUP BY item, doc_id)
		SELECT a.doc_id || ' ' || b.doc_id FROM means a JOIN means b ON a.item = b.item AND a.doc_id < b.doc_id
		WHERE a.place <= 3 AND b.place <= 3 ORDER BY 1`)
	got := rowsOf(t, filepath.Join(dir, "out"), `SELECT min(doc_id_1, doc_id_2) || ' ' || max(doc_id_1, doc_id_2) FROM pairwise_results ORDER BY 1`)
	if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
		t.Errorf("%d pairs (-want +got):\n%s", len(want), diff)
	}
	if code, stdout, stderr := evalfleet(t, nil, "show", "1.0", filepath.Join(dir, "out")); code != 0 || stderr != "" {
		t.Errorf("show of a run that was chosen ended with %d: %s%s", code, stdout, stderr)
	}
}
