package results

import (
	"context"
	"iter"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evalfleet/evalfleet/eval"
)

// rowsReader is a results store of nothing but scores and verdicts.
type rowsReader struct {
	Reader
	single   []SingleRow
	pairwise []PairwiseRow
}

func yieldAll[T any](rows []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}
}

func (r rowsReader) SingleRows(context.Context, eval.ID) iter.Seq2[SingleRow, error] {
	return yieldAll(r.single)
}

func (r rowsReader) PairwiseRows(context.Context, eval.ID) iter.Seq2[PairwiseRow, error] {
	return yieldAll(r.pairwise)
}

// A document's score is the mean of all that was said of it.
func TestFoundScores(t *testing.T) {
	t.Parallel()
	e, _ := bestOf(2)
	r := rowsReader{single: []SingleRow{
		{Document: "a.md", Judge: "strict", Criterion: "clarity", Score: 1}, {Document: "a.md", Judge: "strict", Criterion: "rigour", Score: 4},
		{Document: "a.md", Judge: "mild", Trial: 2, Criterion: "rigour", Score: 4},
		{Document: "c.md", Criterion: "clarity", Score: 5},
		{Document: "d.md", Criterion: "clarity", Score: 0},
	}}
	found, err := Found(t.Context(), r, e.ID, e.Plan, 1)
	if diff := cmp.Diff([]float64{3, math.NaN(), 5, 0}, found.Scores, cmpopts.EquateNaNs()); diff != "" || err != nil || found.Abilities != nil {
		t.Errorf("%v, abilities %v, scores (-want +got):\n%s", err, found.Abilities, diff)
	}

	e.Plan.Checks = []eval.Check{{Name: "json", Gate: true}}
	e.Plan.Documents[2].Failed = []eval.FailedCheck{{Check: 0}} // c.md, which is never among the best then
	if found, err = Found(t.Context(), r, e.ID, e.Plan, 1); err != nil || !math.IsNaN(found.Scores[2]) || found.Scores[0] != 3 {
		t.Errorf("c.md fails a gate: scores %v, %v", found.Scores, err)
	}

	r.single = append(r.single, SingleRow{Document: "x.md"})
	if _, err := Found(t.Context(), r, e.ID, e.Plan, 1); err == nil {
		t.Error("a score of an unknown document is taken")
	}
}

// Documents are sorted by the ability of their candidate, from the verdicts on all items.
func TestFoundAbilities(t *testing.T) {
	t.Parallel()
	e, _ := essays()
	e.Plan.Single, e.Plan.Pairwise.Pairs = nil, eval.Pairs{Mode: eval.PairsSwiss, Share: 1}
	e.Plan.Documents[3].Candidate = "a" // a second document of a's
	verdict := func(first, second, winner string) PairwiseRow {
		return PairwiseRow{Document1: first, Document2: second, Winner: winner}
	}
	found := func(rows ...PairwiseRow) []float64 {
		t.Helper()
		found, err := Found(t.Context(), rowsReader{pairwise: rows}, e.ID, e.Plan, 1)
		if err != nil || found.Scores != nil || len(found.Abilities) != 4 {
			t.Fatalf("Found = %+v, %v", found, err)
		}
		return found.Abilities
	}
	if got := found(); !slices.Equal(got, []float64{0, 0, 0, 0}) {
		t.Errorf("abilities without a verdict: %v", got)
	}
	got := found(verdict("a.md", "b.md", "b.md"), verdict("c.md", "b.md", "b.md"), verdict("d.md", "c.md", "d.md"),
		verdict("b.md", "d.md", eval.Tie), verdict("a.md", "d.md", "d.md"))
	if !(got[1] > got[0] && got[0] > got[2] && got[0] == got[3]) {
		t.Errorf("abilities of a, b, c and a again: %v; want b above a above c", got)
	}
	if got := found(verdict("a.md", "b.md", eval.Tie), verdict("b.md", "c.md", "b.md"), verdict("c.md", "b.md", "c.md")); got[0] != got[1] || got[1] != got[2] {
		t.Errorf("abilities of equals: %v", got)
	}
}
