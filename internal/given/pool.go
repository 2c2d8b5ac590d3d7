package given

import (
	"cmp"
	"slices"
)

const (
	// mostJudges is how many judges an evaluation has. Each has parameters of its own, which a crowd of people with a few
	// verdicts each does not determine.
	mostJudges = 50
	// fewVerdicts is the number of verdicts below which a judge among more than mostJudges has no parameters of its own.
	fewVerdicts = 20
	// others are all the judges that are treated as one.
	others = "other judges"
)

// pool decides which judges the evaluation has, and sets the position of each judge among them. If there are many, those
// with few verdicts are one judge.
func (c *collector) pool() {
	counts := make([]int, len(c.judges.names))
	for _, v := range c.verdicts {
		counts[v.judge]++
	}
	for _, s := range c.scores {
		counts[s.judge]++
	}

	c.shownAs = make([]int, len(counts))
	c.pooled = nil
	keep := map[int]bool{}
	byCount := make([]int, len(counts))
	for k := range byCount {
		byCount[k] = k
	}
	slices.SortStableFunc(byCount, func(a, b int) int { return cmp.Compare(counts[b], counts[a]) })
	for _, k := range byCount {
		if len(counts) <= mostJudges || len(keep) < mostJudges && counts[k] >= fewVerdicts {
			keep[k] = true
		}
	}

	for k, name := range c.judges.names {
		if keep[k] {
			c.shownAs[k], c.pooled = len(c.pooled), append(c.pooled, name)
		}
	}
	if len(keep) == len(counts) {
		return
	}
	name := others
	for slices.Contains(c.pooled, name) {
		name += "*"
	}
	c.crowd, c.pooled = len(c.pooled), append(c.pooled, name)
	for k := range counts {
		if !keep[k] {
			c.shownAs[k] = c.crowd
		}
	}
}

// several reports whether a judge of the evaluation stands for several.
func (c *collector) several(judge int) bool { return c.crowd >= 0 && judge == c.crowd }
