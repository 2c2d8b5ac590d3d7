package record_test

import (
	"encoding/json"
	"testing"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

// The result of a task is shown in words, and never as JSON, unless another program or a model wrote it.
func TestResultInWords(t *testing.T) {
	t.Parallel()
	for want, summary := range map[string]record.Summary{
		"a.md wins: It cites its sources.":        {Winner: "a.md", Reason: "It cites its sources.", Attempts: 1},
		"tie: identical":                          {Winner: eval.Tie, Reason: "identical"},
		"style 4, truth 2.5 (Two facts are off.)": {Scores: []record.Score{{Criterion: "style", Score: 4}, {Criterion: "truth", Score: 2.5, Reason: "Two facts are off."}}},
		"Paris.": {Answer: "Paris.", Attempts: 2},
	} {
		raw, err := json.Marshal(summary)
		if err != nil {
			t.Fatal(err)
		}
		for _, result := range []string{summary.Words(), string(raw)} { // of this version, and of an earlier one
			if got := record.ResultInWords(result); got != want {
				t.Errorf("%s is shown as %q, want %q", result, got, want)
			}
		}
	}
	for _, other := range []string{"", "done", `{"rows":3}`, `[1]`, `{"winner":"A","reason":"a model's answer"}`, `{"attempts":1}`} {
		if got := record.ResultInWords(other); got != other {
			t.Errorf("the result %q of another program is shown as %q", other, got)
		}
	}
}

// A prompt is known by its own id, and no other document by the run's.
func TestKnownDocuments(t *testing.T) {
	t.Parallel()
	for want, run := range map[string]record.Run{
		"capital-of-france": {Kind: eval.KindPrompts, Name: "capital-of-france", Documents: []string{"line 1"}},
		"in/a.md":           {Kind: eval.KindRuns, Name: "z1", Documents: []string{"in/a.md", "in/b.md"}},
		"a.md":              {Kind: eval.KindSingle, Documents: []string{"a.md"}},
	} {
		task := record.Task{Kind: run.Kind, Name: run.Name, Documents: run.Documents}
		if run.Known()[0] != want || task.Known()[0] != want {
			t.Errorf("%+v is known as %q, and its task as %q; want %q", run, run.Known(), task.Known(), want)
		}
	}
}
