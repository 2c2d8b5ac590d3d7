package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/providers"
)

// fail turns verdicts into failed runs.
func (m *memory) fail(choose func(results.PairwiseRow) bool) {
	m.pairwise = slices.DeleteFunc(m.pairwise, func(row results.PairwiseRow) bool {
		if !choose(row) {
			return false
		}
		m.failed = append(m.failed, results.RunRow{Run: record.Run{
			Phase: row.Phase, Index: row.Index, Kind: eval.KindPairwise, State: "failed", Judge: row.Judge, Model: row.Model,
			Documents: []string{row.Document1, row.Document2}, Trial: row.Trial, Class: providers.Refused,
		}})
		return true
	})
}

// TestMissingNotAtRandom: where half of the last candidate's losses failed, it comes first.
// The report says that its failures follow the outcome, and that it could be the last.
func TestMissingNotAtRandom(t *testing.T) {
	t.Parallel()
	m := tournament(names(3), names(60), []string{"j"}, []float64{0.2}, 0.6)
	for k := 1; k < len(m.pairwise); k += 2 { // mostly the same in both orders
		if k%10 != 1 {
			m.pairwise[k].Winner = m.pairwise[k-1].Winner
		}
	}
	last := "candidate-0002"
	k := 0
	m.fail(func(row results.PairwiseRow) bool {
		lost := row.Winner != eval.Tie && (row.Candidate1 == last || row.Candidate2 == last) && !strings.HasSuffix(row.Winner, last)
		if lost {
			k++
		}
		return lost && k%2 == 0
	})
	r := built(t, m, Options{})
	if first := r.Groups[0].Ranked[0]; first.Name != last {
		t.Fatalf("%s is first: the failures do not matter", first.Name)
	}
	got := r.Missing.Candidates[0]
	if got.Name != last || got.Verdicts != len(m.failed) || !got.Uneven || got.Lost <= 2*got.Won || got.Bounds.Worst != 3 || got.Bounds.High != 3 || got.Bounds.Best != 1 {
		t.Errorf("missing verdicts %+v, bounds %+v", got, got.Bounds)
	}
	for _, other := range r.Missing.Candidates[1:] {
		if other.Verdicts >= got.Verdicts {
			t.Errorf("%+v", other)
		}
	}
	text := textOf(t, r, TextOptions{Width: 200})
	for _, want := range []string{"Failures on “" + last + "” are not random", "“" + last + "” would have rank 3 if it had lost its", "Missing verdicts"} {
		if !strings.Contains(text, want) {
			t.Errorf("the terminal does not say %q:\n%s", want, text)
		}
	}
	if page := pageOf(t, r); !strings.Contains(page, "rank if all were lost / won") {
		t.Error("the page has no table of missing verdicts")
	}
}

// TestMissingAtRandom: failures that follow nothing are counted, and are no reason to doubt
// a clear first place.
func TestMissingAtRandom(t *testing.T) {
	t.Parallel()
	m := tournament(names(3), names(60), []string{"j"}, []float64{0.2}, 4)
	m.fail(func(row results.PairwiseRow) bool { return row.Index%20 == 0 })
	r := built(t, m, Options{})
	if r.Missing.Verdicts != len(m.failed) || r.Missing.Candidates[0].Bounds == nil {
		t.Errorf("missing %+v, want %d verdicts", r.Missing, len(m.failed))
	}
	for _, c := range r.Missing.Candidates {
		if want := (rank.Bounds{Worst: c.Rank, Best: c.Rank, Low: c.Rank, High: c.Rank}); c.Uneven || *c.Bounds != want {
			t.Errorf("%s: uneven %t, bounds %+v, want %+v", c.Name, c.Uneven, c.Bounds, want)
		}
	}
	for _, note := range r.Notes() {
		if strings.Contains(note, "not random") || strings.Contains(note, "could change") {
			t.Error(note)
		}
	}
	if r := built(t, tournament(names(3), names(4), []string{"j"}, []float64{0}, 1), Options{}); r.Missing != nil {
		t.Errorf("without failures: %+v", r.Missing)
	}
}
