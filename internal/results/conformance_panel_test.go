package results

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/table"
)

// opinion is the entry of a panel's run that ended, index 0 or 1 being its dimension.
func opinion(index, generation int, state eval.State, score float64) record.Entry {
	run := record.Run{
		Index: index, Generation: generation, Kind: eval.KindPanel, State: state.String(), Queue: "openai",
		Judge: "prosecutor", Model: "openai:gpt-5-mini", Item: "q1", Documents: []string{"a.md"}, Candidates: []string{"a"},
		Trial: 1, Dimension: []string{"clarity", "depth"}[index], Attempts: 1, Started: epoch, Ended: epoch.Add(time.Second),
	}
	if state == eval.StateSucceeded {
		run.AnsweredBy = run.Model
		run.Scores = []record.Score{{Criterion: run.Dimension, Score: score, Reason: "because"}}
	} else {
		run.Class, run.Error, run.Reason = "overloaded", "too busy", "Evaluation failed after 3 retries"
	}
	return record.Entry{Run: &run}
}

func testPanel(t *testing.T, url string) {
	ctx := context.Background()
	db, e := openStore(t, url)
	put := func(entries ...record.Entry) {
		t.Helper()
		if err := db.Append(ctx, e.ID, entries); err != nil {
			t.Fatal(err)
		}
	}
	row := func(index int, score *float64, argument, answered string) PanelRow {
		return PanelRow{
			Index: index, Document: "a.md", Agent: "prosecutor", Dimension: []string{"clarity", "depth"}[index], Score: score,
			Argument: argument, Model: "openai:gpt-5-mini", Timestamp: epoch.Add(time.Second), Item: "q1", AnsweredBy: answered, Candidate: "a",
		}
	}
	two, four, zero := 2.0, 4.0, 0.0
	const exhausted = "Evaluation failed after 3 retries"
	put(opinion(0, 0, eval.StateSucceeded, two), opinion(1, 0, eval.StateFailed, 0))
	want := []PanelRow{row(0, &two, "because", "openai:gpt-5-mini"), row(1, nil, exhausted, "")}
	if diff := cmp.Diff(want, mustCollect(t, db.PanelRows(ctx, e.ID))); diff != "" {
		t.Errorf("a success and a failure (-want +got):\n%s", diff)
	}
	run, found, err := db.Run(ctx, eval.RunID{Evaluation: e.ID, Index: 1})
	if err != nil || !found || run.Reason != exhausted || run.Dimension != "depth" || len(run.Scores) > 0 {
		t.Errorf("the failed run is %+v, %v", run, err)
	}
	// Success replaces failure; a failure of a later generation replaces success.
	put(opinion(1, 0, eval.StateSucceeded, four), opinion(0, 1, eval.StateFailed, 0))
	want = []PanelRow{row(0, nil, exhausted, ""), row(1, &four, "because", "openai:gpt-5-mini")}
	if diff := cmp.Diff(want, mustCollect(t, db.PanelRows(ctx, e.ID))); diff != "" {
		t.Errorf("after both were made again (-want +got):\n%s", diff)
	}
	// A score of 0 is one, and none is not.
	put(opinion(0, 2, eval.StateSucceeded, zero))
	if got := mustCollect(t, db.PanelRows(ctx, e.ID))[0]; got.Score == nil || *got.Score != 0 {
		t.Errorf("a score of 0 is read as %v", got.Score)
	}
	run, _, err = db.Run(ctx, eval.RunID{Evaluation: e.ID, Index: 1})
	if diff := cmp.Diff([]record.Score{{Criterion: "depth", Score: 4, Reason: "because"}}, run.Scores); diff != "" || err != nil {
		t.Errorf("scores of a run: %v (-want +got):\n%s", err, diff)
	}
	if n := len(mustCollect(t, db.SingleRows(ctx, e.ID))); n != 0 {
		t.Errorf("%d rows of other kinds", n)
	}
	var line bytes.Buffer
	if err := table.JSONLines.Write(table.Of("", panelTable, table.Rows([]PanelRow{row(0, nil, exhausted, "")})), &line); err != nil {
		t.Fatal(err)
	}
	var exported map[string]any
	if err := json.Unmarshal(line.Bytes(), &exported); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{"score": nil, "argument": exhausted} {
		if got, has := exported[name]; got != want || !has {
			t.Errorf("%s of a failure is exported as %v, want %v", name, got, want)
		}
	}
}
