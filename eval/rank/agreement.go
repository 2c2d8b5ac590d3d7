package rank

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Level is the level of measurement of raters' values. It defines the distance between two values (Stevens 1946, "On
// the Theory of Scales of Measurement").
type Level uint8

// The levels.
const (
	Nominal  Level = iota // names: equal or not (who won)
	Ordinal               // ranks: the number of given values between two (grades)
	Interval              // numbers: their difference (scores on a scale)
	Ratio                 // non-negative numbers, where 0 means nothing at all
)

// Agreement compares raters' values for the same units. Its memory grows with the number of different values and of
// pairs of raters, not of units. It is not safe for concurrent use.
//
// Raw agreement is how often two raters gave the same value. The coefficients compare it with the agreement expected
// by chance: 1 is full agreement, 0 is chance, and a negative coefficient is systematic disagreement. If nearly all
// units have the same value, coefficients are low although raw agreement is high. Therefore report both (Feinstein
// and Cicchetti 1990, "High agreement but low kappa").
type Agreement struct {
	raters       int
	pairs        map[[2]int]map[[2]float64]int // by raters i < j: how often i gave one value and j the other
	coincidences map[[2]float64]float64        // Krippendorff's o_ck
	shared       int                           // units with values of at least two raters
	complete     int                           // units with values of all raters
	given        map[float64]int               // in these: how often each value was given
	same         float64                       // in these: sum of the shares of pairs of raters that agree
}

// NewAgreement returns an empty comparison of raters 0 to raters−1.
func NewAgreement(raters int) *Agreement {
	return &Agreement{
		raters: raters, pairs: map[[2]int]map[[2]float64]int{},
		coincidences: map[[2]float64]float64{}, given: map[float64]int{},
	}
}

// Add adds a unit, with one value for each rater and NaN for no value. It panics if the number of values is not the
// number of raters.
func (a *Agreement) Add(values []float64) {
	if len(values) != a.raters {
		panic(fmt.Sprintf("rank: %d values of %d raters", len(values), a.raters))
	}
	var said []float64
	for i, v := range values {
		if math.IsNaN(v) {
			continue
		}
		said = append(said, v)
		for j := i + 1; j < len(values); j++ {
			if math.IsNaN(values[j]) {
				continue
			}
			table := a.pairs[[2]int{i, j}]
			if table == nil {
				table = map[[2]float64]int{}
				a.pairs[[2]int{i, j}] = table
			}
			table[[2]float64{v, values[j]}]++
		}
	}

	// Count every ordered pair of values, with weights such that a unit weighs as much as it has values.
	agreeing := 0
	for i, v := range said {
		for j, w := range said {
			if i != j {
				a.coincidences[[2]float64{v, w}] += 1 / float64(len(said)-1)
				if v == w {
					agreeing++
				}
			}
		}
	}

	if len(said) > 1 {
		a.shared++
	}
	if n := len(said); n == a.raters && n > 1 {
		a.complete++
		a.same += float64(agreeing) / float64(n*(n-1))
		for _, v := range said {
			a.given[v]++
		}
	}
}

// Units returns the number of units with values of at least two raters.
func (a *Agreement) Units() int { return a.shared }

// Raw returns the share of units to which two raters gave the same value, of those that both judged, and the number
// of the latter. The share is NaN if there are none.
func (a *Agreement) Raw(i, j int) (share float64, units int) {
	same := 0
	for values, n := range a.pairs[[2]int{min(i, j), max(i, j)}] {
		units += n
		if values[0] == values[1] {
			same += n
		}
	}
	return float64(same) / float64(units), units
}

// Cohen returns Cohen's kappa of two raters (Cohen 1960, "A Coefficient of Agreement for Nominal Scales"). It is (p_o
// − p_e)/(1 − p_e), where p_o is the raw agreement. p_e is the agreement expected by chance, if both give their
// values in the same proportions. Cohen returns NaN if p_e is 1, or if no unit was judged by both.
func (a *Agreement) Cohen(i, j int) float64 {
	table := a.pairs[[2]int{min(i, j), max(i, j)}]
	one, other, total, same := map[float64]int{}, map[float64]int{}, 0, 0
	for values, n := range table {
		one[values[0]] += n
		other[values[1]] += n
		total += n
		if values[0] == values[1] {
			same += n
		}
	}
	chance := 0.0
	for _, v := range slices.Sorted(maps.Keys(one)) {
		chance += float64(one[v]) * float64(other[v])
	}
	return corrected(float64(same)/float64(total), chance/float64(total*total))
}

// Fleiss returns Fleiss' kappa of all raters (Fleiss 1971, "Measuring nominal scale agreement among many raters"). It
// covers the units with values of all raters, and also returns their number. kappa is NaN in the same cases as Cohen.
func (a *Agreement) Fleiss() (kappa float64, units int) {
	total, chance := float64(a.complete*a.raters), 0.0
	for _, v := range slices.Sorted(maps.Keys(a.given)) {
		share := float64(a.given[v]) / total
		chance += share * share
	}
	return corrected(a.same/float64(a.complete), chance), a.complete
}

func corrected(observed, chance float64) float64 {
	if chance >= 1 {
		return math.NaN()
	}
	return (observed - chance) / (1 - chance)
}

// Alpha returns Krippendorff's alpha over the units with values of at least two raters. It is 1 − D_o/D_e, where D_o
// is the observed disagreement and D_e the one expected by chance (Krippendorff 2011, "Computing Krippendorff's
// Alpha-Reliability"). Alpha returns NaN if all values are equal, if there are none, and at level Ratio if one is
// negative.
func (a *Agreement) Alpha(level Level) float64 {
	given := map[float64]float64{} // n_c
	inOrder := func(x, y [2]float64) int { return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1])) }
	for _, values := range slices.SortedFunc(maps.Keys(a.coincidences), inOrder) { // always sum in the same order
		given[values[0]] += a.coincidences[values]
	}
	values := slices.Sorted(maps.Keys(given))
	if level == Ratio && len(values) > 0 && values[0] < 0 {
		return math.NaN()
	}
	var total, seen, chance float64
	upTo := make([]float64, len(values)+1) // number of values below each
	for c, v := range values {
		total += given[v]
		upTo[c+1] = upTo[c] + given[v]
	}

	for c, v := range values {
		for k, w := range values[:c] {
			var apart float64
			switch level {
			case Nominal:
				apart = 1
			case Ordinal:
				apart = upTo[c+1] - upTo[k] - (given[v]+given[w])/2
			case Interval:
				apart = v - w
			case Ratio:
				apart = (v - w) / (v + w)
			}
			seen += apart * apart * a.coincidences[[2]float64{v, w}]
			chance += apart * apart * given[v] * given[w]
		}
	}

	if chance == 0 {
		return math.NaN()
	}
	return 1 - (total-1)*seen/chance
}
