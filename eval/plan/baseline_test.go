package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
)

// ofModels gives the documents to so many candidates in turn.
func ofModels(e *eval.Evaluation, models int) *eval.Evaluation {
	for d := range e.Documents {
		e.Documents[d].Candidate = fmt.Sprintf("m%d", d%models)
	}
	return e
}

func TestBaseline(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		models int
		items  []int
	}{{3, []int{3, 3, 3}}, {3, []int{7, 1, 2, 12}}, {2, []int{2}}, {5, []int{1, 4, 9, 1}}} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			t.Parallel()
			e := ofModels(evaluation(2, test.items...), test.models)
			e.Pairwise.Pairs = eval.Pairs{Mode: eval.PairsBaseline, Baseline: "m1"}
			o := queuesOf(e, "a", "b")
			got := asked(t, mustPlan(t, e, pairwise, o), o)
			want := map[question]int{}
			for a, own := range e.Documents {
				for b, other := range e.Documents {
					if own.Item != other.Item || own.Candidate != "m1" || other.Candidate == "m1" {
						continue
					}
					for judge := range e.Judges {
						want[question{judge, a, b, 1}]++
						want[question{judge, b, a, 1}]++
					}
				}
			}
			if len(got) != len(want) {
				t.Errorf("%d different runs, want %d", len(got), len(want))
			}
			for q, n := range want {
				if got[q] != n {
					t.Errorf("run %+v is there %d times, want %d", q, got[q], n)
				}
			}
		})
	}
}

// As listed, the baseline is shown first.
func TestBaselineIsShownFirst(t *testing.T) {
	t.Parallel()
	e := ofModels(evaluation(1, 6), 3)
	e.Pairwise.Pairs, e.Pairwise.Order = eval.Pairs{Mode: eval.PairsBaseline, Baseline: "m2"}, eval.OrderAsListed
	p := mustPlan(t, e, pairwise, queuesOf(e, "q"))
	for i := range p.Runs() {
		if run := p.Run(i); e.Documents[run.First].Candidate != "m2" {
			t.Errorf("run %d shows %s first", i, e.Documents[run.First].Candidate)
		}
	}
}

func TestBaselineOfNobody(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]*eval.Evaluation{
		"nobody": ofModels(evaluation(1, 4), 3), "nobody else": ofModels(evaluation(1, 4), 1),
	} {
		e.Pairwise.Pairs = eval.Pairs{Mode: eval.PairsBaseline, Baseline: map[string]string{"nobody": "m7", "nobody else": "m0"}[name]}
		if _, err := plan.New(e, pairwise, queuesOf(e, "q")); err == nil || !strings.Contains(err.Error(), "baseline") && !strings.Contains(err.Error(), "candidate") {
			t.Errorf("%s to compare with: %v", name, err)
		}
	}
}
