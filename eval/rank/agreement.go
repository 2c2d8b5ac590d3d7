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
// units have the same value, such as ties, coefficients are low although raw agreement is high. Therefore report both
// (Feinstein and Cicchetti 1990, "High agreement but low kappa").
type Agreement struct {
	raters       int
	pairs        map[[2]int]map[[2]float64]float64 // by raters i < j: how often i gave one value and j the other
	coincidences map[[2]float64]float64            // Krippendorff's o_ck
	shared       int                               // units with values of at least two raters
	complete     int                               // units with values of all raters
	given        map[float64]float64               // in these: how often each value was given
	same         float64                           // in these: sum of the shares of pairs of raters that agree
}

// Shares are the shares of a rater's verdicts on two texts, by Outcome. They add up to 1, or are all 0 if there is no
// verdict.
type Shares [3]float64

// Only returns the shares of a rater who gave no other outcome.
func (o Outcome) Only() (s Shares) {
	s[o] = 1
	return s
}

// Known reports whether there is a verdict.
func (s Shares) Known() bool { return s != Shares{} }

// Mean returns the share of the second text, a tie being half.
func (s Shares) Mean() float64 { return s[SecondWins] + s[Tied]/2 }

// answer is a value and how much of a rater's answer to a unit it is.
type answer struct{ value, share float64 }

// NewAgreement returns an empty comparison of raters 0 to raters−1.
func NewAgreement(raters int) *Agreement {
	return &Agreement{
		raters: raters, pairs: map[[2]int]map[[2]float64]float64{},
		coincidences: map[[2]float64]float64{}, given: map[float64]float64{},
	}
}

// Add adds a unit, with one value for each rater and NaN for no value. It panics if the number of values is not the
// number of raters.
func (a *Agreement) Add(values []float64) {
	answers := make([][]answer, len(values))
	for i, v := range values {
		if !math.IsNaN(v) {
			answers[i] = []answer{{v, 1}}
		}
	}
	a.add(answers)
}

// AddShares adds a pair of texts, with the shares of each rater's verdicts on it. It compares every verdict of one
// rater with every verdict of another, in whichever order they saw the texts. A rater that contradicts itself thus
// agrees with nobody on more than the larger of its shares, and raters that follow the order agree by chance. Zeng et
// al. 2024, "Evaluating Large Language Models at Evaluating Instruction Following", also average over both orders.
//
// Which text of a pair is called the first says nothing about it, so half of every pair is counted with its texts
// exchanged. Otherwise, the agreement expected by chance would depend on the names of candidates: if the better text is
// usually the one that is called the first, raters who agree because they see that seem to agree by chance. Without ties,
// kappa is thus twice the raw agreement less 1, as for values that are equally frequent (Byrt, Bishop and Carlin 1993,
// "Bias, prevalence and kappa").
func (a *Agreement) AddShares(said []Shares) {
	answers, exchanged := make([][]answer, len(said)), make([][]answer, len(said))
	for i, shares := range said {
		for outcome, share := range shares {
			if share > 0 {
				answers[i] = append(answers[i], answer{float64(outcome), share})
				exchanged[i] = append(exchanged[i], answer{float64(Outcome(outcome).exchanged()), share})
			}
		}
	}
	a.add(answers, exchanged)
}

// exchanged returns the outcome if the two texts are exchanged.
func (o Outcome) exchanged() Outcome {
	if o == Tied {
		return Tied
	}
	return SecondWins - o
}

// add adds a unit, in several forms that weigh the same together as one. Forms differ in the values that raters gave, but
// not in which of these are equal.
func (a *Agreement) add(forms ...[][]answer) {
	var said []int // the raters with an answer
	for i, one := range forms[0] {
		if len(one) > 0 {
			said = append(said, i)
		}
	}
	if len(forms[0]) != a.raters {
		panic(fmt.Sprintf("rank: values of %d raters, want %d", len(forms[0]), a.raters))
	}

	agreeing := 0.0
	for _, answers := range forms {
		agreeing += a.compare(answers, said, 1/float64(len(forms)))
	}

	if len(said) > 1 {
		a.shared++
	}
	if n := len(said); n == a.raters && n > 1 {
		a.complete++
		a.same += agreeing / float64(n*(n-1))
	}
}

// compare counts every ordered pair of values of a unit, with weights such that it weighs as much as it has raters, times
// a factor. It returns by how many ordered pairs of raters agree.
func (a *Agreement) compare(answers [][]answer, said []int, factor float64) (agreeing float64) {
	for k, i := range said {
		for _, j := range said[k+1:] {
			table := a.pairs[[2]int{i, j}]
			if table == nil {
				table = map[[2]float64]float64{}
				a.pairs[[2]int{i, j}] = table
			}
			for _, v := range answers[i] {
				for _, w := range answers[j] {
					both := v.share * w.share * factor
					table[[2]float64{v.value, w.value}] += both
					a.coincidences[[2]float64{v.value, w.value}] += both / float64(len(said)-1)
					a.coincidences[[2]float64{w.value, v.value}] += both / float64(len(said)-1)
					if v.value == w.value {
						agreeing += 2 * both
					}
				}
			}
		}
	}

	if len(said) == a.raters && len(said) > 1 {
		for _, one := range answers {
			for _, v := range one {
				a.given[v.value] += v.share * factor
			}
		}
	}
	return agreeing
}

// Units returns the number of units with values of at least two raters.
func (a *Agreement) Units() int { return a.shared }

// Raw returns how often two raters gave the same value, as a share of the units that both judged, and the number of
// the latter. The share is NaN if there are none.
func (a *Agreement) Raw(i, j int) (share float64, units int) {
	same, total := 0.0, 0.0
	table := a.pairs[[2]int{min(i, j), max(i, j)}]
	for _, values := range slices.SortedFunc(maps.Keys(table), inOrder) {
		total += table[values]
		if values[0] == values[1] {
			same += table[values]
		}
	}
	return same / total, int(math.Round(total))
}

// inOrder compares pairs of values, so that sums over them always have the same digits.
func inOrder(x, y [2]float64) int { return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1])) }

// Cohen returns Cohen's kappa of two raters (Cohen 1960, "A Coefficient of Agreement for Nominal Scales"). It is (p_o
// − p_e)/(1 − p_e), where p_o is the raw agreement. p_e is the agreement expected by chance, if both give their
// values in the same proportions. Cohen returns NaN if p_e is 1, or if no unit was judged by both.
func (a *Agreement) Cohen(i, j int) float64 {
	table := a.pairs[[2]int{min(i, j), max(i, j)}]
	one, other, total, same := map[float64]float64{}, map[float64]float64{}, 0.0, 0.0
	for _, values := range slices.SortedFunc(maps.Keys(table), inOrder) {
		n := table[values]
		one[values[0]] += n
		other[values[1]] += n
		total += n
		if values[0] == values[1] {
			same += n
		}
	}
	chance := 0.0
	for _, v := range slices.Sorted(maps.Keys(one)) {
		chance += one[v] * other[v]
	}
	return corrected(same/total, chance/(total*total))
}

// Fleiss returns Fleiss' kappa of all raters (Fleiss 1971, "Measuring nominal scale agreement among many raters"). It
// covers the units with values of all raters, and also returns their number. kappa is NaN in the same cases as Cohen.
func (a *Agreement) Fleiss() (kappa float64, units int) {
	total, chance := float64(a.complete*a.raters), 0.0
	for _, v := range slices.Sorted(maps.Keys(a.given)) {
		share := a.given[v] / total
		chance += share * share
	}
	return corrected(a.same/float64(a.complete), chance), a.complete
}

func corrected(observed, chance float64) float64 {
	if chance >= 1-nothing {
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
	for _, values := range slices.SortedFunc(maps.Keys(a.coincidences), inOrder) {
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
