package rank

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// said has the scores of candidates on items by one rater, one row for each item.
func said(rater int, items ...[]float64) (all []Scores) {
	for item, row := range items {
		for i, score := range row {
			all = append(all, Scores{Candidate: i, Cluster: item, Rater: rater, Sum: score, Count: 1})
		}
	}
	return all
}

func meansOf(t *testing.T, n int, scores []Scores, how Drawing) *Means {
	t.Helper()
	m, err := MeansOf(t.Context(), n, scores, 0, 10, how)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestPairedTest: the test is Student's of the differences by item, with its published values (Student 1908, the hours of
// sleep gained by two drugs).
func TestPairedTest(t *testing.T) {
	t.Parallel()
	one := []float64{1.9, .8, 1.1, .1, -.1, 4.4, 5.5, 1.6, 4.6, 3.4}
	other := []float64{.7, -1.6, -.2, -1.2, -.1, 3.4, 3.7, .8, 0, 2}
	var rows [][]float64
	for k := range one {
		rows = append(rows, []float64{one[k] + 2, other[k] + 2})
	}
	m := meansOf(t, 2, said(0, rows...), Drawing{})
	difference, limits, ok := m.Contrast(0, 1)
	const se = 1.229995 / 3.162278 // 1.58/0.389 = 4.0621 on 9 degrees of freedom, p = .00283
	if !ok || !near(difference, 1.58, 1e-9) || !near(limits.SE, se, 1e-5) || !near(limits.Low, .7001, 1e-4) || !near(limits.High, 2.4599, 1e-4) {
		t.Errorf("difference %v, %+v, %t", difference, limits, ok)
	}
	// One of the ten does not differ, so flips of signs have p = 2/2⁹ at least.
	if p := m.test(0, 1).p; !near(p, math.Exp2(-8), 1e-9) {
		t.Errorf("p %v", p)
	}
	if m.RankHigh[0] != 1 || m.RankLow[1] != 2 || m.Beats(0, 1) < .95 || m.Beats(1, 0) > .05 || m.Best[0] != m.Beats(0, 1) {
		t.Errorf("%+v, %v, %v", m.Conclusions, m.Beats(0, 1), m.Beats(1, 0))
	}
	if next := m.Neighbours()[0]; next.More != 0 || next.Right < .95 {
		t.Errorf("%+v", next)
	}
	if !math.IsNaN(m.Beats(0, 0)) {
		t.Error("a candidate is compared with itself")
	}
}

// TestFewItemsClaimNothing: differences that are all the same are no proof in fewer than six items, however large they are,
// nor in as many if many are tested.
func TestFewItemsClaimNothing(t *testing.T) {
	t.Parallel()
	for items, want := range map[int]int{1: 2, 2: 2, 5: 2, 6: 1, 20: 1} {
		m := meansOf(t, 2, said(0, slices.Repeat([][]float64{{9, 3}}, items)...), Drawing{})
		if m.RankHigh[0] != want {
			t.Errorf("%d items: rank up to %d, want %d", items, m.RankHigh[0], want)
		}
		switch p := m.Beats(0, 1); {
		case items == 1 && !math.IsNaN(p), items > 1 && (p >= .95) != (want == 1):
			t.Errorf("%d items: better with %v", items, p)
		}
		if difference, limits, ok := m.Contrast(0, 1); items > 1 && (!ok || difference != 6 || (limits.Low >= 0) != (want == 1) || limits.High > 10) {
			t.Errorf("%d items: %v, %+v", items, difference, limits)
		}
		if next := m.Neighbours()[0]; items == 5 && next.More != 1 {
			t.Errorf("5 items: %+v", next)
		}
	}
	rows := slices.Repeat([][]float64{{9, 8, 7, 6, 5, 4, 3, 2, 1}}, 6)
	if m := meansOf(t, 9, said(0, rows...), Drawing{}); m.RankHigh[0] != 9 || m.MarginalHigh[0] != 9 || m.ahead(0, 1, ofPair) != 1 {
		t.Errorf("of 36 differences: %+v", m.Conclusions)
	}
}

// TestScoresOfAnItemDependOnEachOther: trials, raters and criteria add no items.
func TestScoresOfAnItemDependOnEachOther(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(2, 2))
	var rows [][]float64
	for range 8 {
		rows = append(rows, []float64{5 + random.NormFloat64(), 5 + random.NormFloat64()})
	}
	once := meansOf(t, 2, said(0, rows...), Drawing{})
	var often []Scores
	for rater := range 5 {
		for range 4 {
			often = append(often, said(rater, rows...)...)
		}
	}
	many := meansOf(t, 2, often, Drawing{})
	_, one, _ := once.Contrast(0, 1)
	_, other, _ := many.Contrast(0, 1)
	if !near(one.SE, other.SE, 1e-9) || !near(once.test(0, 1).p, many.test(0, 1).p, 1e-9) || many.Clusters != 8 {
		t.Errorf("once %+v, often %+v, %d items", one, other, many.Clusters)
	}
}

// TestOnlyCommonScoresCompare: strictness of raters and difficulty of items are no difference between candidates. What
// contradicts the order of the means is no claim.
func TestOnlyCommonScoresCompare(t *testing.T) {
	t.Parallel()
	var apart, mixed []Scores
	for item := range 20 {
		luck := float64(item % 3)
		// A lenient rater gave the first candidate scores of other items, and a strict one the second.
		apart = append(apart, Scores{Candidate: 0, Cluster: item, Rater: 0, Sum: 8 + luck/4, Count: 1}, Scores{Candidate: 1, Cluster: item, Rater: 1, Sum: 3 + luck/4, Count: 1})
		mixed = append(mixed,
			Scores{Candidate: 0, Cluster: item, Rater: 0, Sum: 3 + luck/4, Count: 1}, Scores{Candidate: 1, Cluster: item, Rater: 0, Sum: 4 + luck/3, Count: 1},
			Scores{Candidate: 0, Cluster: 20 + item, Rater: 0, Sum: 9, Count: 1})
	}
	m := meansOf(t, 2, apart, Drawing{})
	if _, _, ok := m.Contrast(0, 1); ok || m.RankHigh[0] != 2 || !math.IsNaN(m.Beats(0, 1)) || !math.IsNaN(m.Best[0]) || m.Clusters != 0 {
		t.Errorf("nothing in common: %+v", m)
	}
	m = meansOf(t, 3, mixed, Drawing{})
	if !slices.Equal(m.ranked, []int{0, 1}) || m.ahead(0, 1, ofPair) != 0 || m.RankHigh[0] != 2 || !slices.Equal(m.Reversed, [][2]int{{0, 1}}) {
		t.Errorf("other items: %+v, %v", m.Conclusions, m.Reversed)
	}
	if p := m.Beats(0, 1); p > .5 || p < 1-unsure-1e-9 || !math.IsInf(m.Neighbours()[0].More, 1) {
		t.Errorf("other items: better with %v", p)
	}
	if !math.IsNaN(m.Beats(0, 2)) || !math.IsNaN(m.At[2]) {
		t.Error("a candidate without scores is compared")
	}
}

// TestMeansAgreeWithTheirTests: what is said of candidates is what the tests say, as TestInvariants.
func TestMeansAgreeWithTheirTests(t *testing.T) {
	t.Parallel()
	for _, s := range scorings() {
		random := rand.New(rand.NewPCG(4, 5))
		quality := s.qualities(random)
		scores := s.scores(random, quality, s.items, make([]float64, s.judges))
		m, err := MeansOf(t.Context(), s.candidates, scores, 1, s.most, Drawing{Draws: 200})
		if err != nil {
			t.Fatal(err)
		}
		sum, held := 0.0, 0.0
		for i, p := range m.Best {
			sum += p
			if m.Contenders[i] {
				held += p
			}
			if m.RankLow[i] > m.place[i]+1 || m.RankHigh[i] < m.place[i]+1 {
				t.Errorf("%s: %d is at %d, ranks %d to %d", s.name, i, m.place[i]+1, m.RankLow[i], m.RankHigh[i])
			}
			for j := range m.Best {
				if i == j {
					continue
				}
				_, limits, _ := m.Contrast(i, j)
				if claim := m.ahead(i, j, ofPair) == 1; claim != (m.Beats(i, j) >= 1-level) || claim && limits.Low < 0 || !claim && limits.Low > 0 {
					t.Errorf("%s: %d before %d: %t, %v, %+v", s.name, i, j, claim, m.Beats(i, j), limits)
				}
				if m.ahead(i, j, ofAll) == 1 && m.ahead(i, j, ofPair) != 1 {
					t.Errorf("%s: %d before %d at once, but not alone", s.name, i, j)
				}
			}
		}
		if !near(sum, 1, 1e-9) || held < 1-level-1e-9 {
			t.Errorf("%s: P(best) sums to %v, of contenders to %v", s.name, sum, held)
		}
		if n := m.Narrowing(); n.Contenders > 1 && !(n.More > 0) || n.Left != (n.Contenders+1)/2 {
			t.Errorf("%s: %+v", s.name, n)
		}
		again, err := MeansOf(t.Context(), s.candidates, scores, 1, s.most, Drawing{Draws: 200})
		if err != nil || !slices.Equal(again.Best, m.Best) {
			t.Errorf("%s: other digits the second time, %v", s.name, err)
		}
	}
	if _, err := MeansOf(t.Context(), MaxMeans+1, said(0, make([]float64, MaxMeans+1)), 0, 10, Drawing{}); !errors.Is(err, ErrTooManyCandidates) {
		t.Errorf("too many: %v", err)
	}
	for _, how := range []Drawing{{Draws: -1}, {Draws: MaxDraws + 1}, {Joint: 1}, {Joint: math.NaN()}} {
		if _, err := MeansOf(t.Context(), 2, said(0, []float64{1, 2}), 0, 10, how); err == nil {
			t.Errorf("%+v: no error", how)
		}
	}
}

// TestSizeOfScores: about as many more items as are said tell the two apart in about half of all evaluations.
func TestSizeOfScores(t *testing.T) {
	t.Parallel()
	s := scoring{candidates: 4, apart: .6, items: 15, judges: 1, most: 10, own: 1}
	strict := []float64{0}
	var sizes []float64
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 8))
		m, err := MeansOf(t.Context(), 4, s.scores(random, s.qualities(random), s.items, strict), 1, 10, Drawing{Draws: 20})
		if err != nil {
			t.Fatal(err)
		}
		for _, next := range m.Neighbours() {
			sizes = append(sizes, float64(s.items)+next.More)
		}
	}
	slices.Sort(sizes)
	median, told := sizes[len(sizes)/2], 0
	more := s
	more.items = int(median)
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 9))
		m, err := MeansOf(t.Context(), 4, more.scores(random, s.qualities(random), more.items, strict), 1, 10, Drawing{Draws: 20})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			told += m.ahead(i+1, i, ofPair)
		}
	}
	if t.Logf("median %v items, told apart in %d of 300", median, told); median > 200 || told < 140 || told > 270 {
		t.Errorf("with %v items in all, %d of 300 are told apart", median, told)
	}
}

// A claim takes as many clusters as make the smallest p-value of flipped signs small enough: 2/2ⁿ is at most .05 from 6 on,
// .05/45 from 11, .05/435 from 15.
func TestClustersFor(t *testing.T) {
	t.Parallel()
	for tests, want := range map[int]int{1: 6, 3: 7, 29: 11, 45: 11, 435: 15} {
		if got := ClustersFor(tests); got != want {
			t.Errorf("%d tests: %d clusters, want %d", tests, got, want)
		}
	}
}
