package main

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestRubricFromFileToReport: the mean score of a candidate is that of the points in scores.csv, and a second start asks
// nothing again.
func TestRubricFromFileToReport(t *testing.T) {
	t.Parallel()
	var items, answers strings.Builder
	for q := range 6 {
		fmt.Fprintf(&items, `{"prompt_id": "q%d", "item": "q%d", "question": "Why %d?", "rubrics": [{"criterion": "Names cause %d.", "points": 7, "tags": ["axis:accuracy"]},`+
			` {"criterion": "Says how sure it is.", "points": 3, "tags": ["axis:communication"]}, {"criterion": "Invents \"facts\", or numbers.", "points": -4, "tags": ["axis:accuracy"]}]}`+"\n", q, q, q, q)
		for _, model := range []string{"x", "y"} {
			fmt.Fprintf(&answers, `{"item": "q%d", "candidate": %q, "text": "The cause of %d is known. %s"}`+"\n", q, model, q,
				strings.Repeat("It is known well. ", map[string]int{"x": q % 2, "y": 3 + q}[model]))
		}
	}
	dir := tree(t, map[string]string{
		"eval.yaml": "documents: {jsonl: answers.jsonl}\nitems: items.jsonl\n" +
			"judges: [\"simulator:careful\", \"simulator:careless\"]\nsingle: {criteria: rubric, trials: 2}\n",
		"items.jsonl": items.String(), "answers.jsonl": answers.String(),
	})
	file, out := filepath.Join(dir, "eval.yaml"), filepath.Join(dir, "out")
	read := runTwice(t, file, out)
	number := func(text string) float64 {
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	scores := readCSV(t, filepath.Join(out, "scores.csv"))
	sums, runs := map[string]float64{}, map[string]map[string]bool{}
	texts := map[string]bool{}
	for _, row := range scores {
		candidate := row["candidate"]
		sums[candidate] += number(row["score"]) * number(row["points"]) * 100 / 10 // 7 and 3 can be earned
		if runs[candidate] == nil {
			runs[candidate] = map[string]bool{}
		}
		runs[candidate][row["id"]] = true
		texts[row["criterion"]] = true
	}
	if len(scores) != 6*2*2*2*3 || len(texts) != 6+2 || !texts[`Invents "facts", or numbers.`] {
		t.Errorf("%d scores on %d criteria, want 144 on 8: %v", len(scores), len(texts), texts)
	}

	for _, row := range readCSV(t, filepath.Join(out, "ranking.csv")) {
		name := row["candidate"]
		got, want := number(row["mean_score"]), sums[name]/float64(len(runs[name]))
		if math.Abs(got-want) > 1e-6 || len(runs[name]) != 24 {
			t.Errorf("%s has the mean score %g of %d runs, want %g of 24", name, got, len(runs[name]), want)
		}
	}
	if calls := readCSV(t, filepath.Join(out, "calls.csv")); len(calls) != 48 {
		t.Errorf("%d calls, want 48", len(calls))
	}
	if page := read("report.html"); !strings.Contains(page, `id="rubric"`) || !strings.Contains(page, "axis:communication") {
		t.Error("the report has no section of the rubric")
	}
	if code, said, stderr := evalfleet(t, nil, "show", "0.0", out); code != int(exitOK) || !strings.Contains(said, "Names cause 0.: ") {
		t.Errorf("show: code %d, no criterion by its text:\n%s%s", code, said, stderr)
	}
}
