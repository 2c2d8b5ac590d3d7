package report

import (
	"math"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

// byCriteria is what two judges say of three candidates in both orders by the criteria place, which always prefers the text
// shown first, and quality, which prefers the better candidate. Overall, the share of pairs that follow the place is given
// in tenths.
func byCriteria(t *testing.T, placed int) *Report {
	t.Helper()
	m := sourceOf(plan(names(3), names(10), "j", "k"))
	m.evaluation.Plan.Pairwise.Criteria = []eval.Criterion{{Name: "place"}, {Name: "quality"}}
	pair := 0
	for _, item := range names(10) {
		for _, two := range [][2]int{{0, 1}, {0, 2}, {1, 2}} {
			better, worse := item+"/"+names(3)[two[0]], item+"/"+names(3)[two[1]]
			for judge := range 2 {
				for _, shown := range [][2]string{{better, worse}, {worse, better}} {
					overall := better
					if pair%10 < placed {
						overall = shown[0]
					}
					row := m.verdict(judge, shown[0], shown[1], overall, "r")
					row.Criteria = []record.Preference{{Criterion: "place", Winner: shown[0]}, {Criterion: "quality", Winner: better}}
				}
			}
			pair++
		}
	}
	return built(t, m, Options{})
}

// TestOverallVerdictFollowsNoPlace: a preference for the place that a criterion and the overall verdict have in common does
// not relate them.
func TestOverallVerdictFollowsNoPlace(t *testing.T) {
	t.Parallel()
	r := byCriteria(t, 3)
	c := r.ByCriteria
	if at, _ := c.Between(0, 2).R(); !math.IsNaN(at) {
		t.Errorf("the place correlates with the overall verdict: %v", at)
	}
	if at, _ := c.Between(1, 2).R(); !(at > 0.8) {
		t.Errorf("quality correlates with the overall verdict by %v only", at)
	}
	if share, _ := c.Between(1, 2).Same(); math.Abs(share-0.7) > 1e-9 {
		t.Errorf("quality is the same on %v of the pairs, want .7", share)
	}
	if words := r.criteriaHeadline(); !strings.HasPrefix(words, "The overall verdict follows “quality” most: it is the same on 70 % of pairs") {
		t.Errorf("said: %s", words)
	}
}

// TestUnsoundVerdictsFollowNoCriterion: where verdicts follow the place, no sentence says which criterion they follow.
func TestUnsoundVerdictsFollowNoCriterion(t *testing.T) {
	t.Parallel()
	r := byCriteria(t, 9)
	if level := r.Reliance().Level; level != Unsound {
		t.Fatalf("the ranking is %s", level)
	}
	if words := r.criteriaHeadline(); strings.Contains(words, "most") {
		t.Errorf("said: %s", words)
	}
}
