package rank

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Neighbours compares two candidates that follow each other in the order of their component.
type Neighbours struct {
	Better, Worse int
	// Right is the probability that their order is right, under the assumptions of Uncertainty.Best; NaN if that is
	// NaN.
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
	difference, limits, _ := u.Contrast(i, j)
	right, expected := u.spread[c].order(difference, limits.SE*limits.SE)
	out := Neighbours{Better: i, Worse: j, Right: right, Clusters: int(part.freedom) + 1}
	switch clusters := part.freedom + 1; {
	case u.ahead(i, j, ofPair) != 0:
	case u.fit.strong[i] != u.fit.strong[j]:
		// No verdict contradicts the order, so count the clusters that a sign test needs.
		met := float64(u.wonIn(i, j))
		enough := math.Ceil(1 - math.Log2(level))
		out.More = math.Ceil(max(enough-met, 1) * clusters / max(met, 1))
	default:
		out.More = max(math.Ceil(needed(clusters, limits.SE/expected)-clusters), 1)
	}
	return out
}

// needed returns the number of clusters at which a difference is claimed. se is its standard error with the given
// number of clusters, in units of the difference. Errors shrink with the root of the number.
func needed(clusters, se float64) float64 {
	const steps = 30
	if math.IsInf(se, 0) {
		return se
	}
	total := clusters
	for range steps { // the quantile depends on the total, but only weakly
		times := student(max(total-1, 1)).Quantile(1 - level/2)
		total = clusters * times * times * se * se
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
