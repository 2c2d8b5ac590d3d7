package rank

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"
)

// level is the error probability of limits and claims: they hold at 95 %.
const level = 0.05

// Drawing says how certain limits and claims must be, and how many draws compute Uncertainty.Best.
type Drawing struct {
	Draws int    // 0: 2,000
	Seed  uint64 // the same seed and verdicts give the same digits, on any number of processors

	// Joint is the permitted probability that any of RankLow and RankHigh is wrong; 0 means 5 %. Limits and the
	// bounds of single candidates always have 5 %.
	Joint float64

	flipWork float64 // maximum work of flipping signs in a component; 0: mostFlipWork
}

const (
	// MaxDraws is the maximum of Drawing.Draws.
	MaxDraws     = 100_000
	defaultDraws = 2_000
)

// Limits holds the standard error and the limits of one number, at 95 % unless stated otherwise.
type Limits struct {
	SE        float64
	Low, High float64
}

// Uncertainty says how much a Fit would change with other questions of the same kind.
type Uncertainty struct {
	Clusters, Draws int
	// Abilities holds the limits of each candidate's ability. They are NaN if the component has verdicts of only one
	// cluster. A candidate that is better than every other at RankHigh's level is above 0, the mean, and one that is worse
	// than every other is below.
	Abilities []Limits
	Conclusions
	// Orders holds the limits of JudgeEffect.Order; 0 for a judge without an order effect, NaN for one with one cluster.
	Orders []Limits
	// Scales holds the limits of JudgeEffect.Scale; 0 for a judge without a scale.
	Scales []Limits
	// Length holds the limits of Fit.Length; 0 without an effect of length.
	Length Limits

	fit        *Fit
	joint      float64
	covariance *mat.SymDense
	victors    map[orderedPair]*victories
	decided    [][]int32   // as of influences
	loose      *loose      // nil: no priors
	parts      []inference // by component
	spread     []spreads   // by component
}

// inference holds what the tests in one component need.
type inference struct {
	freedom  float64           // clusters − 1; 0: only the fit's own errors are known
	critical [families]float64 // of a difference, in standard errors
	pairs    float64
	// These are set for separated candidates.
	left       float64         // the part of the joint error probability that flips of signs leave for tests by Student's t
	leftOf     map[int]float64 // the same of the differences of one candidate
	criticalOf map[int]float64 // replaces critical[ofCandidate]
	floored    bool            // no error is smaller than the fit's own
	separated  separated
}

// Uncertainty estimates the covariance of all parameters from the differences between clusters of verdicts. See Liang
// and Zeger 1986, "Longitudinal data analysis using generalized linear models"; the correction for few clusters is
// that of the jackknife. Verdicts of a cluster may depend on each other in any way. Limits use Student's t with one
// degree of freedom less than there are clusters (Bell and McCaffrey 2002).
//
// No error is smaller than the fit's own if abilities have a prior, if there are fewer than four clusters, or if only one
// cluster relates some candidates to the others. With verdicts of a single cluster, limits are NaN: nothing shows how
// much verdicts of others would differ. If a parameter has a prior, its limits extend to those of a looser prior, on the
// side to which that moves the estimate.
//
// If all verdicts between two candidates, and all chains of them, went one way, the priors determine the size of
// their difference. A sign-flipping test then decides which one is better. The test needs a fit for each pair, so it
// is limited to neighbours if there are many such pairs. With more than about 60 candidates that were all compared with
// each other and are all separated, a sign test of the verdicts on the two replaces it.
//
// observed must hold the verdicts of the fit, in any order. For n parameters and v verdicts, the time grows with n³.
// Up to a bound, it also grows with the number of clusters times the third power of the candidates in each. Memory
// grows with 60·n² + 100·v bytes. Uncertainty uses every processor, and stops early if ctx ends.
func (f *Fit) Uncertainty(ctx context.Context, observed []Observed, how Drawing) (*Uncertainty, error) {
	if how.Draws < 0 || how.Draws > MaxDraws {
		return nil, fmt.Errorf("uncertainty: %d draws, want at most %d", how.Draws, MaxDraws)
	}
	if !(how.Joint >= 0 && how.Joint < 1) {
		return nil, fmt.Errorf("uncertainty: joint level %v, want 0 to 1", how.Joint)
	}
	in, err := f.influences(observed)
	if err != nil {
		return nil, fmt.Errorf("uncertainty: %w", err)
	}

	u := &Uncertainty{
		Clusters: in.clusters(), Draws: how.Draws, fit: f, victors: in.victors, decided: in.decided, joint: cmp.Or(how.Joint, level),
	}
	if u.Draws == 0 {
		u.Draws = defaultDraws
	}
	for c, part := range f.Components {
		size := float64(len(part.Candidates))
		one := inference{pairs: size * (size - 1) / 2, floored: part.Regularised || in.bridged[c] || in.members[c] < fewClusters}
		one.critical[ofPair] = distuv.UnitNormal.Quantile(1 - level/2)
		if in.members[c] > 1 {
			one.freedom = float64(in.members[c] - 1)
			one.critical[ofPair] = student(one.freedom).Quantile(1 - level/2)
		}
		u.parts = append(u.parts, one)
	}

	if f.model.size > 0 {
		inverse := mat.DenseCopyOf(f.covariance)
		u.covariance = in.covariance(inverse)
		if u.loose, err = f.loosened(observed); err != nil {
			return nil, fmt.Errorf("uncertainty: %w", err)
		}
		if err := u.best(ctx, in, how.Seed); err != nil {
			return nil, err
		}
	}

	u.limit(in)
	if err := u.compare(ctx, in, how); err != nil {
		return nil, err
	}
	u.conclude()
	return u, nil
}

func student(freedom float64) distuv.StudentsT { return distuv.StudentsT{Sigma: 1, Nu: freedom} }

// shrink returns the jackknife's factor (G−1)/G; 1 for a single cluster, whose spread is not used.
func (in *influences) shrink() float64 {
	if g := float64(in.clusters()); g > 1 {
		return (g - 1) / g
	}
	return 1
}

// covariance returns H⁻¹ (Σ u u') H⁻¹ (G−1)/G, where inverse is H⁻¹.
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

// fewClusters is the number of clusters below which errors are at least the fit's own. The spread of so few is often
// too small by chance, and a candidate would then seem more certain with fewer items.
const fewClusters = 4

// nothing is the share of the fit's own variance below which a variance from clusters is only rounding, because the
// clusters do not differ.
const nothing = 1e-9

// floor selects the variance to use: the one from clusters, or the fit's own if that must be a lower bound.
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
		switch {
		case position < 0:
			return Limits{}
		case clusters < 2:
			return Limits{math.NaN(), math.NaN(), math.NaN()}
		}
		times := student(float64(clusters - 1)).Quantile(1 - level/2)
		se := func(own, clustered *mat.SymDense) float64 {
			return math.Sqrt(max(floor(clustered.At(position, position), own.At(position, position), floored), 0))
		}
		x := f.at[position]
		out := around(x, se(f.covariance, u.covariance), times)
		if u.loose != nil {
			out = out.moved(x, u.loose.at[position], se(u.loose.own, u.loose.clustered), times)
		}
		return out
	}

	for k, position := range f.model.scales {
		one := limits(position, in.judged[k], false)
		if position >= 0 {
			one.Low, one.High = one.Low+1, one.High+1
		}
		u.Scales = append(u.Scales, one)
	}

	exaggerated := u.exaggerated()
	for i, c := range f.component {
		u.Abilities = append(u.Abilities, limits(i, in.members[c], u.parts[c].floored))
	}
	for k, position := range f.model.order {
		one := limits(position, in.judged[k], f.Judges[k].Regularised)
		if position >= 0 {
			one = one.reach(exaggerated[position])
		}
		u.Orders = append(u.Orders, one)
	}
	u.Length = limits(f.model.length, u.Clusters, f.LengthRegularised)
}

// reach extends limits such that they also contain the estimate without its bias.
func (l Limits) reach(bias float64) Limits {
	l.Low, l.High = l.Low-max(bias, 0), l.High-min(bias, 0)
	return l
}

// followed returns how far the parameters move if the gradient changes by pull; nil without parameters.
func (f *Fit) followed(pull []float64) []float64 {
	if len(pull) == 0 {
		return nil
	}
	var out mat.VecDense
	out.MulVec(f.covariance, mat.NewVecDense(len(pull), pull))
	return out.RawVector().Data
}

// exaggerated returns the expected excess of each parameter, to first order (Cox and Snell 1968, "A general
// definition of residuals"). With few verdicts per candidate, maximum likelihood overestimates all effects. Limits of
// order effects are extended by this excess. Abilities need no correction, because with few verdicts their errors
// grow too.
func (u *Uncertainty) exaggerated() []float64 {
	m := u.fit.model
	here, pull := m.at(u.fit.at), make([]float64, m.size)
	var terms []term
	for k := range m.rows {
		r := &m.rows[k]
		p := here.chances(r)
		mean, square := (p.win-p.loss)/2, (p.win+p.loss)/4
		skew := r.total() * (mean/4 - 3*mean*square + 2*mean*mean*mean)
		terms = here.terms(r, terms)
		variance := 0.0
		for _, a := range terms {
			for _, b := range terms {
				variance += a.slope * b.slope * u.covariance.At(a.at, b.at)
			}
		}
		for _, a := range terms {
			pull[a.at] -= a.slope * skew * variance / 2
		}
	}
	return u.fit.followed(pull)
}

// Contrast returns the difference of the abilities of i and j with its limits. If a test of the two alone says which one
// is better, the limits have the same sign. If the candidates are in different components, ok is false and the rest 0.
func (u *Uncertainty) Contrast(i, j int) (difference float64, limits Limits, ok bool) {
	if u.fit.component[i] != u.fit.component[j] {
		return 0, Limits{}, false
	}
	difference, limits = u.difference(i, j)
	switch u.ahead(i, j, ofPair) {
	case 1:
		limits.Low = max(limits.Low, 0)
	case -1:
		limits.High = min(limits.High, 0)
	case 0:
		if u.tested(i, j) {
			limits.Low, limits.High = min(limits.Low, 0), max(limits.High, 0)
		}
	}
	return difference, limits, true
}

// difference returns the difference of two abilities of a component, with limits from its standard error.
func (u *Uncertainty) difference(i, j int) (float64, Limits) {
	c := u.fit.component[i]
	return u.estimates(c).combined([]weighted{{i, 1}, {j, -1}}, u.parts[c].critical[ofPair])
}

// unsure is the largest value of Beats for a difference that no test claims.
const unsure = 0.94

// chance returns an error probability at which the test of the two alone claims that a candidate is better than another:
// the p-value if signs are flipped, or if only their verdicts on each other count, otherwise 5 %.
func (u *Uncertainty) chance(winner, loser int) float64 {
	part := &u.parts[u.fit.component[winner]]
	claim := part.separated[pairOf(winner, loser)]
	switch {
	case part.separated == nil && u.fit.strong[winner] != u.fit.strong[loser]:
		return min(u.alwaysWon(winner, loser), level)
	case claim == nil || claim.chance == 0:
		return level
	}
	return min(claim.chance, level)
}

// Beats returns the probability that i is better than j, under the assumptions of Best. It returns NaN for candidates of
// different components, if the difference may be a position effect, and if all verdicts are of one cluster. The test of
// the two alone decides, as for Best: the probability is at least 95 % if it claims that i is better, and less if it
// does not.
func (u *Uncertainty) Beats(i, j int) float64 {
	c := u.fit.component[i]
	if c != u.fit.component[j] || u.parts[c].freedom == 0 || u.fit.confounded(i, j) {
		return math.NaN()
	}
	p := 0.5
	if difference, limits := u.difference(i, j); limits.SE > 0 {
		p, _ = u.spread[c].order(difference, limits.SE*limits.SE)
	}

	switch u.ahead(i, j, ofPair) {
	case 1:
		return max(p, 1-u.chance(i, j))
	case -1:
		return min(p, u.chance(j, i))
	}
	if u.tested(i, j) {
		return min(max(p, 1-unsure), unsure)
	}
	return p
}
