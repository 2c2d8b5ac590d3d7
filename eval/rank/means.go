package rank

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// MaxMeans is the maximum number of candidates whose mean scores are compared with each other.
const MaxMeans = 1000

// Means compares the mean scores of candidates.
//
// Two candidates are compared by what the same rater gave both of them in the same cluster, such as an item. Trials are
// averaged, then raters, so that each cluster has one difference: scores of a cluster may depend on each other in any way.
// The test is the paired one of Student 1908, "The probable error of a mean", with one degree of freedom less than there
// are clusters. Differences of a few scores are far from normal, so no p-value is smaller than the smallest one of a test
// that flips the signs of as many differences as are not 0 (Fisher 1935, "The Design of Experiments", §21). So a claim
// takes six clusters in which the two differ, and more where many differences are tested.
//
// A candidate is claimed to be better only if the mean of all its scores is higher, too. The two can contradict each other
// where candidates were scored in different clusters.
type Means struct {
	Conclusions
	// At holds the mean of all scores of each candidate; NaN: it has none.
	At []float64
	// Clusters is the number of clusters in which several candidates have scores, and Draws that of the draws of Best.
	Clusters, Draws int
	// Reversed are the pairs of candidates whose first has the higher mean, although a test of the two says that it is worse
	// where the same raters scored both.
	Reversed [][2]int
	// Tests is the number of differences that can be tested, and Decided the most clusters in which any two candidates differ.
	Tests, Decided int

	ranked []int        // candidates with scores, best first
	place  []int        // of each candidate in ranked; −1: it has no scores
	tests  []pairedTest // of pairs of ranked, as at numbers them
	span   float64      // of the scale
	unit   float64      // standard deviation of scores around what their candidate, cluster and rater explain
	spread spreads      // in units
	claims float64      // greatest p-value of the claims of ofAll; less than 0: there are none
}

// pairedTest compares two candidates.
type pairedTest struct {
	by, se            float64 // of the one less the other
	p                 float64
	clusters, decided int32 // with scores of both; those in which they differ
}

// cellMean is the mean of a rater's scores of a candidate in a cluster.
type cellMean struct {
	cluster, rater int
	mean           float64
}

func (c cellMean) compare(d cellMean) int {
	return cmp.Or(cmp.Compare(c.cluster, d.cluster), cmp.Compare(c.rater, d.rater))
}

// MeansOf compares the means of scores between least and most of candidates 0 to n−1. It stops early if ctx ends. For c
// candidates, time grows with c² and with the scores of each, and memory with 20·c² bytes.
func MeansOf(ctx context.Context, n int, scores []Scores, least, most float64, how Drawing) (*Means, error) {
	switch {
	case how.Draws < 0 || how.Draws > MaxDraws:
		return nil, fmt.Errorf("means: %d draws, want at most %d", how.Draws, MaxDraws)
	case !(how.Joint >= 0 && how.Joint < 1):
		return nil, fmt.Errorf("means: joint level %v, want 0 to 1", how.Joint)
	}
	m := &Means{At: make([]float64, n), place: make([]int, n), span: most - least, Draws: cmp.Or(how.Draws, defaultDraws)}
	cells := m.order(scores)
	if len(m.ranked) > MaxMeans {
		return nil, fmt.Errorf("means of %d candidates: %w (at most %d)", len(m.ranked), ErrTooManyCandidates, MaxMeans)
	}
	m.scatter(cells)

	size := len(m.ranked)
	m.tests = make([]pairedTest, size*(size-1)/2)
	if err := parallel(ctx, size, func(a int) {
		for b := a + 1; b < size; b++ {
			m.tests[m.at(a, b)] = m.compare(cells[a], cells[b])
		}
	}); err != nil {
		return nil, err
	}
	m.stepDown(cmp.Or(how.Joint, level))
	best, err := m.best(ctx, how.Seed)
	if err != nil {
		return nil, err
	}
	m.Conclusions = concluded(m, n, [][]int{m.ranked}, best, cmp.Or(how.Joint, level))
	return m, nil
}

// order sets the means and the order of the candidates, and returns the cells of each, in that order.
func (m *Means) order(scores []Scores) [][]cellMean {
	sums, counts := make([]float64, len(m.At)), make([]float64, len(m.At))
	for _, s := range scores {
		sums[s.Candidate] += s.Sum
		counts[s.Candidate] += float64(s.Count)
	}
	for i := range m.At {
		m.At[i], m.place[i] = sums[i]/counts[i], -1
		if counts[i] > 0 {
			m.ranked = append(m.ranked, i)
		}
	}
	slices.SortStableFunc(m.ranked, func(i, j int) int { return cmp.Compare(m.rounded(j), m.rounded(i)) })

	cells := make([][]cellMean, len(m.ranked))
	for k, i := range m.ranked {
		m.place[i] = k
	}
	scores = slices.Clone(scores)
	slices.SortStableFunc(scores, func(s, t Scores) int {
		return cmp.Or(cmp.Compare(s.Candidate, t.Candidate), cmp.Compare(s.Cluster, t.Cluster), cmp.Compare(s.Rater, t.Rater))
	})
	for from := 0; from < len(scores); {
		one, sum, count := scores[from], 0.0, 0
		for ; from < len(scores) && scores[from].same(one); from++ {
			sum, count = sum+scores[from].Sum, count+scores[from].Count
		}
		if own := &cells[m.place[one.Candidate]]; count > 0 {
			*own = append(*own, cellMean{one.Cluster, one.Rater, sum / float64(count)})
		}
	}
	return cells
}

// rounded returns a mean without what rounding adds to it.
func (m *Means) rounded(i int) float64 { return math.Round(m.At[i]*1e9) / 1e9 }

func (s Scores) same(t Scores) bool {
	return s.Candidate == t.Candidate && s.Cluster == t.Cluster && s.Rater == t.Rater
}

// at returns the position of the test of the candidates at two positions of ranked, the lower one first.
func (m *Means) at(a, b int) int { return a*(2*len(m.ranked)-a-1)/2 + b - a - 1 }

// scatter sets how far candidates are from the mean of all in each cluster, and what chance adds to that.
func (m *Means) scatter(cells [][]cellMean) {
	type cell struct{ cluster, rater int }
	sums, counts, several := map[cell]float64{}, map[cell]float64{}, map[int]bool{}
	for _, own := range cells {
		for _, c := range own {
			at := cell{c.cluster, c.rater}
			sums[at] += c.mean
			counts[at]++
			several[c.cluster] = several[c.cluster] || counts[at] > 1
		}
	}
	for _, more := range several {
		if more {
			m.Clusters++
		}
	}

	size := float64(len(cells))
	at, variances, clusters := make([]float64, len(cells)), make([]float64, len(cells)), make([]float64, len(cells))
	squares, freedom := 0.0, 0.0
	for k, own := range cells {
		var errors running
		byCluster(own, func(of []cellMean) {
			sum := 0.0
			for _, c := range of {
				sum += c.mean - sums[cell{c.cluster, c.rater}]/counts[cell{c.cluster, c.rater}]
			}
			errors.add(sum / float64(len(of)))
		})
		errors.squares *= size / max(size-1, 1) // of uncentred errors
		at[k], variances[k], clusters[k] = errors.mean, errors.squares, errors.n
		squares, freedom = squares+errors.squares, freedom+errors.n-1
	}

	if m.unit = math.Sqrt(squares / freedom); !(m.unit > 0) {
		m.unit = max(m.span, nothing)
	}
	for k, n := range clusters {
		at[k] /= m.unit
		variances[k] = (trusted + variances[k]/(m.unit*m.unit)) / (trusted + n - 1) / n
	}
	m.spread = spreadsOf(at, variances, float64(max(m.Clusters-1, 0)))
}

// byCluster calls do for the cells of each cluster, which are sorted.
func byCluster(cells []cellMean, do func([]cellMean)) {
	for len(cells) > 0 {
		n := 1
		for n < len(cells) && cells[n].cluster == cells[0].cluster {
			n++
		}
		do(cells[:n])
		cells = cells[n:]
	}
}

// running is a mean with the sum of the squares around it (Welford 1962, "Note on a method for calculating corrected sums
// of squares and products").
type running struct{ n, mean, squares float64 }

func (r *running) add(x float64) {
	r.n++
	step := x - r.mean
	r.mean += step / r.n
	r.squares += step * (x - r.mean)
}

// compare tests the difference of two candidates.
func (m *Means) compare(one, other []cellMean) pairedTest {
	var all, own running // differences of clusters; of the raters of the last cluster
	decided, last := 0, 0
	closed := func() {
		if own.n == 0 {
			return
		}
		all.add(own.mean)
		if math.Abs(own.mean) > nothing*m.span {
			decided++
		}
		own = running{}
	}
	for a, b := 0, 0; a < len(one) && b < len(other); {
		switch order := one[a].compare(other[b]); {
		case order < 0:
			a++
		case order > 0:
			b++
		default:
			if one[a].cluster != last {
				closed()
			}
			last = one[a].cluster
			own.add(one[a].mean - other[b].mean)
			a, b = a+1, b+1
		}
	}
	closed()
	t := pairedTest{by: all.mean, p: 1, clusters: int32(all.n), decided: int32(decided)}
	if all.n < 2 {
		return t
	}

	variance := all.squares / (all.n - 1) / all.n
	varies := variance > nothing*m.span*m.span/all.n
	switch {
	case varies:
		t.p = 2 * student(all.n-1).CDF(-math.Abs(t.by)/math.Sqrt(variance))
	case decided > 0:
		t.p = 0
	}
	t.p = min(max(t.p, smallest(decided)), 1)
	if !varies { // as of single values with this mean
		variance = max((m.span-t.by)*(m.span+t.by)/all.n, 0)
	}
	t.se = math.Sqrt(variance)
	return t
}

// smallest returns the smallest p-value of a test that flips the signs of so many differences other than 0.
func smallest(decided int) float64 { return math.Exp2(float64(1 - decided)) }

// ClustersFor returns in how many clusters two candidates must differ so that one of a number of differences between means,
// tested at once, can be claimed at 95 %, however large it is.
func ClustersFor(tests int) int {
	clusters := 1
	for smallest(clusters) > level/float64(tests) {
		clusters++
	}
	return clusters
}

// test returns the test of i against j, which has no cluster if a candidate has no scores, or is compared with itself.
func (m *Means) test(i, j int) pairedTest {
	a, b := m.place[i], m.place[j]
	switch {
	case a < 0 || b < 0 || a == b:
		return pairedTest{p: 1}
	case a < b:
		return m.tests[m.at(a, b)]
	}
	t := m.tests[m.at(b, a)]
	t.by = -t.by
	return t
}

// stepDown tests all differences at once (Holm 1979, as Uncertainty.stepDown).
func (m *Means) stepDown(joint float64) {
	var all []float64
	for a, i := range m.ranked {
		for b := a + 1; b < len(m.ranked); b++ {
			t := m.tests[m.at(a, b)]
			if t.clusters > 1 {
				all = append(all, t.p)
				m.Decided = max(m.Decided, int(t.decided))
			}
			if t.p <= level && t.by < 0 && m.rounded(i) > m.rounded(m.ranked[b]) {
				m.Reversed = append(m.Reversed, [2]int{i, m.ranked[b]})
			}
		}
	}
	slices.Sort(all)
	m.Tests = len(all)
	m.claims = -1
	for k, p := range all {
		if p > joint/float64(len(all)-k) {
			break
		}
		m.claims = p
	}
}

func (m *Means) ahead(i, j int, of family) int {
	t := m.test(i, j)
	limit := [families]float64{level, level / float64(len(m.ranked)-1), m.claims}[of]
	switch better := cmp.Compare(m.rounded(i), m.rounded(j)); {
	case t.clusters < 2 || t.p > limit || float64(better)*t.by <= 0:
		return 0
	default:
		return better
	}
}

// Beats returns the probability that i is better than j, under the assumptions of Best. It is NaN without two clusters in
// which a rater scored both. The test of the two alone decides, as of Uncertainty.Beats.
func (m *Means) Beats(i, j int) float64 {
	t := m.test(i, j)
	if t.clusters < 2 {
		return math.NaN()
	}
	p, _ := m.expected(t)
	switch m.ahead(i, j, ofPair) {
	case 1:
		return max(p, 1-level)
	case -1:
		return min(p, level)
	}
	return min(max(p, 1-unsure), unsure)
}

// expected returns the probability that a difference is positive, and its expectation.
func (m *Means) expected(t pairedTest) (positive, expected float64) {
	if t.se == 0 {
		return map[int]float64{-1: 0, 0: 0.5, 1: 1}[cmp.Compare(t.by, 0)], t.by
	}
	positive, expected = m.spread.order(t.by/m.unit, t.se*t.se/(m.unit*m.unit))
	return positive, expected * m.unit
}

// Contrast returns the mean difference of i and j where the same rater scored both, with its limits. If the test of the two
// alone says which one is better, the limits have the same sign, and otherwise they contain 0. ok is false if there are
// fewer than two clusters.
func (m *Means) Contrast(i, j int) (difference float64, limits Limits, ok bool) {
	t := m.test(i, j)
	if t.clusters < 2 {
		return 0, Limits{}, false
	}
	limits = around(t.by, t.se, student(float64(t.clusters-1)).Quantile(1-level/2))
	limits.Low, limits.High = max(limits.Low, -m.span), min(limits.High, m.span)
	if sure := 2 * math.Pow(level/2, 1/float64(t.clusters)); t.se == 0 { // the limits of MeanOf
		limits.Low, limits.High = min(limits.Low, m.span*(sure-1)), max(limits.High, m.span*(1-sure))
		if t.by > 0 {
			limits.High = m.span
		} else {
			limits.Low = -m.span
		}
	}

	switch m.ahead(i, j, ofPair) {
	case 1:
		limits.Low = max(limits.Low, 0)
	case -1:
		limits.High = min(limits.High, 0)
	case 0:
		limits.Low, limits.High = min(limits.Low, 0), max(limits.High, 0)
	}
	return t.by, limits, true
}

// best returns how often each candidate is the best in draws of the means. It is NaN if two of them have no scores by one
// rater in two clusters.
func (m *Means) best(ctx context.Context, seed uint64) ([]float64, error) {
	out := make([]float64, len(m.At))
	if slices.ContainsFunc(m.tests, func(t pairedTest) bool { return t.clusters < 2 }) || len(m.spread.cells) == 0 {
		for _, i := range m.ranked {
			out[i] = math.NaN()
		}
		return out, nil
	}
	first := make([]int, m.Draws)
	err := parallel(ctx, m.Draws, func(k int) { first[k] = m.spread.best(rand.New(rand.NewPCG(seed, uint64(k)))) })
	for _, k := range first {
		out[m.ranked[k]] += 1 / float64(m.Draws)
	}
	return out, err
}

// Neighbours returns the neighbours in the order of the means.
func (m *Means) Neighbours() []Neighbours {
	var all []Neighbours
	for k := 1; k < len(m.ranked); k++ {
		i, j := m.ranked[k-1], m.ranked[k]
		one := Neighbours{Better: i, Worse: j, Right: m.Beats(i, j), Clusters: m.Clusters}
		switch {
		case math.IsNaN(one.Right):
			one.More = math.NaN()
		case m.ahead(i, j, ofPair) == 0:
			one.More = m.further(i, j, level)
		}
		all = append(all, one)
	}
	return all
}

// Narrowing says how much more would leave fewer contenders.
func (m *Means) Narrowing() Narrowing {
	chance := level / float64(max(len(m.ranked)-1, 1))
	return m.narrowing(m.ranked, float64(max(m.Clusters-1, 0)), func(first, i int) float64 { return m.further(first, i, chance) })
}

// further returns about how many more clusters would tell the two apart with the given chance of a false claim, as
// Neighbours.More.
func (m *Means) further(i, j int, chance float64) float64 {
	t := m.test(i, j)
	clusters, decided := float64(t.clusters), float64(t.decided)
	_, expected := m.expected(t)
	if t.clusters < 2 || !(expected > 0) {
		return math.Inf(1)
	}
	more, enough := 1.0, math.Ceil(1-math.Log2(chance))
	if t.p > math.Exp2(1-decided)+nothing { // otherwise signs decide
		more = needed(clusters, t.se/expected, chance) - clusters
	}
	if decided < enough {
		more = max(more, (enough-decided)*clusters/max(decided, 1))
	}
	return max(math.Ceil(more), 1)
}
