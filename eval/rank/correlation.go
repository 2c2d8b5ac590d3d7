package rank

import "math"

// Correlation compares two verdicts on the same pairs of texts, such as those by two criteria. A verdict is a number: above
// 0 for the one text, below 0 for the other, and 0 for a tie. Which text is the one does not matter. Verdicts of a cluster
// may depend on each other in any way. The zero value has no verdicts. It is not safe for concurrent use.
type Correlation struct {
	all    products
	groups [jackknifeGroups]products // by the cluster modulo their number
}

// products are sums over pairs of verdicts.
type products struct{ xx, yy, xy, same, decided, n float64 }

func (p products) plus(q products, times float64) products {
	return products{
		p.xx + times*q.xx, p.yy + times*q.yy, p.xy + times*q.xy,
		p.same + times*q.same, p.decided + times*q.decided, p.n + times*q.n,
	}
}

// r returns the correlation; NaN if one of the two has only ties.
func (p products) r() float64 {
	if p.xx < nothing || p.yy < nothing {
		return math.NaN()
	}
	return p.xy / math.Sqrt(p.xx*p.yy)
}

// Add adds two verdicts on one pair.
func (c *Correlation) Add(cluster int, x, y float64) {
	one := products{xx: x * x, yy: y * y, xy: x * y, n: 1}
	if x != 0 || y != 0 {
		one.decided = 1
	}
	if sign(x) == sign(y) {
		one.same = one.decided
	}
	c.all = c.all.plus(one, 1)
	group := &c.groups[cluster%jackknifeGroups]
	*group = group.plus(one, 1)
}

// Same returns the share of pairs of verdicts that prefer the same text, with limits by cluster (MeanOf). Pairs of which
// neither prefers a text do not count. It returns NaN without any.
func (c *Correlation) Same() (share float64, limits Limits) {
	var sums, counts []float64
	for _, group := range c.groups {
		if group.decided > 0 {
			sums, counts = append(sums, group.same), append(counts, group.decided)
		}
	}
	return MeanOf(sums, counts, 0, 1)
}

// R returns Pearson's correlation of the two, each pair of texts counted in both directions, so that the mean of each is 0;
// without ties and degrees this is the phi coefficient. Its limits are those of ClusteredAgreement.Limits: by leaving out
// one group of clusters after another. It returns NaN if one of the two has only ties.
func (c *Correlation) R() (r float64, limits Limits) {
	r = c.all.r()
	var values []float64
	for _, group := range c.groups {
		if group.n > 0 {
			values = append(values, c.all.plus(group, -1).r())
		}
	}
	return r, jackknifed(r, values)
}

func sign(x float64) int {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return 0
}
