package report

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/rank"
)

// TestTrialsAreNoEvidence: the same verdicts four times over leave limits as wide as
// once, by pair and by item; the fit's own errors halve.
func TestTrialsAreNoEvidence(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		by       string
		items    int
		clusters int
	}{{ByPair, 15, 15 * 10}, {ByItem, 20, 20}} {
		once := tournament(names(5), names(tt.items), []string{"j"}, []float64{0.3}, 1)
		four := sourceOf(once.evaluation.Plan)
		for range 4 {
			four.pairwise = append(four.pairwise, once.pairwise...)
		}
		one, other := built(t, once, Options{Seed: 5}), built(t, four, Options{Seed: 5})
		if how := one.Intervals; how == nil || how.By != tt.by || how.Clusters != tt.clusters || how.Seed != 5 || how.Resamples != 100 {
			t.Fatalf("drawn by %+v, want %s of %d", how, tt.by, tt.clusters)
		}
		for k, c := range one.Groups[0].Ranked {
			d := other.Groups[0].Ranked[k]
			if d.Name != c.Name || math.Abs((d.High-d.Low)/(c.High-c.Low)-1) > 0.02 {
				t.Errorf("by %s: %s from %.3f to %.3f, with every verdict four times %.3f to %.3f", tt.by, c.Name, c.Low, c.High, d.Low, d.High)
			}
			if ratio := d.ModelSE / c.ModelSE; math.Abs(ratio-0.5) > 0.01 {
				t.Errorf("by %s: the fit's own error is %.3f of that before, want half", tt.by, ratio)
			}
		}
	}
}

// TestJudgesAlone: each has a ranking of its own, and agreement says that the two
// contradict each other on every pair.
func TestJudgesAlone(t *testing.T) {
	t.Parallel()
	m := sourceOf(plan([]string{"a", "b", "c"}, []string{"q1", "q2", "q3", "q4"}, "for", "against"))
	for _, item := range []string{"q1", "q2", "q3", "q4"} {
		for _, pair := range [][2]string{{"a", "b"}, {"a", "c"}, {"b", "c"}} {
			better, worse := item+"/"+pair[0], item+"/"+pair[1]
			m.verdict(0, better, worse, better, "r")
			m.verdict(0, worse, better, better, "r")
			m.verdict(1, better, worse, worse, "r")
			m.verdict(1, worse, better, worse, "r")
		}
	}
	r := built(t, m, Options{})
	for k, want := range []string{"[a b c]", "[c b a]"} {
		var order []string
		for _, c := range r.Judges[k].Groups[0].Ranked {
			order = append(order, c.Name)
		}
		if fmt.Sprint(order) != want {
			t.Errorf("judge %s ranks %v, want %s", r.Judges[k].Name, order, want)
		}
	}
	a := r.Agreement
	if a == nil || a.Units != 12 || a.Complete != 12 || a.Pairs[0].Raw != 0 || a.Pairs[0].Units != 12 {
		t.Fatalf("agreement %+v", a)
	}
	// One always prefers the earlier text and the other the later, so chance agrees as
	// little as they do.
	if a.Pairs[0].Cohen != 0 || a.Alpha >= 0 || a.Fleiss >= 0 {
		t.Errorf("kappa %.3f, alpha %.3f, Fleiss %.3f; want 0 and the others below", a.Pairs[0].Cohen, a.Alpha, a.Fleiss)
	}
	if s := r.Judges[0].Swaps; s.Consistent != 12 || s.Total() != 12 {
		t.Errorf("both orders: %+v, want 12 consistent", s)
	}
}

// TestCyclesAndLength: a rock-paper-scissors judge, who prefers the longer text.
func TestCyclesAndLength(t *testing.T) {
	t.Parallel()
	m := sourceOf(plan([]string{"a", "b", "c"}, names(8), "j"))
	documents := m.evaluation.Plan.Documents
	place := map[string]int{}
	for d := range documents {
		place[documents[d].ID] = d
	}
	for k, item := range names(8) {
		for i, pair := range [][2]string{{"a", "b"}, {"b", "c"}, {"c", "a"}} {
			first, second := item+"/"+pair[0], item+"/"+pair[1]
			documents[place[first]].Bytes = 100 * (k + i + 1)
			m.verdict(0, first, second, first, "r")
		}
	}
	r := built(t, m, Options{})
	if want := (rank.Cycles{Circular: 1, Triples: 1}); r.Cycles != want {
		t.Errorf("cycles %+v, want %+v", r.Cycles, want)
	}
	if n := r.Length.LongerWins + r.Length.ShorterWins; n != 24 || r.Length != r.Judges[0].Length {
		t.Errorf("%d verdicts on texts that differ in length, want 24", n)
	}
	if r.Fit.HasLength {
		t.Error("length is taken out unasked")
	}
	if got := built(t, m, Options{Length: true}); !got.Fit.HasLength || !slices.ContainsFunc(got.Notes(), func(n string) bool { return n == got.lengthNote() }) {
		t.Errorf("asked to take length out: %+v, %q", got.Fit, got.Notes())
	}
}

// TestFewPairs: with too few to draw from, limits are the fit's own, and it is said.
func TestFewPairs(t *testing.T) {
	t.Parallel()
	m := sourceOf(plan([]string{"a", "b", "c"}, []string{"q"}, "j"))
	for _, winner := range []string{"q/a", "q/b", "q/a", eval.Tie} {
		m.verdict(0, "q/a", "q/b", winner, "r")
		m.verdict(0, "q/b", "q/c", eval.Tie, "r")
	}
	r := built(t, m, Options{})
	best := r.Groups[0].Ranked[0]
	if r.Intervals != nil || best.SE != best.ModelSE || !(best.Low < best.Ability) {
		t.Errorf("limits %+v of %+v, want the fit's own", r.Intervals, best)
	}
	if p := r.Groups[0].Beats(0, 2); !(p > 0.5 && p < 1) || math.Abs(p+r.Groups[0].Beats(2, 0)-1) > 1e-12 {
		t.Errorf("the best is better than the last with probability %v", p)
	}
}
