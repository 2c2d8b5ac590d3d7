package rank

// Confusion counts a rater's verdicts by the outcomes that are taken to be right. An outcome must mean the same
// document for both. Each pair weighs the same, however many verdicts the rater gave on it.
type Confusion struct {
	table [3][3]float64 // right, said
	pairs int
	most  int // pairs on which the rater was more often right than wrong
}

// Add counts one pair, with its right outcome and the shares of the rater's verdicts.
func (c *Confusion) Add(right Outcome, said Shares) {
	c.pairs++
	for outcome, share := range said {
		c.table[right][outcome] += share
	}
	wrong := said[FirstWins] + said[SecondWins]
	if right != Tied {
		wrong = said[SecondWins-right]
	}
	if said[right] > wrong {
		c.most++
	}
}

// Total returns the number of pairs.
func (c *Confusion) Total() int { return c.pairs }

// Accuracy returns the share of verdicts with the right outcome; NaN without pairs.
func (c *Confusion) Accuracy() float64 {
	right := 0.0
	for outcome := range c.table {
		right += c.table[outcome][outcome]
	}
	return right / float64(c.pairs)
}

// Mostly returns the share of pairs on which the rater was more often right than wrong, over both orders; NaN without
// pairs. If one of two texts is right, ties count for neither (Tan et al. 2025, "JudgeBench").
func (c *Confusion) Mostly() float64 { return float64(c.most) / float64(c.pairs) }

// Macro returns unweighted means over outcomes, leaving out those that are neither right nor said of any pair. See
// Sokolova and Lapalme 2009, "A systematic analysis of performance measures", macro-averaging; F1 is the mean of each
// outcome's F1. An outcome that was never said has precision 0, one that was never right has recall 0. Macro returns
// NaN without pairs.
func (c *Confusion) Macro() (precision, recall, f1 float64) {
	outcomes := 0.0
	for o := range c.table {
		right, said, both := 0.0, 0.0, c.table[o][o]
		for other := range c.table {
			right += c.table[o][other]
			said += c.table[other][o]
		}
		if right+said == 0 {
			continue
		}
		outcomes++
		if said > 0 {
			precision += both / said
		}
		if right > 0 {
			recall += both / right
		}
		f1 += 2 * both / (right + said)
	}
	return precision / outcomes, recall / outcomes, f1 / outcomes
}
