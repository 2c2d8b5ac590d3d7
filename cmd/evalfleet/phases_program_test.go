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
	f := &testFleet{t: t, dir: t.TempDir()}
	f.simulate("--latency", "1ms")
	dir := f.dir
	file, perItem := someAnswers(t, dir, 150, "pairwise: {pairs: swiss:0.9, order: random}\nconcurrency: {max_concurrency: 2}\n")
	left := 0
	f.killInSecondPhase(file, func() { left = len(rowsOf(t, filepath.Join(dir, "out"), verdictsOfPairs)) })
	want := rowsOf(t, filepath.Join(dir, "whole"), verdictsOfPairs)
	if diff := cmp.Diff(want, rowsOf(t, filepath.Join(dir, "out"), verdictsOfPairs)); diff != "" {
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

// verdictsOfPairs selects the verdicts on pairs, by run.
const verdictsOfPairs = `SELECT id || ' ' || doc_id_1 || ' ' || doc_id_2 || ' ' || winner_doc_id FROM pairwise_results ORDER BY id`

// killInSecondPhase runs an evaluation whose first two phases compare pairs into the folder whole, and again into the folder
// out, where it is let through to the middle of its second phase and killed. After killed, it is resumed. The number of
// calls of both phases of the whole run is returned.
func (f *testFleet) killInSecondPhase(file string, killed func()) (whole int) {
	f.t.Helper()
	run := func(out string) *program {
		return launch(f.t, f.dir, "run", file, "--config", "fleet.yaml", "--out-dir", out)
	}
	calls := f.gate()
	calls.open()
	if code := run("whole").wait(); code != 0 {
		f.t.Fatalf("run ended with %d", code)
	}
	callsOf := func(phase int) int {
		return len(rowsOf(f.t, filepath.Join(f.dir, "whole"), fmt.Sprintf(`SELECT id FROM calls WHERE phase = %d`, phase)))
	}

	calls = f.gate()
	second := run("out")
	calls.allow(callsOf(0) + callsOf(1)/2)
	f.untilHeld(calls, 2)
	testrun.Eventually(f.t, "verdicts of the second phase are recorded", func() bool {
		return len(rowsOf(f.t, filepath.Join(f.dir, "out"), `SELECT id FROM pairwise_results WHERE id LIKE '1.%'`)) > 0
	})
	second.signal(syscall.SIGKILL)
	second.wait()
	killed()
	calls.open()
	if code := launch(f.t, f.dir, "resume", "out", "--config", "fleet.yaml").wait(); code != 0 {
		f.t.Fatalf("resume ended with %d", code)
	}
	return callsOf(0) + callsOf(1)
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

// TestEscalationAfterKill9: an evaluation that is killed while its strong judge is asked resumes with the pairs that were
// chosen, asks nothing again, and has the same verdicts and ranking as one that was not killed.
func TestEscalationAfterKill9(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	f := &testFleet{t: t, dir: t.TempDir()}
	f.simulate("--latency", "1ms")
	dir := f.dir
	file, _ := someAnswers(t, dir, 40, "pairwise: {pairs: all, order: random}\nconcurrency: {max_concurrency: 2}\n"+
		"escalate: {to: {name: strong, model: \"simulator:careful\"}, when: disagree, share: 30 %}\n")
	asked, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	asked = bytes.Replace(asked, []byte("[simulator:average]"), []byte("[simulator:average, simulator:careless]"), 1)
	if err := os.WriteFile(file, asked, 0o644); err != nil {
		t.Fatal(err)
	}
	const chosen = `SELECT choice FROM phases WHERE phase = 1`
	var before []string
	whole := f.killInSecondPhase(file, func() { before = rowsOf(t, filepath.Join(dir, "out"), chosen) })

	want := rowsOf(t, filepath.Join(dir, "whole"), verdictsOfPairs)
	if diff := cmp.Diff(want, rowsOf(t, filepath.Join(dir, "out"), verdictsOfPairs)); diff != "" || len(want) < whole {
		t.Errorf("%d verdicts of %d calls (-whole +killed):\n%s", len(want), whole, diff)
	}
	for what, query := range map[string]string{
		"pairs":     chosen,
		"questions": `SELECT phase || ' ' || count(*) FROM calls WHERE class = '' GROUP BY phase`,
	} {
		if diff := cmp.Diff(rowsOf(t, filepath.Join(dir, "whole"), query), rowsOf(t, filepath.Join(dir, "out"), query)); diff != "" {
			t.Errorf("%s (-whole +killed):\n%s", what, diff)
		}
	}
	if after := rowsOf(t, filepath.Join(dir, "out"), chosen); !slices.Equal(before, after) {
		t.Errorf("pairs %s, before the kill %s", after, before)
	}
	judges := rowsOf(t, filepath.Join(dir, "out"), `SELECT DISTINCT phase || ' ' || judge FROM runs ORDER BY 1`)
	if !slices.Equal(judges, []string{"0 simulator:average", "0 simulator:careless", "1 strong"}) {
		t.Errorf("judges by phase: %v", judges)
	}
	ranking := func(out string) string {
		text, err := os.ReadFile(filepath.Join(dir, out, "ranking.csv"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if diff := cmp.Diff(ranking("whole"), ranking("out")); diff != "" {
		t.Errorf("ranking (-whole +killed):\n%s", diff)
	}
}
