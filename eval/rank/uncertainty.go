package rank

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"
)

// level is that of all intervals and claims: 95 %.
const level = 0.05

// Drawing says how Uncertainty.Best is drawn.
type Drawing struct {
	Draws int    // 0: 2,000
	Seed  uint64 // the same seed and verdicts give the same digits, on any number of processors
}

// MaxDraws bounds Drawing.Draws.
const MaxDraws = 100_000

// Limits are those of one number at 95 %.
type Limits struct {
	SE        float64
	Low, High float64
}

// Uncertainty says how far a Fit would move with other questions of the same kind.
type Uncertainty struct {
	Clusters, Draws int
	// Abilities are the limits of each candidate's.
	Abilities []Limits
	// RankLow and RankHigh bound the ranks of all candidates of a component at once: in
	// 95 of 100 evaluations every true rank lies within its bounds. They follow from
	// simultaneous tests of all differences (Mogstad, Romano, Shaikh and Wilhelm 2024,
	// "Inference for Ranks with Applications to Mobility across Neighbourhoods and
	// Academic Achievement across Countries").
	RankLow, RankHigh []int
	// MarginalLow and MarginalHigh bound the rank of each candidate taken alone.
	MarginalLow, MarginalHigh []int
	// Best is the probability that a candidate is the best of its component, were the
	// abilities of candidates like these normal around their mean: the spread that the
	// estimates show decides how far a lead may be luck (Gelman, Hill and Yajima 2012, "Why
	// we (usually) don't have to worry about multiple comparisons"). NaN where
	// that cannot be told: candidates and positions are confounded, or the component has
	// verdicts of one cluster only.
	Best []float64
	// Orders are those of JudgeEffect.Order; of a judge without one they are 0.
	Orders []Limits
	// Scales are those of JudgeEffect.Scale; of a judge without one they are 0.
	Scales []Limits
	// Length are those of Fit.Length; without it they are 0.
	Length Limits

	fit        *Fit
	covariance *mat.SymDense
	victors    map[orderedPair]*victories
	parts      []inference // of each component
}

// inference is what tests in one component need.
type inference struct {
	freedom  float64 // clusters − 1; 0: the fit's own errors are all there is
	critical float64 // of one difference, in standard errors
	joint    float64 // of all differences at once
	pairs    float64
	floored  bool // no error is smaller than the fit's own
}

// Uncertainty estimates the covariance of all parameters from how the clusters of
// verdicts differ from each other (Liang and Zeger 1986, "Longitudinal data analysis
// using generalized linear models"; corrected for few clusters as the jackknife is).
// Verdicts of a cluster may depend on each other in any way. Limits are those of
// Student's t with one degree of freedom less than there are clusters (Bell and
// McCaffrey 2002).
//
// No error is smaller than the fit's own where a prior holds abilities, or where a
// cluster is all that relates some candidates to the others. A candidate that always
// won against another is called better by a sign test of clusters alone, because the
// size of their difference is the prior's.
//
// observed, in any order, must be the verdicts of the fit. For n parameters and v
// verdicts the time grows with n³, and with the clusters times the third power of the
// candidates in each, up to a bound; memory with 40·n² + 100·v bytes.
// It uses every processor and ends early with ctx.
func (f *Fit) Uncertainty(ctx context.Context, observed []Observed, how Drawing) (*Uncertainty, error) {
	if how.Draws < 0 || how.Draws > MaxDraws {
		return nil, fmt.Errorf("uncertainty: %d draws, want at most %d", how.Draws, MaxDraws)
	}
	in, err := f.influences(observed)
	if err != nil {
		return nil, fmt.Errorf("uncertainty: %w", err)
	}
	u := &Uncertainty{Clusters: in.clusters(), Draws: how.Draws, fit: f, victors: in.victors}
	if u.Draws == 0 {
		u.Draws = 2000
	}
	for c, part := range f.Components {
		size := float64(len(part.Candidates))
		one := inference{critical: distuv.UnitNormal.Quantile(1 - level/2), pairs: size * (size - 1) / 2, floored: part.Regularised || in.bridged[c]}
		if in.members[c] > 1 {
			one.freedom = float64(in.members[c] - 1)
			one.critical = student(one.freedom).Quantile(1 - level/2)
			one.joint = student(one.freedom).Quantile(1 - together(len(part.Candidates)))
		}
		u.parts = append(u.parts, one)
	}
	if f.model.size > 0 {
		inverse := mat.DenseCopyOf(f.covariance)
		u.covariance = in.covariance(inverse)
		if err := u.best(ctx, in, how.Seed); err != nil {
			return nil, err
		}
	}
	u.limit(in)
	u.rank()
	return u, nil
}

func student(freedom float64) distuv.StudentsT { return distuv.StudentsT{Sigma: 1, Nu: freedom} }

// together is the level of a one-sided test with which all pairs of n estimates are
// tested at 95 %: the tail beyond the quantile of the range of n normal numbers, by √2
// (Tukey 1953, "The problem of multiple comparisons"; Hayter 1984, "A proof of the
// conjecture that the Tukey–Kramer multiple comparisons procedure is conservative").
// The tail is then taken of each test's own Student's t, because errors of differences
// that come from few clusters are not one common error. Correlations that are drawn from
// as few clusters would be too large: such critical values covered 77 % of the ranks of
// eight candidates with five items.
func together(n int) float64 {
	if n < 2 {
		return level / 2
	}
	const steps, wide = 400, 8.0
	within := func(width float64) float64 { // chance that the range is at most width, by the smallest number
		sum := 0.0
		for k := range steps {
			z := -wide + 2*wide*(float64(k)+0.5)/steps
			sum += distuv.UnitNormal.Prob(z) * math.Pow(distuv.UnitNormal.CDF(z+width)-distuv.UnitNormal.CDF(z), float64(n-1))
		}
		return float64(n) * sum * 2 * wide / steps
	}
	low, high := 0.0, 2*wide
	for range 60 {
		if middle := (low + high) / 2; within(middle) < 1-level {
			low = middle
		} else {
			high = middle
		}
	}
	return distuv.UnitNormal.Survival(high / math.Sqrt2)
}

// shrink is the jackknife's (G−1)/G; 1 of a single cluster, whose spread is not used.
func (in *influences) shrink() float64 {
	if g := float64(in.clusters()); g > 1 {
		return (g - 1) / g
	}
	return 1
}

// covariance is H⁻¹ (Σ u u') H⁻¹ (G−1)/G.
func (in *influences) covariance(inverse *mat.Dense) *mat.SymDense {
	size, _ := inverse.Dims()
	meat := mat.NewDense(size, size, nil)
	raw := meat.RawMatrix()
	for g := range in.clusters() {
		at, by := in.at[in.start[g]:in.start[g+1]], in.by[in.start[g]:in.start[g+1]]
		for a, i := range at {
			line := raw.Data[int(i)*raw.Stride : int(i)*raw.Stride+size]
			for b, j := range at {
				line[j] += by[a] * by[b]
			}
		}
	}
	var half mat.Dense
	half.Mul(inverse, meat)
	meat.Mul(&half, inverse)
	out := mat.NewSymDense(size, nil)
	for i := range size {
		for j := i; j < size; j++ {
			out.SetSym(i, j, in.shrink()*(raw.Data[i*raw.Stride+j]+raw.Data[j*raw.Stride+i])/2)
		}
	}
	return out
}

// nothing is the share of the fit's own variance below which one from clusters is only
// rounding: they do not differ at all.
const nothing = 1e-9

// floor is the variance to use of one from clusters and the fit's own.
func floor(clustered, own float64, floored bool) float64 {
	if floored || clustered < nothing*own {
		return max(clustered, own)
	}
	return clustered
}

// limit sets the limits of single parameters.
func (u *Uncertainty) limit(in *influences) {
	f := u.fit
	limits := func(position, clusters int, floored bool) Limits {
		if position < 0 {
			return Limits{}
		}
		x, own, times := f.at[position], f.covariance.At(position, position), distuv.UnitNormal.Quantile(1-level/2)
		variance := own
		if clusters > 1 {
			times = student(float64(clusters - 1)).Quantile(1 - level/2)
			variance = floor(u.covariance.At(position, position), own, floored)
		}
		se := math.Sqrt(max(variance, 0))
		return Limits{SE: se, Low: x - times*se, High: x + times*se}
	}
	for k, position := range f.model.scales {
		one := limits(position, in.judged[k], false)
		if position >= 0 {
			one.Low, one.High = one.Low+1, one.High+1
		}
		u.Scales = append(u.Scales, one)
	}
	for i, c := range f.component {
		u.Abilities = append(u.Abilities, limits(i, in.members[c], u.parts[c].floored))
	}
	for k, position := range f.model.order {
		u.Orders = append(u.Orders, limits(position, in.judged[k], f.Judges[k].Regularised))
	}
	u.Length = limits(f.model.length, u.Clusters, f.LengthRegularised)
}

// Contrast is the difference of the abilities of i and j with its limits. ok is false,
// and the rest 0, for candidates of different components.
func (u *Uncertainty) Contrast(i, j int) (difference float64, limits Limits, ok bool) {
	f, part := u.fit, u.parts[u.fit.component[i]]
	difference, se, ok := f.Contrast(i, j)
	if !ok {
		return 0, Limits{}, false
	}
	if part.freedom > 0 {
		se = math.Sqrt(floor(between(u.covariance, i, j), se*se, part.floored))
	}
	return difference, Limits{SE: se, Low: difference - part.critical*se, High: difference + part.critical*se}, true
}

// Beats is the probability that i is better than j, by Student's t of their difference.
// NaN for candidates of different components, and where positions and candidates are
// confounded.
func (u *Uncertainty) Beats(i, j int) float64 {
	difference, limits, ok := u.Contrast(i, j)
	switch part := u.parts[u.fit.component[i]]; {
	case !ok || u.fit.confounded(i, j):
		return math.NaN()
	case limits.SE == 0:
		return 0.5
	case part.freedom == 0:
		return distuv.UnitNormal.CDF(difference / limits.SE)
	default:
		return student(part.freedom).CDF(difference / limits.SE)
	}
}

// ahead says whether i is better than j (1), worse (−1), or neither can be claimed (0):
// alone, or together with all other differences of the component.
func (u *Uncertainty) ahead(i, j int, together bool) int {
	f, part := u.fit, u.parts[u.fit.component[i]]
	if f.component[i] != f.component[j] || part.freedom == 0 || f.confounded(i, j) {
		return 0
	}
	critical, chance := part.critical, level
	if together {
		critical, chance = part.joint, level/part.pairs
	}
	if f.strong[i] != f.strong[j] {
		switch {
		case u.alwaysWon(i, j) <= chance:
			return 1
		case u.alwaysWon(j, i) <= chance:
			return -1
		}
		return 0
	}
	difference, limits, _ := u.Contrast(i, j)
	switch {
	case difference > critical*limits.SE:
		return 1
	case difference < -critical*limits.SE:
		return -1
	}
	return 0
}

// alwaysWon is how likely candidates of one ability have a record such as that of i, who
// never lost against j, or the opposite one: a cluster's verdicts go either way with
// equal chances. Of judges who may prefer a position, as many clusters count as those in
// which i won from the position in which it won less often.
func (u *Uncertainty) alwaysWon(i, j int) float64 {
	v := u.victors[orderedPair(i)<<32|orderedPair(j)]
	if v == nil {
		return 1
	}
	clusters := v.shownFirst + v.shownSecond
	if u.fit.ordered {
		clusters = min(v.shownFirst, v.shownSecond)
	}
	return math.Exp2(float64(1 - clusters))
}

// rank sets the bounds of ranks.
func (u *Uncertainty) rank() {
	n := len(u.fit.Abilities)
	bounds := func(together bool) (low, high []int) {
		low, high = make([]int, n), make([]int, n)
		for _, part := range u.fit.Components {
			for _, i := range part.Candidates {
				low[i], high[i] = 1, len(part.Candidates)
			}
			for a, i := range part.Candidates {
				for _, j := range part.Candidates[a+1:] {
					switch u.ahead(i, j, together) {
					case 1:
						low[j]++
						high[i]--
					case -1:
						low[i]++
						high[j]--
					}
				}
			}
		}
		return low, high
	}
	u.RankLow, u.RankHigh = bounds(true)
	u.MarginalLow, u.MarginalHigh = bounds(false)
}
