package rank

import (
	"cmp"
	"math"
	"slices"
)

// Tier is a group of candidates of a component, none of which is claimed to be better than another.
//
// A candidate is in the first tier unless another one is claimed to be better. Otherwise its tier is one below the
// lowest tier of the candidates that are claimed to be better. So each candidate of the third tier is worse than some
// of the second, which are worse than some of the first. All of these statements hold at once with the confidence of
// RankLow and RankHigh, because they follow from the same claims. A candidate of tier t has at best rank t.
//
// These are the levels of the partial order that the claims form (Mirsky 1971, "A dual of Dilworth's decomposition
// theorem"), so no partition that keeps all claims has fewer tiers. Tiers that are cut only where every candidate
// above is better than every one below would be coarser: among many candidates, somebody is always close to such a
// cut. Tier.Apart marks these cuts.
type Tier struct {
	Candidates []int // best first
	// Apart says that each candidate of this and higher tiers is claimed to be better than each one of lower tiers.
	// It is true for the last tier.
	Apart bool
}

// FewCandidates is the largest number of candidates for which bounds of ranks are useful. More than 20 candidates have
// over 200 differences. These share the 5 %, so bounds leave nearly every rank open, and a list of all candidates that
// they leave rank 1 is too long to read.
const FewCandidates = 20

// Conclusions is what the tests of all differences between candidates say about them. A component is a set of candidates
// that verdicts relate to each other.
type Conclusions struct {
	// RankLow and RankHigh are bounds of ranks that hold for all candidates of a component at once. In 95 of 100
	// evaluations every true rank is within its bounds. They follow from simultaneous tests of all differences. See
	// Mogstad, Romano, Shaikh and Wilhelm 2024, "Inference for Ranks with Applications to Mobility across
	// Neighbourhoods and Academic Achievement across Countries".
	RankLow, RankHigh []int
	// MarginalLow and MarginalHigh are bounds of ranks that hold for each candidate alone. They follow from
	// simultaneous tests of its differences to all others.
	MarginalLow, MarginalHigh []int
	// Tiers holds the tiers of each component, best first. They follow from the same tests as RankLow and RankHigh.
	Tiers [][]Tier
	// Contenders are the candidates that may be the best of their component. In 95 of 100 evaluations they include
	// the best. Among at most FewCandidates, they are those whose RankLow is 1, so this and the bounds hold at once.
	// Among more, one is a contender unless the tests of RankLow or those of MarginalLow claim that another one is
	// better. All tests are two-sided, but only the claim that another one is better can exclude the best, so both
	// families together have an error probability of 5 %. This is the subset selection of Gupta 1965, "On some
	// multiple decision (selection and ranking) rules", with a confidence set as in Hsu 1981, "Simultaneous confidence
	// intervals for all distances from the 'best'". The tests of a family whose level is not 5 % are left out: with a
	// lower Drawing.Joint, those of MarginalLow; with a higher one, those of RankLow.
	Contenders []bool
	// Best is the probability that a candidate is the best of its component. It assumes that the abilities of such
	// candidates are normal around their mean. The spread of the estimates then determines how far a lead may be
	// luck. See Gelman, Hill and Yajima 2012, "Why we (usually) don't have to worry about multiple comparisons". Best
	// is NaN if candidates and positions are confounded, or if the component has verdicts of only one cluster.
	//
	// Its normal errors suit neither candidates that won every comparison nor few clusters, so the tests decide: if
	// the contenders of a component have less than 95 % together, they get 95 %, in the same proportions. If there are
	// several, the most probable one has at most 94 %, and at most its smallest probability of Beats. Of two candidates,
	// Best is Beats.
	Best []float64
}

// differences tests the differences between candidates.
type differences interface {
	// ahead returns 1 if i can be claimed to be better than j, −1 for worse, and 0 if neither can be claimed.
	ahead(i, j int, of family) int
	// Beats returns the probability that i is better than j; NaN if it is not known.
	Beats(i, j int) float64
}

// concluded returns what follows from the tests of n candidates: the bounds of ranks, the tiers and the contenders. best
// holds Best before it is adapted to these; nil: it is not known. Each component has its candidates in order, the best
// first.
func concluded(d differences, n int, components [][]int, best []float64, joint float64) Conclusions {
	c := Conclusions{
		RankLow: make([]int, n), RankHigh: make([]int, n), MarginalLow: make([]int, n), MarginalHigh: make([]int, n),
		Contenders: make([]bool, n), Best: best,
	}
	for _, candidates := range components {
		all := claimsOf(d, candidates, ofAll)
		all.bounds(c.RankLow, c.RankHigh)
		claimsOf(d, candidates, ofCandidate).bounds(c.MarginalLow, c.MarginalHigh)
		c.Tiers = append(c.Tiers, all.tiers())
		c.contend(d, candidates, joint)
	}
	return c
}

// conclude sets what follows from the claims about all pairs of candidates.
func (u *Uncertainty) conclude() {
	var components [][]int
	for c := range u.fit.Components {
		components = append(components, u.fit.inOrder(c))
	}
	u.Conclusions = concluded(u, len(u.fit.Abilities), components, u.Best, u.joint)
	for _, candidates := range components {
		for _, i := range candidates {
			u.place(i, len(candidates))
		}
	}
}

// claimed holds the claims about all pairs of candidates of a component.
type claimed struct {
	candidates []int    // best first
	of         [][]int8 // by position of two candidates: as the result of differences.ahead
}

func claimsOf(d differences, candidates []int, of family) claimed {
	c := claimed{candidates, make([][]int8, len(candidates))}
	for a, i := range candidates {
		c.of[a] = make([]int8, len(candidates))
		for b, j := range candidates {
			if a != b {
				c.of[a][b] = int8(d.ahead(i, j, of))
			}
		}
	}
	return c
}

// bounds sets the bounds of the candidates' ranks.
func (c claimed) bounds(low, high []int) {
	for a, i := range c.candidates {
		low[i], high[i] = 1, len(c.candidates)
		for _, claim := range c.of[a] {
			switch claim {
			case 1:
				high[i]--
			case -1:
				low[i]++
			}
		}
	}
}

func (c claimed) tiers() []Tier {
	var tiers []Tier
	tier := make([]int, len(c.candidates))
	for a, i := range c.candidates {
		for b := range a {
			if c.of[b][a] == 1 {
				tier[a] = max(tier[a], tier[b]+1)
			}
		}
		if tier[a] == len(tiers) {
			tiers = append(tiers, Tier{Apart: true})
		}
		tiers[tier[a]].Candidates = append(tiers[tier[a]].Candidates, i)
	}

	for a := range c.candidates {
		for b := range c.candidates {
			if tier[a] < tier[b] && c.of[a][b] != 1 {
				for t := tier[a]; t < tier[b]; t++ {
					tiers[t].Apart = false
				}
			}
		}
	}

	return tiers
}

// contend sets the contenders of a component, and adapts Best to them. The first candidate always is a contender.
func (c *Conclusions) contend(d differences, candidates []int, joint float64) {
	count, sum := 0.0, 0.0
	alone := joint > level || joint == level && len(candidates) > FewCandidates // the tests of its own differences count
	for k, i := range candidates {
		open := (c.RankLow[i] == 1 || joint > level) && (c.MarginalLow[i] == 1 || !alone)
		if c.Contenders[i] = open || k == 0; c.Contenders[i] && c.Best != nil {
			count, sum = count+1, sum+c.Best[i]
		}
	}
	switch {
	case c.Best == nil || math.IsNaN(sum):
		return
	case len(candidates) == 2:
		first, second := candidates[0], candidates[1]
		c.Best[first], c.Best[second] = d.Beats(first, second), d.Beats(second, first)
		return
	case sum < 1-level:
		for _, i := range candidates {
			switch {
			case !c.Contenders[i]:
				c.Best[i] *= level / (1 - sum)
			case sum == 0:
				c.Best[i] = (1 - level) / count
			default:
				c.Best[i] *= (1 - level) / sum
			}
		}
	}

	most := slices.MaxFunc(candidates, func(i, j int) int { return cmp.Compare(c.Best[i], c.Best[j]) })
	if count > 1 {
		c.cap(most, min(unsure, leastBeats(d, most, candidates)), candidates)
	}
}

// leastBeats returns the smallest probability with which a candidate is better than another one, which its probability to
// be the best cannot exceed.
func leastBeats(d differences, i int, candidates []int) float64 {
	least := 1.0
	for _, j := range candidates {
		if j != i {
			least = min(least, d.Beats(i, j))
		}
	}
	return least
}

// cap leaves a candidate at most the given probability of being the best. The others get the rest, in the same proportions
// or, if they have nothing, in equal parts.
func (c *Conclusions) cap(most int, limit float64, candidates []int) {
	rest := 1 - c.Best[most]
	if c.Best[most] <= limit {
		return
	}
	for _, i := range candidates {
		switch {
		case i == most:
			c.Best[i] = limit
		case rest < nothing:
			c.Best[i] = (1 - limit) / float64(len(candidates)-1)
		default:
			c.Best[i] *= (1 - limit) / rest
		}
	}
}

// place moves the limits of a candidate's ability to its side of the mean, if it is better or worse than all others. Those
// of two that are not told apart contain the mean.
func (u *Uncertainty) place(i, candidates int) {
	switch limits := &u.Abilities[i]; {
	case candidates < 2:
	case u.RankHigh[i] == 1:
		limits.Low = max(limits.Low, 0)
	case u.RankLow[i] == candidates:
		limits.High = min(limits.High, 0)
	case candidates == 2:
		limits.Low, limits.High = min(limits.Low, 0), max(limits.High, 0)
	}
}
