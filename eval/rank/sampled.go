package rank

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// Unit holds what is known about a judge's verdicts on two texts: what others said of them, and what the judge said if it
// was asked.
type Unit struct {
	Cluster       int32 // as in Observed
	First, Second int32 // candidates
	Longer        float64
	// Predicted are the verdicts of others on the two in any order, as wins of First and Second; all 0: there are none.
	Predicted Counts
	// True are the judge's verdicts on First shown before Second, and on Second shown before First. FirstWins is a win
	// of the candidate that is shown first.
	True [2]Counts
	// Each is how many verdicts the judge gives in each of the two orders if it is asked.
	Each [2]int
	// Weight is 1 divided by the probability with which the judge was asked, and thus at least 1; 0: it was not asked.
	Weight float64
	// Once says that the verdicts in True on an order count as one together, however many they are: several people voted.
	Once bool
}

// Correction is a ranking by the verdicts that a judge would give on all units, although it gave only some.
type Correction struct {
	Fit *Fit
	// Observed are the verdicts of the fit, which Fit.Uncertainty needs.
	Observed []Observed
	// Lambda says how far the predictions count, from 0 to 1.
	Lambda float64
}

// FromSample estimates the abilities that BradleyTerry would have with one judge's verdicts on all units, from its verdicts
// on some of them and from predictions of all. The judge is judge 0. others are verdicts of any judges that count as they
// are. Fit.Uncertainty and everything that follows from it hold for what the judge would say of other units of the same
// kind.
//
// The estimate maximises the log-likelihood Σ w·ℓ(true) + λ·Σ (1−w)·ℓ(predicted), with w = Weight, over the units. Its
// expectation over the units that are drawn is Σ ℓ(true) for every λ, however wrong the predictions are. So it is
// consistent. This is the difference estimator of Särndal, Swensson and Wretman 1992, "Model assisted survey sampling"
// (ch. 6), for an estimating equation as in Robins, Rotnitzky and Zhao 1994, "Estimation of regression coefficients when
// some regressors are not always observed". λ is the power tuning of Angelopoulos, Duchi and Zrnic 2023, "PPI++: Efficient
// prediction-powered inference": the value with the smallest sum of variances of abilities, so that useless predictions
// do no harm. With λ = 0, the weighted verdicts alone count, unless only predictions relate some candidates to others.
//
// A unit's predictions count as much in each order as the judge's verdicts do, so the log-likelihood is concave. If it
// has no maximum, because corrections exceed what was predicted, smaller λ are tried.
func FromSample(n, judges int, others []Observed, units []Unit, options Options) (*Correction, error) {
	asked := slices.Clone(others)
	var predicted []Observed
	for _, u := range units {
		if err := u.check(n, judges); err != nil {
			return nil, fmt.Errorf("rank %d candidates: %w", n, err)
		}
		asked = append(asked, u.asked()...)
		predicted = append(predicted, u.predicted()...)
	}

	at := func(lambda float64) (*Correction, error) {
		all := slices.Clone(asked)
		for _, o := range predicted {
			if o.Weight *= lambda; o.Weight != 0 {
				all = append(all, o)
			}
		}
		fit, err := FromObserved(n, judges, all, options)
		return &Correction{Fit: fit, Observed: all, Lambda: lambda}, err
	}
	if len(predicted) == 0 {
		return at(0)
	}
	first, err := at(firstLambda)
	if err != nil || !first.finite() {
		return at(0)
	}

	lambda := first.Fit.tuned(asked, predicted)
	if lambda < leastLambda {
		alone, err := at(0)
		if err != nil || len(alone.Fit.Components) == len(first.Fit.Components) {
			return alone, err
		}
		lambda = leastLambda
	}
	for range 3 {
		if c, err := at(lambda); err == nil && c.finite() {
			return c, nil
		}
		lambda /= 2
	}
	return at(0)
}

// Sampling returns the share, from 0 to 1, of the variances of abilities that is there because not all units were asked
// about. It is Σ w·(w−1)·|H⁻¹(a − λb)|² over the units that were, with w = Weight, and a, b and H as tuned has them, divided
// by the same sum over clusters that tuned makes least. That part falls as w − 1 does with more units; the rest stays,
// because other units of the same kind might be there instead. units are those of FromSample.
func (c *Correction) Sampling(units []Unit) float64 {
	score, n := newClusterScore(c.Fit), len(c.Fit.Abilities)
	square := func(all []Observed) float64 {
		score.support(all)
		score.add(all)
		moved := score.moved(n)
		return mat.Dot(moved, moved)
	}
	clusters := map[int32][]Observed{}
	for _, o := range c.Observed {
		clusters[o.Cluster] = append(clusters[o.Cluster], o)
	}
	whole, sampling := 0.0, 0.0
	for _, cluster := range sorted(clusters) {
		whole += square(clusters[cluster])
	}

	for _, u := range units {
		if u.Weight <= 1 {
			continue
		}
		all := u.asked()
		for k := range all {
			all[k].Weight /= u.Weight
		}
		for _, o := range u.predicted() {
			if o.Weight *= c.Lambda / (u.Weight - 1); o.Weight != 0 {
				all = append(all, o)
			}
		}
		sampling += u.Weight * (u.Weight - 1) * square(all)
	}
	if !(whole > 0) {
		return 0
	}
	return min(sampling/whole, 1)
}

const (
	firstLambda = 0.5
	// leastLambda is the smallest λ but 0, which is taken instead if the judge's own verdicts relate the same candidates to
	// each other. With less, a candidate that won only where it was predicted would have an error as if of that part of a
	// verdict, which is far more than a prior leaves.
	leastLambda = 0.1
)

func (u Unit) check(n, judges int) error {
	switch {
	case u.Weight != 0 && !(u.Weight >= 1 && u.Weight < math.Inf(1)):
		return fmt.Errorf("a unit of weight %v, want 0, or 1 and more", u.Weight)
	case u.Weight == 0 && u.True[0].Total()+u.True[1].Total() > 0:
		return errors.New("a unit of weight 0 with verdicts")
	case min(u.Each[0], u.Each[1]) < 0:
		return fmt.Errorf("a unit with %v verdicts in each order", u.Each)
	}
	return u.in(0, u.Predicted).check(n, judges)
}

// in returns verdicts on the unit in an order.
func (u Unit) in(order int, c Counts) Observed {
	o := Observed{
		Cluster: u.Cluster, First: u.First, Second: u.Second, Longer: u.Longer,
		FirstWins: int32(c.FirstWins), SecondWins: int32(c.SecondWins), Ties: int32(c.Ties),
	}
	if order == 1 {
		o.First, o.Second, o.Longer = u.Second, u.First, -u.Longer
	}
	return o
}

// asked returns the judge's verdicts with their weights.
func (u Unit) asked() (out []Observed) {
	for order, c := range u.True {
		if c.Total() > 0 {
			o := u.in(order, c)
			each := 1.0
			if u.Once {
				each = 1 / float64(c.Total())
			}
			if by := u.Weight * each; u.Weight > 1 || each < 1 {
				o.Weight = by
			}
			out = append(out, o)
		}
	}
	return out
}

// predicted returns the predictions in both orders, with the weights that they have if λ is 1. A judge that was asked, but
// did not answer in an order, would probably fail there again.
func (u Unit) predicted() (out []Observed) {
	total := u.Predicted.Total()
	if total == 0 || u.Weight == 1 {
		return nil
	}
	for order, each := range u.Each {
		if u.Weight > 0 {
			each = u.True[order].Total()
			if u.Once {
				each = min(each, 1)
			}
		}
		if each == 0 {
			continue
		}

		c := u.Predicted
		if order == 1 {
			c = c.Swapped()
		}
		o := u.in(order, c)
		o.Predicted, o.Weight = true, (1-u.Weight)*float64(each)/float64(total)
		out = append(out, o)
	}
	return out
}

// finite reports whether all abilities are those of a maximum, and no judge has ties without a propensity to tie, because
// corrections exceed those that were predicted.
func (c *Correction) finite() bool {
	untold := func(o Observed) bool { return o.Ties > 0 && c.Fit.model.tie[o.Judge] < 0 }
	if !c.Fit.halves && slices.ContainsFunc(c.Observed, untold) {
		return false
	}
	return !slices.ContainsFunc(c.Fit.Abilities, func(x float64) bool { return math.IsNaN(x) || math.Abs(x) > endless })
}

// tuned returns the λ with the smallest sum of the variances of abilities. With a the score of a cluster's true verdicts, b
// that of its predictions, and H the information, the sum is Σ |H⁻¹(a + λb)|² over the clusters.
func (f *Fit) tuned(asked, predicted []Observed) float64 {
	type both struct{ asked, predicted []Observed }
	clusters := map[int32]*both{}
	of := func(cluster int32) *both {
		if clusters[cluster] == nil {
			clusters[cluster] = &both{}
		}
		return clusters[cluster]
	}
	for _, o := range asked {
		one := of(o.Cluster)
		one.asked = append(one.asked, o)
	}
	for _, o := range predicted {
		one := of(o.Cluster)
		one.predicted = append(one.predicted, o)
	}

	c := newClusterScore(f)
	n := len(f.Abilities)
	product, square := 0.0, 0.0
	for _, cluster := range sorted(clusters) {
		one := clusters[cluster]
		c.support(slices.Concat(one.asked, one.predicted))
		c.add(one.asked)
		a := c.moved(n)
		c.add(one.predicted)
		b := c.moved(n)
		product += mat.Dot(a, b)
		square += mat.Dot(b, b)
	}
	if !(square > 0) {
		return 0
	}
	return min(max(-product/square, 0), 1)
}

// moved returns how far the cluster's score moves each ability.
func (c *clusterScore) moved(n int) *mat.VecDense {
	out := mat.NewVecDense(n, nil)
	for a, position := range c.positions {
		if c.score[a] == 0 {
			continue
		}
		for i := range n {
			out.SetVec(i, out.AtVec(i)+c.fit.covariance.At(i, position)*c.score[a])
		}
	}
	return out
}

// sorted returns the keys of a map in order, so that sums have the same digits each time.
func sorted[V any](of map[int32]V) []int32 {
	keys := make([]int32, 0, len(of))
	for key := range of {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
