package plan_test

import (
	"math"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	listed := func(pairs ...[2]int) func(*eval.Evaluation, *plan.Options) {
		return func(e *eval.Evaluation, _ *plan.Options) {
			e.Pairwise.Pairs = eval.Pairs{Mode: eval.PairsListed, Listed: pairs}
		}
	}
	sample := func(share float64) func(*eval.Evaluation, *plan.Options) {
		return func(e *eval.Evaluation, _ *plan.Options) {
			e.Pairwise.Pairs = eval.Pairs{Mode: eval.PairsSample, Sample: share}
		}
	}
	for name, test := range map[string]struct {
		phase  int
		change func(*eval.Evaluation, *plan.Options)
		want   string
	}{
		"unknown phase":    {2, func(*eval.Evaluation, *plan.Options) {}, "has 2 phases"},
		"negative phase":   {-1, func(*eval.Evaluation, *plan.Options) {}, "has 2 phases"},
		"another version":  {1, func(e *eval.Evaluation, _ *plan.Options) { e.PlanVersion++ }, "plan version 2"},
		"no judges":        {1, func(e *eval.Evaluation, _ *plan.Options) { e.Judges = nil }, "no judges"},
		"queues missing":   {1, func(_ *eval.Evaluation, o *plan.Options) { o.JudgeQueues = o.JudgeQueues[:1] }, "2 judges have 1 queues"},
		"queue empty":      {1, func(_ *eval.Evaluation, o *plan.Options) { o.JudgeQueues[1] = "" }, `judge "judge1" has no queue`},
		"negative limit":   {1, func(_ *eval.Evaluation, o *plan.Options) { o.Limit = -1 }, "limit is -1"},
		"no documents":     {0, func(e *eval.Evaluation, _ *plan.Options) { e.Documents = nil }, "no documents"},
		"item unknown":     {0, func(e *eval.Evaluation, _ *plan.Options) { e.Documents[5].Item = 2 }, "item 2 of 2"},
		"not sorted":       {0, func(e *eval.Evaluation, _ *plan.Options) { e.Documents[0].Item = 1 }, "not sorted"},
		"duplicate":        {0, func(e *eval.Evaluation, _ *plan.Options) { e.Documents[1].ID = e.Documents[0].ID }, "two documents have the id"},
		"single trials":    {0, func(e *eval.Evaluation, _ *plan.Options) { e.Single.Trials = 0 }, "trials is 0"},
		"pairwise trials":  {1, func(e *eval.Evaluation, _ *plan.Options) { e.Pairwise.Trials = -3 }, "trials is -3"},
		"order":            {1, func(e *eval.Evaluation, _ *plan.Options) { e.Pairwise.Order = "any" }, `order is "any"`},
		"mode":             {1, func(e *eval.Evaluation, _ *plan.Options) { e.Pairwise.Pairs.Mode = "some" }, `pairs mode is "some"`},
		"called tie":       {1, func(e *eval.Evaluation, _ *plan.Options) { e.Documents[5].ID = "tie" }, "means a tie"},
		"too many runs":    {1, func(e *eval.Evaluation, _ *plan.Options) { e.Pairwise.Trials = math.MaxInt / 3 }, "more runs than can be numbered"},
		"nothing to pair":  {1, func(e *eval.Evaluation, _ *plan.Options) { e.Documents = e.Documents[2:4] }, "nothing to compare"},
		"share zero":       {1, sample(0), "sample is 0"},
		"share above 1":    {1, sample(1.01), "sample is 1.01"},
		"share NaN":        {1, sample(math.NaN()), "sample is NaN"},
		"nothing listed":   {1, listed(), "no pairs are listed"},
		"listed outside":   {1, listed([2]int{0, 1}, [2]int{0, 6}), "listed pair 2 names documents 0 and 6 of 6"},
		"listed negative":  {1, listed([2]int{-1, 0}), "listed pair 1 names documents -1 and 0"},
		"listed with self": {1, listed([2]int{2, 2}), "with itself"},
		"listed two items": {1, listed([2]int{2, 3}), "both must answer one item"},
		"listed twice":     {1, listed([2]int{0, 1}, [2]int{4, 5}, [2]int{1, 0}), "listed pair 3 (\"q000/00001.md\", \"q000/00000.md\") was listed before as pair 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := evaluation(2, 3, 3)
			o := queuesOf(e, "a", "b")
			test.change(e, &o)
			_, err := plan.New(e, test.phase, o)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("New: %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestNewReportsAllProblems(t *testing.T) {
	t.Parallel()
	e := evaluation(2, 3)
	e.Pairwise.Trials, e.Pairwise.Order, e.Judges = 0, "", nil
	_, err := plan.New(e, pairwise, plan.Options{Limit: -1})
	for _, want := range []string{"no judges", "limit is -1", "trials is 0", "order is"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New: %v, want also %q", err, want)
		}
	}
}
