package record

import (
	"math"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
)

// TestChancesThatAreNone: a record's probabilities are some, with the sum 1, of a comparison that has a verdict, and of
// verdicts that the evaluation asks for.
func TestChancesThatAreNone(t *testing.T) {
	t.Parallel()
	of := func(change func(*eval.Evaluation)) *Fit {
		e := &eval.Evaluation{
			PlanVersion: eval.PlanVersion, Items: []eval.Item{{}}, Judges: []eval.Judge{{Name: "j", Provider: "p", Model: "m"}},
			Documents: []eval.Document{{ID: "a", Candidate: "a", Hash: "1"}, {ID: "b", Candidate: "b", Hash: "2"}},
			Pairwise:  &eval.Pairwise{Pairs: eval.Pairs{Mode: eval.PairsAll}, Order: eval.OrderBoth, Trials: 1, Soft: true, Ties: true},
		}
		change(e)
		return NewFit(e)
	}
	soft := of(func(*eval.Evaluation) {})
	run := func(c eval.Chances) *Run {
		return &Run{Kind: eval.KindPairwise, State: eval.StateSucceeded.String(), Judge: "j", Documents: []string{"a", "b"},
			Candidates: []string{"a", "b"}, Winner: "a", Chances: &c}
	}
	failed := run(eval.Chances{First: 1})
	failed.State, failed.Winner = eval.StateFailed.String(), ""
	for name, tt := range map[string]struct {
		fit  *Fit
		run  *Run
		fits bool
	}{
		"probabilities":           {soft, run(eval.Chances{First: 0.5, Tie: 0.25, Second: 0.25}), true},
		"one alone":               {soft, run(eval.Chances{First: 1}), true},
		"above 1":                 {soft, run(eval.Chances{First: 1.5, Second: -0.5}), false},
		"below 0":                 {soft, run(eval.Chances{First: 1, Tie: 0.5, Second: -0.5}), false},
		"no number":               {soft, run(eval.Chances{First: math.NaN(), Second: 1}), false},
		"their sum":               {soft, run(eval.Chances{First: 0.5, Second: 0.25}), false},
		"none":                    {soft, run(eval.Chances{}), false},
		"of a failed run":         {soft, failed, false},
		"that nobody asked for":   {of(func(e *eval.Evaluation) { e.Pairwise.Soft = false }), run(eval.Chances{First: 1}), false},
		"of ties that are no use": {of(func(e *eval.Evaluation) { e.Pairwise.Ties = false }), run(eval.Chances{First: 0.5, Tie: 0.5}), false},
	} {
		if err := tt.fit.Check(Entry{Run: tt.run}); (err == nil) != tt.fits {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
