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

// conclude sets what follows from the claims about all pairs of candidates: the bounds of ranks, the tiers and the
// contenders.
func (u *Uncertainty) conclude() {
	n := len(u.fit.Abilities)
	u.RankLow, u.RankHigh = make([]int, n), make([]int, n)
	u.MarginalLow, u.MarginalHigh = make([]int, n), make([]int, n)
	u.Contenders = make([]bool, n)
	for c := range u.fit.Components {
		candidates := u.fit.inOrder(c)
		joint := u.claimed(candidates, ofAll)
		joint.bounds(u.RankLow, u.RankHigh)
		u.claimed(candidates, ofCandidate).bounds(u.MarginalLow, u.MarginalHigh)
		u.Tiers = append(u.Tiers, joint.tiers())
		u.contend(candidates)
		for _, i := range candidates {
			u.place(i, len(candidates))
		}
	}
}

// claimed holds the claims about all pairs of candidates of a component.
type claimed struct {
	candidates []int    // best first
	of         [][]int8 // by position of two candidates: as the result of Uncertainty.ahead
}

func (u *Uncertainty) claimed(candidates []int, of family) claimed {
	c := claimed{candidates, make([][]int8, len(candidates))}
	for a, i := range candidates {
		c.of[a] = make([]int8, len(candidates))
		for b, j := range candidates {
			if a != b {
				c.of[a][b] = int8(u.ahead(i, j, of))
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
func (u *Uncertainty) contend(candidates []int) {
	count, sum := 0.0, 0.0
	for k, i := range candidates {
		open := (u.RankLow[i] == 1 || u.joint > level) && (u.MarginalLow[i] == 1 || u.joint < level)
		if u.Contenders[i] = open || k == 0; u.Contenders[i] && u.Best != nil {
			count, sum = count+1, sum+u.Best[i]
		}
	}
	switch {
	case u.Best == nil || math.IsNaN(sum):
		return
	case len(candidates) == 2:
		first, second := candidates[0], candidates[1]
		u.Best[first], u.Best[second] = u.Beats(first, second), u.Beats(second, first)
		return
	case sum < 1-level:
		for _, i := range candidates {
			switch {
			case !u.Contenders[i]:
				u.Best[i] *= level / (1 - sum)
			case sum == 0:
				u.Best[i] = (1 - level) / count
			default:
				u.Best[i] *= (1 - level) / sum
			}
		}
	}

	most := slices.MaxFunc(candidates, func(i, j int) int { return cmp.Compare(u.Best[i], u.Best[j]) })
	if count > 1 {
		u.cap(most, min(unsure, u.leastBeats(most, candidates)), candidates)
	}
}

// leastBeats returns the smallest probability with which a candidate is better than another one, which its probability to
// be the best cannot exceed.
func (u *Uncertainty) leastBeats(i int, candidates []int) float64 {
	least := 1.0
	for _, j := range candidates {
		if j != i {
			least = min(least, u.Beats(i, j))
		}
	}
	return least
}

// cap leaves a candidate at most the given probability of being the best. The others get the rest, in the same proportions
// or, if they have nothing, in equal parts.
func (u *Uncertainty) cap(most int, limit float64, candidates []int) {
	rest := 1 - u.Best[most]
	if u.Best[most] <= limit {
		return
	}
	for _, i := range candidates {
		switch {
		case i == most:
			u.Best[i] = limit
		case rest < nothing:
			u.Best[i] = (1 - limit) / float64(len(candidates)-1)
		default:
			u.Best[i] *= (1 - limit) / rest
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
