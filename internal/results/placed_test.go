package results

import (
	"fmt"
	"slices"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
)

// A newcomer that won everything is placed once it has on enough items, and not before the second round. The pairs that
// were compared are those with a verdict of their judge.
func TestFoundPlaced(t *testing.T) {
	t.Parallel()
	for items, want := range map[int][]string{3: nil, 20: {"n"}} {
		e := &eval.Evaluation{Pairwise: &eval.Pairwise{Order: eval.OrderBoth, Trials: 1, Pairs: eval.Pairs{
			Mode: eval.PairsGrown, Newcomers: []string{"n"}, Opponents: 4,
		}}, Judges: []eval.Judge{{Name: "judge"}}}
		var r rowsReader
		for item := range items {
			e.Items = append(e.Items, eval.Item{ID: fmt.Sprint(item)})
			id := func(candidate string) string { return fmt.Sprintf("%d/%s", item, candidate) }
			for _, candidate := range []string{"a", "b", "n"} {
				e.Documents = append(e.Documents, eval.Document{ID: id(candidate), Item: item, Candidate: candidate})
			}
			for _, pair := range [][2]string{{"a", "b"}, {"n", "a"}, {"n", "b"}} {
				for _, shown := range [][2]string{pair, {pair[1], pair[0]}} {
					r.pairwise = append(r.pairwise, PairwiseRow{
						Document1: id(shown[0]), Document2: id(shown[1]), Winner: id(pair[0]), Judge: "judge", Model: "m", AnsweredBy: "m",
					})
				}
			}
		}

		for phase, placed := range [][]string{1: nil, 2: want} {
			if phase == 0 {
				continue
			}
			if found, err := Found(t.Context(), r, "ev", e, phase); err != nil || !slices.Equal(found.Placed, placed) || len(found.Abilities) != 3*items {
				t.Errorf("%d items, phase %d: placed %v, %v; want %v", items, phase, found.Placed, err, placed)
			}
		}
		r.pairwise[0].AnsweredBy, r.pairwise[1].AnsweredBy = "other", "other"
		if pairs, err := Compared(t.Context(), r, "ev", e); err != nil || len(pairs) != 3*items || pairs[0] != [2]int{0, 1} {
			t.Errorf("compared %v, %v", pairs, err)
		}
	}
}
