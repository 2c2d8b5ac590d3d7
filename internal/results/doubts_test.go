package results

import (
	"slices"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
)

// TestFoundDoubts: a pair is contested for the reasons that are asked for, and for no other. Texts that no judge was asked
// about are neither, and a pair without any verdict is contested.
func TestFoundDoubts(t *testing.T) {
	t.Parallel()
	e, _ := essays() // a, b, c and d: the pairs 0 to 5 are ab, ac, bc, ad, bd and cd
	e.Plan.Single, e.Plan.Pairwise.Order = nil, eval.OrderBoth
	for _, name := range []string{"second", "third", "strong"} {
		e.Plan.Judges = append(e.Plan.Judges, eval.Judge{Name: name, Provider: "simulator", Model: name})
	}
	e.Plan.Judges = e.Plan.Judges[len(e.Plan.Judges)-3:]
	names := []string{"a.md", "b.md", "c.md", "d.md"}
	e.Plan.Escalate = &eval.Escalate{When: eval.Doubts(), Share: 0.5}
	pairs, err := plan.EscalatedPairs(e.Plan, []int{0, 1, 2, 3, 4, 5})
	if err != nil {
		t.Fatal(err)
	}

	// said has, for each pair, the winners: of the second judge in both orders, and of the third; 0 or 1 for a document of
	// the pair, 2 for a tie, 3 for none.
	rows := func(said [6][4]int) (out []PairwiseRow) {
		for number, winners := range said {
			pair := pairs[number]
			for k, winner := range winners {
				order, judge := k%2, []string{"second", "third"}[k/2]
				row := PairwiseRow{
					Index: number*4 + order*2 + k/2, Judge: judge, Trial: 1, AnsweredBy: "x", Document1: names[pair[order]], Document2: names[pair[1-order]],
				}
				switch winner {
				case 0, 1:
					row.Winner = names[pair[winner]]
				case 2:
					row.Winner = eval.Tie
				default:
					continue
				}
				out = append(out, row)
			}
		}
		slices.SortFunc(out, func(a, b PairwiseRow) int { return a.Index - b.Index })
		return out
	}
	said := [6][4]int{
		{0, 0, 0, 0}, // all agree
		{0, 0, 1, 1}, // they disagree, and all together are a tie
		{0, 1, 1, 1}, // one flips, and prefers neither
		{3, 3, 3, 3}, // nobody has answered
		{0, 2, 0, 0}, // one says something else in the other order, but prefers the same
		{2, 2, 2, 2}, // all tie
	}
	for _, tt := range []struct {
		when      []eval.Doubt
		contested []int
	}{
		{[]eval.Doubt{eval.DoubtDisagree}, []int{1, 2, 3}},
		{[]eval.Doubt{eval.DoubtFlip}, []int{2, 3, 4}},
		{[]eval.Doubt{eval.DoubtClose}, []int{1, 3, 5}},
		{eval.Doubts(), []int{1, 2, 3, 4, 5}},
	} {
		e.Plan.Escalate.When = tt.when
		later := append(rows(said), PairwiseRow{Phase: 1, Index: 0, Judge: "strong", Document1: "a.md", Document2: "b.md", Winner: "b.md"})
		found, err := Found(t.Context(), rowsReader{pairwise: later}, e.ID, e.Plan, 1)
		if err != nil || !slices.Equal(found.Contested, tt.contested) || len(found.Agreed) != 6-len(tt.contested) {
			t.Errorf("%v: contested %v, agreed %v, %v; want %v", tt.when, found.Contested, found.Agreed, err, tt.contested)
		}
	}

	e.Plan.Documents[1].Hash = e.Plan.Documents[0].Hash // a and b are equal
	found, err := Found(t.Context(), rowsReader{pairwise: rows(said)}, e.ID, e.Plan, 1)
	if err != nil || !slices.Equal(found.Contested, []int{1, 2, 3, 4, 5}) || len(found.Agreed) != 0 {
		t.Errorf("equal texts: contested %v, agreed %v, %v", found.Contested, found.Agreed, err)
	}
	if _, err := Found(t.Context(), rowsReader{pairwise: []PairwiseRow{{Index: 24}}}, e.ID, e.Plan, 1); err == nil {
		t.Error("a verdict beyond the plan is taken")
	}
}
