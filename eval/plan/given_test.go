package plan

import (
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
)

// Verdicts that were given elsewhere have no runs that could be made, but their runs belong to pairs.
func TestGivenVerdicts(t *testing.T) {
	t.Parallel()
	e := &eval.Evaluation{
		Items: []eval.Item{{ID: "q"}}, Documents: []eval.Document{{ID: "a", Candidate: "a"}, {ID: "b", Candidate: "b"}},
		Judges: []eval.Judge{{Name: "j", Model: "j"}}, Pairwise: &eval.Pairwise{Pairs: eval.Pairs{Mode: eval.PairsListed}, Order: eval.OrderUnknown, Trials: 3},
		Given: &eval.Given{Hash: "h", PairRuns: 7},
	}
	e.Normalize()
	if got := RunsOfPair(e, 0); got != 7 {
		t.Errorf("a pair has %d runs, want 7", got)
	}
	if _, err := New(e, 0, Options{JudgeQueues: []string{"q"}}); err == nil || !strings.Contains(err.Error(), "read from files, so there is nothing to ask") {
		t.Errorf("a plan of them: %v", err)
	}
}
