package rank

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Neighbours compares two candidates that follow each other in the order of their component.
type Neighbours struct {
	Better, Worse int
	// Right is the probability that their order is right, as of Uncertainty.Beats.
	Right float64
	// More is about how many more clusters of verdicts, like the existing ones, would tell the two apart at 95 %. It
	// assumes that the difference is as large as expected under the same assumptions. With so many clusters, at least
	// every other evaluation claims the difference. More is 0 if it is claimed already, +Inf if no difference is
	// expected, and NaN if Right is.
	//
	// It follows from the n at which the expected difference d is as many standard errors as a claim needs:
	// s·√(N/n)·t(n−1) = d. Here s is the standard error from the existing N clusters. This is the sample size for the
	// difference of two means with a power of one half. See Lachin 1981, "Introduction to sample size determination
	// and power analysis for clinical trials". If no verdict contradicts the order, it is the n that a sign test
	// needs.
	More float64
	// Clusters is N, the number of existing clusters.
	Clusters int
}

// Neighbours returns the neighbours of each component, in the order of Fit.Standings.
func (u *Uncertainty) Neighbours() []Neighbours {
	var all []Neighbours
	for c := range u.fit.Components {
		candidates := u.fit.inOrder(c)
		for k := 1; k < len(candidates); k++ {
			all = append(all, u.neighbours(c, candidates[k-1], candidates[k]))
		}
	}
	return all
}

func (u *Uncertainty) neighbours(c, i, j int) Neighbours {
	part := &u.parts[c]
	if part.freedom == 0 || u.fit.confounded(i, j) {
		return Neighbours{i, j, math.NaN(), math.NaN(), int(part.freedom) + 1}
	}
	out := Neighbours{Better: i, Worse: j, Clusters: int(part.freedom) + 1}
	out.Right, out.More = u.Beats(i, j), u.further(c, i, j, level)
	if u.ahead(i, j, ofPair) != 0 {
		out.More = 0
	}
	return out
}

// Narrowing says how much more would leave about half of the contenders of a component.
type Narrowing struct {
	// Contenders is the number of contenders, and Left half of them, rounded up.
	Contenders, Left int
	// More is about how many more clusters of verdicts, like the existing ones, would tell the first candidate from all
	// contenders but Left, the first included. It follows from the same sample size as Neighbours.More, with the error
	// probability of the tests for contenders. More is 0 with one contender, +Inf if no difference is expected, and NaN
	// if Best is.
	More float64
	// Clusters is the number of existing clusters.
	Clusters int
}

// Narrowings returns the narrowing of each component.
func (u *Uncertainty) Narrowings() []Narrowing {
	var all []Narrowing
	for c, part := range u.parts {
		candidates := u.fit.inOrder(c)
		chance := level / float64(max(len(candidates)-1, 1))
		all = append(all, u.narrowing(candidates, part.freedom, func(first, i int) float64 { return u.further(c, first, i, chance) }))
	}
	return all
}

// narrowing returns the narrowing of a component, whose candidates are in order. further returns about how many more
// clusters would tell the first candidate from another one.
func (c *Conclusions) narrowing(candidates []int, freedom float64, further func(first, i int) float64) Narrowing {
	first := candidates[0]
	out := Narrowing{Contenders: 1, Clusters: int(freedom) + 1}
	var more []float64
	for _, i := range candidates[1:] {
		if c.Contenders[i] {
			out.Contenders++
		}
		if c.Contenders[i] && freedom > 0 {
			more = append(more, further(first, i))
		}
	}

	slices.Sort(more)
	out.Left = (out.Contenders + 1) / 2
	switch told := out.Contenders - out.Left; {
	case freedom == 0 || math.IsNaN(c.Best[first]):
		out.More = math.NaN()
	case told > 0:
		out.More = more[told-1]
	}
	return out
}

// further returns about how many more clusters would tell the two apart with the given chance of a false claim. They are
// not told apart yet.
func (u *Uncertainty) further(c, i, j int, chance float64) float64 {
	difference, limits := u.difference(i, j)
	if math.Abs(difference) < still { // by rounding alone: no number of verdicts like these separates them
		return math.Inf(1)
	}
	_, expected := u.spread[c].order(difference, limits.SE*limits.SE)
	clusters := u.parts[c].freedom + 1
	if u.fit.strong[i] != u.fit.strong[j] {
		// No verdict contradicts the order, so count the clusters that a sign test needs.
		met := float64(u.wonIn(i, j))
		enough := math.Ceil(1 - math.Log2(chance))
		return math.Ceil(max(enough-met, 1) * clusters / max(met, 1))
	}
	return max(math.Ceil(needed(clusters, limits.SE/expected, chance)-clusters), 1)
}

// needed returns the number of clusters at which a difference is claimed. se is its standard error with the given
// number of clusters, in units of the difference. Errors shrink with the root of the number.
func needed(clusters, se, chance float64) float64 {
	const steps = 30
	if math.IsInf(se, 0) {
		return se
	}
	total := clusters
	for range steps { // the quantile depends on the total, but only weakly
		times, before := student(max(total-1, 1)).Quantile(1-chance/2), total
		total = clusters * times * times * se * se
		if math.Abs(total-before) < 1e-9*total {
			break
		}
	}
	return total
}

// order returns the probability that the difference of two abilities is positive, and its expectation. difference and
// variance are the estimate and its variance.
func (s spreads) order(difference, variance float64) (positive, expected float64) {
	before := 0.0
	for k, cell := range s.cells {
		weight := (s.upTo[k] - before) / s.upTo[len(s.upTo)-1]
		before = s.upTo[k]
		errors := variance * cell.tail * cell.tail
		part := 2 * cell.abilities * cell.abilities / (2*cell.abilities*cell.abilities + errors)
		positive += weight * distuv.UnitNormal.CDF(difference*math.Sqrt(part/errors))
		expected += weight * part * difference
	}
	return positive, expected
}
