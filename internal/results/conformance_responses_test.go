package results

import (
	"context"
	"iter"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

// letters is an evaluation of four listed runs alone, over one instruction and two
// inputs.
func letters() (Evaluation, iter.Seq2[string, string]) {
	runs := &eval.Runs{Models: []eval.Judge{
		{Name: "openai:gpt-5-mini", Provider: "openai", Model: "gpt-5-mini"},
		{Name: "google:gemini-2.5-flash", Provider: "google", Model: "gemini-2.5-flash"},
	}}
	texts := map[string]string{}
	for _, name := range []string{"prompts/standard.txt", "in/a.md", "in/b.md"} {
		text := "The text of " + name + ".\n"
		texts[eval.TextHash(text)] = text
		runs.Files = append(runs.Files, eval.Document{ID: name, Hash: eval.TextHash(text), Bytes: len(text)})
	}
	for _, id := range []string{"z1", "a2", "m3", "b4"} {
		n := len(runs.List)
		runs.List = append(runs.List, eval.FileRun{ID: id, Model: n % 2, FileA: 0, FileB: 1 + n/2})
	}
	plan := &eval.Evaluation{PlanVersion: eval.PlanVersion, Name: "letters", Items: []eval.Item{{}}, Runs: runs, JSON: eval.JSONFalse}
	return Evaluation{
		ID: plan.ID(), Plan: plan, Created: epoch,
		Settings: record.Settings{Priority: 1, Retry: record.DefaultRetry, Outs: map[string]string{"a2": "out/<run_id>.md"}},
		Phases:   []record.Phase{{Kind: eval.KindRuns, Runs: 4}},
	}, maps.All(texts)
}

// answered is the entry of one of letters' runs that ended well with one call.
func answered(index int, answer string) record.Entry {
	e, _ := letters()
	run := e.Plan.Runs.List[index]
	model := e.Plan.Runs.Models[run.Model]
	at, cost := epoch.Add(time.Duration(index)*time.Second), 0.25
	return record.Entry{
		Run: &record.Run{
			Index: index, Kind: eval.KindRuns, Name: run.ID, State: "succeeded", Queue: model.Provider,
			Judge: model.Name, Model: model.Target(), AnsweredBy: model.Target(),
			Documents:  []string{e.Plan.Runs.Files[run.FileA].ID, e.Plan.Runs.Files[run.FileB].ID},
			Candidates: []string{"", ""}, Trial: 1, Answer: answer, Finish: "stop",
			Attempts: 1, Started: at, Ended: at.Add(time.Second), Worker: "w7k2p9qa",
		},
		Calls: []record.Call{call(0, index, 0, 1, func(c *record.Call) {
			c.Model, c.Text, c.Finish, c.Status = model.Target(), answer, "stop", 200
			c.Usage.Reported, c.Usage.Input, c.Usage.Output, c.Usage.CostUSD = true, 700, 90, &cost
		})},
	}
}

// unanswered is the entry of one of letters' runs that failed with one call.
func unanswered(index, generation int) record.Entry {
	e := answered(index, "")
	e.Run.Generation, e.Run.State, e.Run.AnsweredBy, e.Run.Finish = generation, "failed", "", ""
	e.Run.Class, e.Run.Error = "refused", "refused: the model will not say"
	e.Calls = []record.Call{call(0, index, generation, 1, func(c *record.Call) {
		c.Model, c.Class, c.Error, c.Status = e.Run.Model, "refused", e.Run.Error, 200
	})}
	return e
}

func putLetters(t testing.TB, url string) (Store, Evaluation) {
	t.Helper()
	db, err := Open(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close sink: %v", err)
		}
	})
	e, texts := letters()
	if err := db.PutEvaluation(context.Background(), e, texts); err != nil {
		t.Fatal(err)
	}
	return db, e
}

// The answers of listed runs are kept as they came, in the order of the list, and
// give way as their runs do; a run without one is there as well.
func testResponses(t *testing.T, url string) {
	ctx := context.Background()
	db, e := putLetters(t, url)
	for _, file := range e.Plan.Runs.Files {
		if text, err := db.Text(ctx, file.Hash); err != nil || text != "The text of "+file.ID+".\n" {
			t.Errorf("text of %s: %q, %v", file.ID, text, err)
		}
	}
	if got, err := db.Evaluation(ctx, e.ID); err != nil || cmp.Diff(e, got) != "" {
		t.Errorf("evaluation: %v (-want +got):\n%s", err, cmp.Diff(e, got))
	}
	prose := "Dear $HOME,\r\n\r\n\"quoted\" <run_id> {x} \x00 \u202e שלום 🙂\n"
	cut := answered(2, "It was to be lon")
	cut.Run.Finish = "truncated"
	mended := answered(3, "Better late.")
	mended.Run.Generation = 1
	mustAppend(t, db, e.ID, unanswered(3, 0), cut, unanswered(1, 0), answered(0, prose), answered(0, "another"), mended, unanswered(3, 0))

	want := []record.Run{*answered(0, prose).Run, *unanswered(1, 0).Run, *cut.Run, *mended.Run}
	for i, row := range mustCollect(t, db.Responses(ctx, e.ID)) {
		if i >= len(want) {
			t.Fatalf("a row too many: %+v", row)
		}
		if diff := cmp.Diff(want[i], row.Run); diff != "" {
			t.Errorf("row %d (-want +got):\n%s", i, diff)
		}
		one, found, err := db.Run(ctx, row.RunID(e.ID))
		if diff := cmp.Diff(row, one); diff != "" || !found || err != nil {
			t.Errorf("run %d alone: %t, %v (-of all +alone):\n%s", i, found, err, diff)
		}
		if row.Used.Calls != 1 {
			t.Errorf("row %d: %d calls, want 1", i, row.Used.Calls)
		}
	}
	if n := len(mustCollect(t, db.Runs(ctx, e.ID))); n != len(want) {
		t.Errorf("%d runs, want %d", n, len(want))
	}
	if n := len(mustCollect(t, db.SingleRows(ctx, e.ID))) + len(mustCollect(t, db.PairwiseRows(ctx, e.ID))); n != 0 {
		t.Errorf("%d verdicts, want none", n)
	}

	// A later generation that fails takes the answer with it.
	mustAppend(t, db, e.ID, unanswered(0, 1))
	row, _, err := db.Run(ctx, eval.RunID{Evaluation: e.ID})
	if err != nil || row.Answer != "" || row.State != "failed" {
		t.Errorf("made again and failed: %+v, %v; want no answer", row.Run, err)
	}

	fewer := maps.Collect(func() iter.Seq2[string, string] { _, texts := letters(); return texts }())
	other := e
	plan := *e.Plan
	plan.Runs = &eval.Runs{Models: e.Plan.Runs.Models, List: e.Plan.Runs.List, Files: append([]eval.Document{{ID: "x", Hash: eval.TextHash("x")}}, e.Plan.Runs.Files...)}
	other.ID, other.Plan = "ev-222222222222", &plan
	if err := db.PutEvaluation(ctx, other, maps.All(fewer)); err == nil {
		t.Error("an evaluation without the text of one of its files was stored")
	}
}
