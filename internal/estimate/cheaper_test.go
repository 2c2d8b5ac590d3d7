package estimate_test

import (
	"fmt"
	"testing"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/estimate"
)

// TestCheaperDesigns: each design that an estimate names has the calls of an estimate of that design.
func TestCheaperDesigns(t *testing.T) {
	t.Parallel()
	texts := make([]string, 20)
	for i := range texts {
		texts[i] = fmt.Sprintf("Essay %02d.", i)
	}
	plain := func(change func(*eval.Evaluation)) estimate.Question {
		q := question(t, 0, texts...)
		q.Evaluation.Single = nil
		if change != nil {
			change(q.Evaluation)
		}
		q.Evaluation.Normalize()
		var err error
		if _, q.Plans, err = enqueue.Plan(q.Evaluation.ID(), q.Evaluation, q.Settings); err != nil {
			t.Fatal(err)
		}
		return q
	}

	made := mustEstimate(t, plain(nil))
	designs := map[string]func(*eval.Evaluation){
		estimate.OneOrder:  func(e *eval.Evaluation) { e.Pairwise.Order = eval.OrderRandom },
		estimate.OneInFive: func(e *eval.Evaluation) { e.Pairwise.Pairs = eval.Pairs{Mode: eval.PairsSample, Sample: 0.2} },
		estimate.InRounds:  func(e *eval.Evaluation) { e.Pairwise.Pairs = eval.Pairs{Mode: eval.PairsSwiss, Share: 0.4} },
		estimate.ScoreAll + ", " + estimate.BestOnly: func(e *eval.Evaluation) {
			e.Single = &eval.Single{Criteria: []eval.Criterion{{Name: "quality"}}, Scale: eval.Scale{Min: 1, Max: 5}, Trials: 1}
			e.Pairwise.TopN = 5
		},
	}
	flags, byFlags := 0, plain(nil)
	byFlags.Flags = true
	for i, saving := range mustEstimate(t, byFlags).Savings {
		switch inFile := made.Savings[i].Setting; saving.Setting {
		case "--pairs sample:0.2", "--pairs swiss", "--top 1":
			flags++
		case inFile:
		default:
			t.Errorf("without an evaluation file, %q is called %q", inFile, saving.Setting)
		}
	}
	if flags != 3 {
		t.Errorf("%d designs have flags, want 3", flags)
	}

	before := 0
	for _, saving := range made.Savings {
		want := estimate.Estimate{}
		if saving.Setting == estimate.AllPairs+", "+estimate.UntilBest {
			q := plain(func(e *eval.Evaluation) { e.Pairwise.Pairs = eval.Pairs{Mode: eval.PairsSample, Sample: 1} })
			q.Settings.Until = &record.Until{Top: 1}
			want.Total.Calls = mustEstimate(t, q).Until.Runs
		} else if change, known := designs[saving.Setting]; known {
			want = mustEstimate(t, plain(change))
			delete(designs, saving.Setting)
		}
		if saving.Calls != want.Total.Calls || saving.Loses == "" || saving.Calls < before || saving.Calls >= made.Total.Calls {
			t.Errorf("%+v: want %d calls, fewer than %d, after %d", saving, want.Total.Calls, made.Total.Calls, before)
		}
		before = saving.Calls
	}
	if len(designs) > 0 || len(made.Savings) != 5 {
		t.Errorf("designs are missing in %+v: %v", made.Savings, designs)
	}
}
