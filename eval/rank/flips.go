package rank

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// flips tests differences between two candidates if one never lost to the other, not even through a chain of others.
// Their fitted difference depends only on the prior, so it says nothing. Instead, each test fits the model with both
// abilities equal. It computes how much each cluster of verdicts contributes to the slope of the likelihood there. If
// the abilities are equal, each contribution has either sign with equal probability. Flipping the signs at random
// shows how large their sum may be by chance. See Hemerik, Goeman and Finos 2020, "Robust testing in generalized
// linear models by sign flipping score contributions". For two candidates that were compared only with each other, it
// is the sign test of clusters.
//
// All differences flip together, so that several claims are valid simultaneously. See Westfall and Young 1993,
// "Resampling-Based Multiple Testing", and Romano and Wolf 2005, "Exact and approximate stepdown methods for multiple
// hypothesis testing".
type flips struct {
	pairs  []orderedPair
	sums   []float64   // by pair; positive if its first candidate is better
	random [][]float32 // by draw and pair: size of the sum with flipped signs
	exact  bool        // random has every combination of signs once
}

const (
	// mostFlipWork bounds the number of multiplications of all tests of a component.
	mostFlipWork = 2_000_000_000
	// leastApart is how far apart in the ranking candidates must be tested, so that the remaining claims follow from
	// the tested ones. Candidates closer to each other can rarely be told apart.
	leastApart = 12
	// newtonSteps is the usual number of steps of a fit with two equal abilities.
	newtonSteps = 8
	// flipDraws is the number of draws at the level 5 %, if there are too many combinations of signs. Lower levels
	// take more draws, up to mostFlipDraws.
	flipDraws     = 1000
	mostFlipDraws = 10_000
	// mostSigns is the largest number of clusters for which all combinations are tried.
	mostSigns = 10
	// chunk is how many pairs are fitted in sequence, each starting from the previous fit.
	chunk = 16
	// slight is the size of a contribution, as a share of the largest, below which it is omitted. Such clusters say nothing
	// about the two candidates, but the prior, or a rounded fit, can give all of them the same sign, which no flips would
	// reach. A flip does not change the size, so the test of the rest is valid.
	slight = 0.1
	// weaker is the factor for the precision of the abilities' prior in these fits, so that the prior adds almost
	// nothing to the sum.
	weaker = 0.1
)

// mostApart returns how far apart in the ranking pairs of candidates, which are in order, can be tested within the bound on
// work; at most one less than there are candidates. Only pairs that are to be tested count, which are few if one candidate
// won all. It returns 0 if that is less than leastApart. It also returns 0 if a prior holds a judge's parameters, because
// the prior would look like evidence, and if verdicts have weights, because a cluster that was seen by chance does not say
// as much as its weight.
func (f *Fit) mostApart(candidates []int, clusters [][]Observed, how Drawing) int {
	if f.model.heaviest > 0 || slices.ContainsFunc(f.Judges, func(j JudgeEffect) bool { return j.Regularised }) {
		return 0
	}
	verdicts := 0.0
	for _, cluster := range clusters {
		verdicts += float64(len(cluster))
	}
	size := float64(f.model.size)
	test := newtonSteps*(size*size*size/3+50*verdicts) + size*size*size + float64(flipDrawsAt(how.Joint))*min(4*size, verdicts)

	left, n := cmp.Or(how.flipWork, mostFlipWork)/test, len(candidates)
	for apart := 1; apart < n; apart++ {
		for k, i := range candidates[:n-apart] {
			if j := candidates[k+apart]; f.strong[i] != f.strong[j] && !f.confounded(i, j) {
				left--
			}
		}
		switch {
		case left >= 0:
		case apart > leastApart:
			return apart - 1
		default:
			return 0
		}
	}
	return n - 1
}

func flipDrawsAt(chance float64) int {
	return int(min(max(flipDraws*level/cmp.Or(chance, level), flipDraws), mostFlipDraws))
}

// flipsOf tests the given pairs of candidates.
func (f *Fit) flipsOf(ctx context.Context, pairs []orderedPair, clusters [][]Observed, level float64, seed uint64) (*flips, error) {
	t := &flips{pairs: pairs, sums: make([]float64, len(pairs))}
	weights := make([][]weight, len(pairs))
	m := *f.model
	m.ridge = slices.Clone(m.ridge)
	for i := range m.candidates {
		m.ridge[i] *= weaker
	}
	chunks := (len(pairs) + chunk - 1) / chunk
	err := parallel(ctx, chunks, func(c int) {
		near := f.at // each pair starts from the fit of the pair before
		for k := c * chunk; k < min((c+1)*chunk, len(pairs)); k++ {
			t.sums[k], weights[k], near = f.contributions(&m, pairs[k], clusters, near)
		}
	})
	if err != nil {
		return nil, err
	}

	draws := flipDrawsAt(level)
	if t.exact = len(clusters) <= mostSigns; t.exact {
		draws = 1 << len(clusters)
	}
	t.random = make([][]float32, draws)
	return t, parallel(ctx, draws, func(k int) { t.random[k] = flipped(weights, t.signs(k, len(clusters), seed)) })
}

// signs returns the signs of the clusters in the k-th draw.
func (t *flips) signs(k, clusters int, seed uint64) []float32 {
	random := rand.New(rand.NewPCG(seed, uint64(k)))
	out := make([]float32, clusters)
	for g := range out {
		if t.exact {
			out[g] = float32(1 - 2*(k>>g&1))
		} else {
			out[g] = float32(1 - 2*random.IntN(2))
		}
	}
	return out
}

// weight is the contribution of one cluster.
type weight struct {
	cluster int32
	size    float32
}

func flipped(weights [][]weight, signs []float32) []float32 {
	out := make([]float32, len(weights))
	for k, each := range weights {
		sum := float32(0)
		for _, w := range each {
			sum += signs[w.cluster] * w.size
		}
		out[k] = max(sum, -sum)
	}
	return out
}

// contributions returns the clusters' contributions to the slope of the likelihood at equal abilities, in the
// direction of a difference between two candidates. Slight ones are left out, and the others scaled to a sum of squares
// of 1. Each is too small, because the fit has followed the cluster. It is therefore divided by the root of the
// remaining part of its variance, as in Bell and McCaffrey 2002. sum is the sum of the undivided ones.
//
// x is the maximum of the likelihood. sum is 0, so that nothing is claimed, if there is no maximum. It is also 0 if
// all verdicts together add less than one verdict can.
func (f *Fit) contributions(
	m *model, pair orderedPair, clusters [][]Observed, near []float64,
) (sum float64, weights []weight, x []float64) {
	i, j := pair.split()
	x, along, covariance, ok := m.maximiseEqual(i, j, near)
	if !ok {
		return 0, nil, f.at
	}

	c := newClusterScore(f)
	c.here = m.at(x)
	slopes, each := make([]float64, len(clusters)), make([]float64, len(clusters))
	largest := 0.0
	for g, cluster := range clusters {
		c.support(cluster)
		c.add(cluster)
		slope, left := c.along(along, covariance)
		sum += slope
		slopes[g], each[g] = slope, slope/math.Sqrt(left)
		largest = max(largest, math.Abs(each[g]))
	}

	if sum < along.AtVec(i)-along.AtVec(j) {
		return 0, nil, x
	}
	kept, squares := 0.0, 0.0
	for g, size := range each {
		if math.Abs(size) < slight*largest {
			each[g] = 0
			continue
		}
		kept, squares = kept+slopes[g], squares+size*size
	}
	for g, size := range each {
		if size != 0 {
			weights = append(weights, weight{int32(g), float32(size / math.Sqrt(squares))})
		}
	}

	return kept / math.Sqrt(squares), weights, x
}

// along returns the slope of the cluster's likelihood in a direction. left is the share of its variance that remains
// after the fit, which has the given covariance, has followed it.
func (c *clusterScore) along(direction *mat.VecDense, covariance *mat.SymDense) (slope, left float64) {
	const least = 0.01
	s := len(c.positions)
	informed, variance, followed := make([]float64, s), 0.0, 0.0
	for a, i := range c.positions {
		slope += c.score[a] * direction.AtVec(i)
		for b, j := range c.positions {
			informed[a] += c.info[a*s+b] * direction.AtVec(j)
		}
		variance += informed[a] * direction.AtVec(i)
	}
	for a, i := range c.positions {
		for b, j := range c.positions {
			followed += informed[a] * covariance.At(i, j) * informed[b]
		}
	}
	if !(variance > 0) {
		return slope, 1
	}
	return slope, max(1-followed/variance, least)
}

// maximiseEqual maximises the objective with equal abilities of i and j, starting near from. along is the direction
// in which their difference grows while all other parameters follow. covariance is that of the other parameters. ok
// is false if there is no maximum.
func (m *model) maximiseEqual(i, j int, from []float64) (x []float64, along *mat.VecDense, covariance *mat.SymDense, ok bool) {
	const near = 0.01 // a squared standard error; the next step is far smaller
	x = slices.Clone(from)
	x[i], x[j] = (x[i]+x[j])/2, (x[i]+x[j])/2
	gradient, step := mat.NewVecDense(m.size, nil), mat.NewVecDense(m.size, nil)
	along = mat.NewVecDense(m.size, nil)
	difference := mat.NewVecDense(m.size, nil)
	difference.SetVec(i, 1)
	difference.SetVec(j, -1)
	information := mat.NewSymDense(m.size, nil)
	var factor mat.Cholesky
	value := m.objective(x)
	for range maxIterations {
		m.derivatives(x, gradient.RawVector().Data, information)
		if !factor.Factorize(information) || factor.SolveVecTo(step, gradient) != nil || factor.SolveVecTo(along, difference) != nil {
			return nil, nil, nil, false
		}
		m.keepMean(&factor, step)
		m.keepMean(&factor, along)
		variance := mat.Dot(difference, along)
		step.AddScaledVec(step, -mat.Dot(difference, step)/variance, along)
		decrement := mat.Dot(gradient, step)
		value = m.move(x, step, value)
		if decrement >= near {
			continue
		}
		covariance = mat.NewSymDense(m.size, nil)
		if factor.InverseTo(covariance) != nil {
			return nil, nil, nil, false
		}
		if m.unbounded(func(k int) bool { return math.Abs(x[k]) > endless || covariance.At(k, k) > uncertain*uncertain }) != nil {
			return nil, nil, nil, false
		}
		m.meanKnown(covariance)
		covariance.SymRankOne(covariance, -1/variance, along)
		return x, along, covariance, true
	}

	return nil, nil, nil, false
}

// chanceOf returns the p-value of a pair's difference alone.
func (t *flips) chanceOf(k int) float64 {
	sizes := make([]float64, len(t.random))
	for d, of := range t.random {
		sizes[d] = float64(of[k])
	}
	slices.Sort(sizes)
	return t.chance(sizes, t.sums[k])
}

// claimed returns the pairs whose first candidate can be claimed to be better, as positions in t.pairs, like of. At
// most a share `chance` of all evaluations claims any of them falsely.
func (t *flips) claimed(of []int, chance float64) []int {
	var claims []int
	for {
		greatest := make([]float64, len(t.random))
		for d, sizes := range t.random {
			for _, k := range of {
				greatest[d] = max(greatest[d], float64(sizes[k]))
			}
		}
		slices.Sort(greatest)
		var rest []int
		for _, k := range of {
			if t.chance(greatest, t.sums[k]) <= chance {
				claims = append(claims, k)
			} else {
				rest = append(rest, k)
			}
		}
		if len(rest) == len(of) {
			return claims
		}
		of = rest
	}
}

// chance returns the share of draws that reach sum; sizes must be ascending.
func (t *flips) chance(sizes []float64, sum float64) float64 {
	const rounding = 1e-5
	first, _ := slices.BinarySearch(sizes, sum-rounding)
	reached, draws := float64(len(sizes)-first), float64(len(sizes))
	if t.exact {
		return reached / draws
	}
	return (reached + 1) / (draws + 1) // the actual signs count as one more draw
}
