package record

import (
	"math"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

func exampleRecord() Evaluation {
	return Evaluation{
		ID: exampleID, Name: "essays", Status: StatusActive, Created: exampleTime,
		Settings: Settings{
			Priority: 1, Retry: DefaultRetry, Timeouts: map[string]time.Duration{"": DefaultTimeout},
			Limits: []ratelimit.Limit{{Scope: ratelimit.Scope{Evaluation: string(exampleID)}, Kind: ratelimit.Concurrency, Max: 8}},
			Prices: map[string]providers.Price{"openai:gpt-5-mini": {Rates: providers.Rates{Input: 0.25, Output: 2}}},
		},
		Phases: []Phase{{
			Kind: eval.KindPairwise, Runs: 6, Queues: map[string]int{"openai~" + string(exampleID): 6}, JudgeQueues: []string{"openai~" + string(exampleID)},
		}},
	}
}

// What evalfleet writes passes the check, and what it never writes does not.
func TestCheckRefusesWhatIsNeverWritten(t *testing.T) {
	t.Parallel()
	if err := exampleRecord().Check(); err != nil {
		t.Errorf("a record: %v", err)
	}
	if err := exampleEntry().Check(); err != nil {
		t.Errorf("an entry: %v", err)
	}
	for name, change := range map[string]func(*Evaluation){
		"id":             func(r *Evaluation) { r.ID = "../../x" },
		"status":         func(r *Evaluation) { r.Status = "exploded" },
		"name":           func(r *Evaluation) { r.Name = "a\x1b[2Jb" },
		"C1 in the name": func(r *Evaluation) { r.Name = "a\u009b2Jb" },
		"time":           func(r *Evaluation) { r.Created = time.UnixMilli(math.MaxInt64) },
		"priority":       func(r *Evaluation) { r.Settings.Priority = -1 },
		"attempts":       func(r *Evaluation) { r.Settings.Retry.MaxAttempts = -1 },
		"delay":          func(r *Evaluation) { r.Settings.Retry.InitialDelay = -1 },
		"timeout":        func(r *Evaluation) { r.Settings.Timeouts[""] = math.MaxInt64 },
		"limit":          func(r *Evaluation) { r.Settings.Limits[0].Max = -1 },
		"foreign limit":  func(r *Evaluation) { r.Settings.Limits[0].Evaluation = "ev-bbbbbbbbbbbb" },
		"price":          func(r *Evaluation) { r.Settings.Prices["x:y"] = providers.Price{Rates: providers.Rates{Input: -1}} },
		"fallback":       func(r *Evaluation) { r.Settings.Fallback = &Fallback{Base: 1e300} },
		"kind":           func(r *Evaluation) { r.Phases[0].Kind = "exploded" },
		"runs":           func(r *Evaluation) { r.Phases[0].Runs = math.MaxInt },
		"runs by queue":  func(r *Evaluation) { r.Phases[0].Queues["a"] = -1 },
		"queue":          func(r *Evaluation) { r.Phases[0].JudgeQueues[0] = "a}:{b" },
		"foreign queue":  func(r *Evaluation) { r.Phases[0].JudgeQueues[0] = "openai~ev-bbbbbbbbbbbb" },
	} {
		r := exampleRecord()
		if change(&r); r.Check() == nil {
			t.Errorf("%s: the record passes", name)
		}
	}
	for name, change := range map[string]func(*Run, *Call){
		"phase":     func(r *Run, _ *Call) { r.Phase = -1 },
		"index":     func(r *Run, _ *Call) { r.Index = -1 },
		"kind":      func(r *Run, _ *Call) { r.Kind = "" },
		"state":     func(r *Run, _ *Call) { r.State = "none" },
		"documents": func(r *Run, _ *Call) { r.Documents = r.Documents[:1] },
		"winner":    func(r *Run, _ *Call) { r.Winner = "c.md" },
		"score":     func(r *Run, _ *Call) { r.Scores = []Score{{Score: math.Inf(1)}} },
		"call id":   func(_ *Run, c *Call) { c.ID = "a\x1bb" },
		"tokens":    func(_ *Run, c *Call) { c.Usage.Input = -1 },
		"cost":      func(_ *Run, c *Call) { c.Usage.CostUSD = ptr(math.NaN()) },
		"bound":     func(_ *Run, c *Call) { c.MostUSD = ptr(-1.0) },
		"its price": func(_ *Run, c *Call) { c.Price = &providers.Price{Search: math.Inf(1)} },
	} {
		e := exampleEntry()
		if change(e.Run, &e.Calls[0]); e.Check() == nil {
			t.Errorf("%s: the entry passes", name)
		}
	}
}

func ptr[T any](value T) *T { return &value }

// A result of another evaluation does not fit.
func TestFitKnowsTheEvaluation(t *testing.T) {
	t.Parallel()
	fit := NewFit(&eval.Evaluation{
		Judges:    []eval.Judge{{Name: "strict"}},
		Documents: []eval.Document{{ID: "a.md"}, {ID: "b.md"}},
		Pairwise:  &eval.Pairwise{Pairs: eval.Pairs{Mode: eval.PairsAll}},
	})
	if err := fit.Check(exampleEntry()); err != nil {
		t.Errorf("a result of its own: %v", err)
	}
	for name, change := range map[string]func(*Run){
		"phase":    func(r *Run) { r.Phase = 1 },
		"kind":     func(r *Run) { r.Kind = eval.KindRuns },
		"judge":    func(r *Run) { r.Judge = "mild" },
		"document": func(r *Run) { r.Documents[1] = "c.md" },
		"score":    func(r *Run) { r.Scores = []Score{{Criterion: "x", Score: 1}} },
	} {
		e := exampleEntry()
		if change(e.Run); fit.Check(e) == nil {
			t.Errorf("%s: a foreign result fits", name)
		}
	}
}

// TestFitKnowsRubrics: a result that leaves out a criterion, or has a value other than 0 and 1, would give a wrong score.
func TestFitKnowsRubrics(t *testing.T) {
	t.Parallel()
	fit := NewFit(&eval.Evaluation{
		Judges:    []eval.Judge{{Name: "strict"}},
		Items:     []eval.Item{{ID: "q", Rubric: []eval.RubricCriterion{{Text: "x", Points: 1}, {Text: "y", Points: -1}}}},
		Documents: []eval.Document{{ID: "a.md"}},
		Single:    &eval.Single{Rubric: true, Criteria: []eval.Criterion{{Name: eval.RubricName}}},
	})
	entry := func(scores ...Score) Entry {
		e := exampleEntry()
		e.Run.Phase, e.Run.Kind, e.Run.Documents, e.Run.Candidates = 0, eval.KindSingle, []string{"a.md"}, []string{"a"}
		e.Run.Winner, e.Run.Reason, e.Run.Scores = "", "", scores
		return e
	}
	of := func(criterion string, score float64) Score {
		return Score{Criterion: criterion, Score: score, Reason: "because"}
	}
	first, second := of("rubric 1", 1), of("rubric 2", 0)
	if err := fit.Check(entry(second, first)); err != nil {
		t.Errorf("a result of its own: %v", err)
	}

	failed := entry()
	failed.Run.State, failed.Run.Class = eval.StateFailed.String(), providers.Timeout
	if err := fit.Check(failed); err != nil {
		t.Errorf("a run that failed: %v", err)
	}
	for name, scores := range map[string][]Score{
		"none":           nil,
		"one":            {first},
		"one twice":      {first, first},
		"one more":       {first, second, of("rubric 3", 1)},
		"another name":   {first, of("style", 1)},
		"a half":         {first, of("rubric 2", 0.5)},
		"the sum itself": {of(eval.RubricName, 100)},
	} {
		if fit.Check(entry(scores...)) == nil {
			t.Errorf("%s: a foreign result fits", name)
		}
	}
}
