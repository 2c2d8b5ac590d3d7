package rank

import "math"

// Confusion counts a rater's verdicts by the outcomes that are taken to be right. An outcome must mean the same
// document for both.
type Confusion struct {
	table [3][3]int // right, said
}

// Add counts one pair, with its right outcome and the rater's.
func (c *Confusion) Add(right, said Outcome) { c.table[right][said]++ }

// Total returns the number of pairs.
func (c *Confusion) Total() int {
	total := 0
	for _, row := range c.table {
		for _, n := range row {
			total += n
		}
	}
	return total
}

// Accuracy returns the share of pairs with the right outcome; NaN without pairs.
func (c *Confusion) Accuracy() float64 {
	right := 0
	for outcome := range c.table {
		right += c.table[outcome][outcome]
	}
	return float64(right) / float64(c.Total())
}

// Macro returns unweighted means over outcomes, leaving out those that are neither right nor said of any pair. See
// Sokolova and Lapalme 2009, "A systematic analysis of performance measures", macro-averaging; F1 is the mean of each
// outcome's F1. An outcome that was never said has precision 0, one that was never right has recall 0. Macro returns
// NaN without pairs.
func (c *Confusion) Macro() (precision, recall, f1 float64) {
	outcomes := 0.0
	for o := range c.table {
		right, said, both := 0, 0, c.table[o][o]
		for other := range c.table {
			right += c.table[o][other]
			said += c.table[other][o]
		}
		if right+said == 0 {
			continue
		}
		outcomes++
		precision += float64(both) / math.Max(float64(said), 1)
		recall += float64(both) / math.Max(float64(right), 1)
		f1 += 2 * float64(both) / float64(right+said)
	}
	return precision / outcomes, recall / outcomes, f1 / outcomes
}
