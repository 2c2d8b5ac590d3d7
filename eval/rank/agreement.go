package rank

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Level is the level of measurement of raters' values, which defines how far two of them are
// apart (Stevens 1946, "On the Theory of Scales of Measurement").
type Level uint8

// The levels.
const (
	Nominal  Level = iota // names: equal or not (who won)
	Ordinal               // ranks: how many values given lie between (grades)
	Interval              // numbers: their difference (scores on a scale)
	Ratio                 // numbers with a zero that means nothing at all, none of them below it
)

// Agreement compares what raters said about the same units. Its memory grows with
// the different values and the pairs of raters, not with the units. It is not safe
// for concurrent use.
//
// Raw agreement says how often two raters said the same. The coefficients say how
// much of the agreement that chance leaves to be had was had: 1 is all, 0 none, and
// less than none is systematic disagreement. Where nearly all units have the same
// value, chance leaves little and coefficients are low beside a high raw agreement:
// give both (Feinstein and Cicchetti 1990, "High agreement but low kappa").
type Agreement struct {
	raters       int
	pairs        map[[2]int]map[[2]float64]int // by raters i < j, how often i said one and j the other
	coincidences map[[2]float64]float64        // Krippendorff's o_ck
	shared       int                           // units with values by at least two raters
	complete     int                           // units with values by every rater
	given        map[float64]int               // of those, how often each value was given
	same         float64                       // of those, the sum of the share of pairs of raters that agree
}

// NewAgreement compares raters 0 … raters−1.
func NewAgreement(raters int) *Agreement {
	return &Agreement{
		raters: raters, pairs: map[[2]int]map[[2]float64]int{},
		coincidences: map[[2]float64]float64{}, given: map[float64]int{},
	}
}

// Add takes the values of one unit: one for each rater, NaN for no value. It panics when the
// number of values is not the number of raters.
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
	// Every ordered pair of values, so that each unit is weighted by its number of values.
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

// Units is the number of units with values by at least two raters.
func (a *Agreement) Units() int { return a.shared }

// Raw is the share of units about which two raters said the same, of those about
// which both said something, and how many these are. NaN without any.
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

// Cohen is Cohen's kappa of two raters (Cohen 1960, "A Coefficient of Agreement for
// Nominal Scales"): (p_o − p_e)/(1 − p_e), p_o being the raw agreement and p_e the
// one expected of two who give their values in these proportions by chance. NaN
// where chance alone agrees always, or nothing was said by both.
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

// Fleiss is Fleiss' kappa of all raters (Fleiss 1971, "Measuring nominal scale
// agreement among many raters") over the units with values by every one,
// and how many these are. NaN as Cohen's.
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

// Alpha returns Krippendorff's alpha over the units that at least two raters have valued:
// 1 − D_o/D_e, where D_o is the observed disagreement and D_e the one expected by chance
// (Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability"). It is NaN where all values
// are the same, where there are none, and at level Ratio where one is below 0.
func (a *Agreement) Alpha(level Level) float64 {
	given := map[float64]float64{} // n_c
	inOrder := func(x, y [2]float64) int { return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1])) }
	for _, values := range slices.SortedFunc(maps.Keys(a.coincidences), inOrder) { // for the same digits each time
		given[values[0]] += a.coincidences[values]
	}
	values := slices.Sorted(maps.Keys(given))
	if level == Ratio && len(values) > 0 && values[0] < 0 {
		return math.NaN()
	}
	var total, seen, chance float64
	upTo := make([]float64, len(values)+1) // values given below each
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
