package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

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
	}{{ByPair, 1, 10}, {ByItem, 20, 20}} {
		once := tournament(names(5), names(tt.items), []string{"j"}, []float64{0.3}, 1)
		four := sourceOf(once.evaluation.Plan)
		for range 4 {
			four.pairwise = append(four.pairwise, once.pairwise...)
		}
		one, other := built(t, once, Options{Seed: 5}), built(t, four, Options{Seed: 5})
		if how := one.Intervals; how == nil || how.By != tt.by || how.Clusters != tt.clusters || how.Seed != 5 || how.Draws != 100 {
			t.Fatalf("drawn by %+v, want %s of %d", how, tt.by, tt.clusters)
		}
		for k, c := range one.Groups[0].Ranked {
			d := other.Groups[0].Ranked[k]
			if d.Name != c.Name || math.Abs((d.High-d.Low)/(c.High-c.Low)-1) > 0.02 {
				t.Errorf("by %s: %s from %.3f to %.3f, with every verdict four times %.3f to %.3f", tt.by, c.Name, c.Low, c.High, d.Low, d.High)
			}
			if w := c.WinLimits; !(w.Low < c.WinRate() && c.WinRate() < w.High) || math.Abs(d.WinLimits.Low-w.Low) > 1e-9 {
				t.Errorf("by %s: %s wins %.3f, limits %+v, with every verdict four times %+v", tt.by, c.Name, c.WinRate(), w, d.WinLimits)
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
	if a.Pairs[0].Cohen != -1 || a.Alpha >= 0 || a.Fleiss != -1 { // they contradict each other throughout
		t.Errorf("kappa %.3f, alpha %.3f, Fleiss %.3f; want −1, below 0 and −1", a.Pairs[0].Cohen, a.Alpha, a.Fleiss)
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

// TestPositionAndCandidatesConfounded: a baseline that is always shown first cannot be
// told from a preference for the first position. A judge that always prefers the first
// text does not make it the best; the other candidates are compared all the same.
func TestPositionAndCandidatesConfounded(t *testing.T) {
	t.Parallel()
	m := sourceOf(plan([]string{"base", "b", "c"}, names(30), "j"))
	for k, item := range names(30) {
		m.verdict(0, item+"/base", item+"/b", item+"/base", "r")
		winner := item + "/base"
		if k%5 == 0 {
			winner = item + "/c"
		}
		m.verdict(0, item+"/base", item+"/c", winner, "r")
	}
	r := built(t, m, Options{})
	best := r.Groups[0].Ranked[0]
	if best.Name != "base" || best.RankHigh != 3 || best.MarginalHigh != 3 || !math.IsNaN(best.Best) || !math.IsNaN(r.Groups[0].Beats(0, 1)) {
		t.Errorf("the baseline is called better: %+v, %v", best, r.Groups[0].Beats(0, 1))
	}
	if !r.Judges[0].Effect.Confounded || strings.Contains(r.Headline(), "ahead of every other") {
		t.Errorf("%+v: %s", r.Judges[0].Effect, r.Headline())
	}
	if notes := strings.Join(r.Notes(), "\n"); !strings.Contains(notes, "shown in one order only") {
		t.Errorf("the notes do not say so: %s", notes)
	}
	for _, row := range rankingOf(t, r) {
		if !math.IsNaN(row.number("p_best")) {
			t.Errorf("%s is the best with probability %v", row["candidate"], row["p_best"])
		}
	}
}

// TestFortyEqualsBehindABaseline: 40 candidates are equal. One is the baseline, always shown
// first to a judge that prefers what is shown first. No candidate is called better or worse
// than another, and the report says why.
func TestFortyEqualsBehindABaseline(t *testing.T) {
	t.Parallel()
	candidates := names(40)
	m := sourceOf(plan(candidates, names(30), "j"))
	random := rand.New(rand.NewPCG(1, 5))
	for _, item := range names(30) {
		for _, other := range candidates[1:] {
			first, second := item+"/"+candidates[0], item+"/"+other
			winner := first
			if random.Float64() < 0.27 { // an order effect of 1
				winner = second
			}
			m.verdict(0, first, second, winner, "r")
		}
	}
	r := built(t, m, Options{})
	for _, c := range r.Groups[0].Ranked {
		if c.RankLow != 1 || c.RankHigh != 40 {
			t.Errorf("%s has ranks %d to %d of 40 equals", c.Name, c.RankLow, c.RankHigh)
		}
	}
	if strings.Contains(r.Headline(), "ahead of every other") || !strings.Contains(strings.Join(r.Notes(), "\n"), "shown in one order only") {
		t.Errorf("%s\n%s", r.Headline(), strings.Join(r.Notes(), "\n"))
	}
}

// TestConsistentJudgeFavoursNoPosition: a judge that gives the same answer in both orders
// has no order effect but for rounding, which is not mentioned.
func TestConsistentJudgeFavoursNoPosition(t *testing.T) {
	t.Parallel()
	m := sourceOf(plan([]string{"a", "b", "c"}, names(12), "j"))
	for k, item := range names(12) {
		for i, pair := range [][2]string{{"a", "b"}, {"b", "c"}, {"a", "c"}} {
			winner := item + "/" + pair[0]
			if (k+i)%4 == 0 {
				winner = item + "/" + pair[1]
			}
			m.verdict(0, item+"/"+pair[0], item+"/"+pair[1], winner, "r")
			m.verdict(0, item+"/"+pair[1], item+"/"+pair[0], winner, "r")
		}
	}
	r := built(t, m, Options{})
	if limits := r.Judges[0].OrderLimits; !(limits.Low < -0.1 && limits.High > 0.1) {
		t.Errorf("limits of an order effect of 0: %+v", limits)
	}
	for _, note := range r.Notes() {
		if strings.Contains(note, "favours the text shown") {
			t.Error(note)
		}
	}
}

// TestOneCluster: verdicts on one pair of documents say nothing about others, so that
// there are no limits, no probabilities and no frames, and no candidate is called ahead.
func TestOneCluster(t *testing.T) {
	t.Parallel()
	m := sourceOf(plan([]string{"a", "b"}, []string{"q"}, "j"))
	for k := range 40 {
		winner := "q/a"
		if k%10 == 0 {
			winner = "q/b"
		}
		m.verdict(0, "q/a", "q/b", winner, "r")
		m.verdict(0, "q/b", "q/a", winner, "r")
	}
	r := built(t, m, Options{})
	best := r.Groups[0].Ranked[0]
	if !math.IsNaN(best.SE) || !math.IsNaN(best.Low) || !math.IsNaN(best.Best) || best.RankHigh != 2 || r.Intervals.Clusters != 1 {
		t.Errorf("%+v by %+v", best, r.Intervals)
	}
	if frame := r.headToHead(r.Groups[0]).Rows[0].Cells[1]; frame.Sure || r.scoreInterval(best) != "–" {
		t.Errorf("the interval is %s, and the cell of the two %+v", r.scoreInterval(best), frame)
	}
	if notes := strings.Join(r.Notes(), "\n"); !strings.Contains(notes, "All verdicts are on one pair of documents") {
		t.Errorf("the notes do not say so: %s", notes)
	}
}

// TestEloCorrectsForOrder: four documents that are equal but for a judge who prefers what
// is shown first in four of five verdicts, each pair in one order, have about one rating.
// Without the order effect they are far apart.
func TestEloCorrectsForOrder(t *testing.T) {
	t.Parallel()
	m := sourceOf(plan([]string{"a", "b", "c", "d"}, []string{"q"}, "j"))
	const trials = 200
	for pair, won := range map[string]int{"ab": 162, "ac": 162, "ad": 163, "bc": 167, "bd": 168, "cd": 162} {
		first, second := "q/"+pair[:1], "q/"+pair[1:]
		for k := range trials {
			winner := first
			if k >= won {
				winner = second
			}
			m.verdict(0, first, second, winner, "r")
		}
	}
	for _, tt := range []struct {
		options Options
		want    []float64
		within  float64
	}{
		{Options{NoPosition: true}, []float64{1209, 1077, 929, 784}, 1},
		{Options{}, []float64{1000, 1000, 1000, 1000}, 15},
	} {
		elo := map[string]float64{}
		for _, one := range built(t, m, tt.options).elo {
			elo[one.id] = one.elo
		}
		for k, document := range []string{"q/a", "q/b", "q/c", "q/d"} {
			if got := elo[document]; !(math.Abs(got-tt.want[k]) <= tt.within) {
				t.Errorf("position effect left in %t: %s is rated %.2f, want %v", tt.options.NoPosition, document, got, tt.want[k])
			}
		}
	}
}

// TestDevianceOfSparseVerdicts: with one verdict of a judge on each pair and order, deviance says
// nothing about the fit, and is left out; with five it is shown.
func TestDevianceOfSparseVerdicts(t *testing.T) {
	t.Parallel()
	for trials, shown := range map[int]bool{1: false, 4: false, 5: true} {
		m := sourceOf(plan([]string{"a", "b", "c"}, []string{"q"}, "j"))
		for _, pair := range [][2]string{{"a", "b"}, {"b", "a"}, {"a", "c"}, {"c", "a"}, {"b", "c"}, {"c", "b"}} {
			for k := range trials {
				m.verdict(0, "q/"+pair[0], "q/"+pair[1], "q/"+pair[k%2], "r")
			}
		}
		r := built(t, m, Options{})
		if got := strings.Contains(r.fitWords(), "deviance"); got != shown {
			t.Errorf("%d verdicts in a cell: deviance is shown %t, want %t: %q", trials, got, shown, r.fitWords())
		}
	}
}
