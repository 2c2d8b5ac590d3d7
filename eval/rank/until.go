package rank

import (
	"cmp"
	"fmt"
	"math"
)

// Until is a rule to end an evaluation as soon as its best candidates are known.
//
// Frequent looks at the results find a false claim sooner or later, so the rule has looks at fixed numbers of pairs.
// Each look spends a part of the permitted error probability (Lan and DeMets 1983, "Discrete sequential boundaries
// for clinical trials"). Look k spends 1/(k·(k+1)) of it, so that all looks together never exceed it. A look may be
// late or left out. Looking in between changes nothing, as long as it does not end the evaluation.
//
// The order in which pairs are compared must not depend on their verdicts, and its beginning must be a fair sample of
// all pairs.
type Until struct {
	// Candidates is the number of candidates.
	Candidates int
	// Top is the number of best candidates to find.
	Top int
	// Confidence is the probability with which the claim must be right; 0 means 95 %.
	Confidence float64
}

const (
	// firstLook is the minimum number of pairs at the first look, and firstLookEach that of each candidate. Earlier
	// looks could hardly know anything, and would waste error probability.
	firstLook     = 10
	firstLookEach = 6
	// nextLook is the factor between the numbers of pairs at successive looks. With more looks, each could claim
	// less.
	nextLook = 1.5
)

// Check returns an error if the rule is not valid.
func (r Until) Check() error {
	switch {
	case r.Top < 1 || r.Top >= r.Candidates:
		return fmt.Errorf("top %d of %d candidates, want 1 to %d", r.Top, r.Candidates, r.Candidates-1)
	case !(r.Confidence >= 0 && r.Confidence < 1):
		return fmt.Errorf("confidence %v, want less than 1", r.Confidence)
	default:
		return nil
	}
}

// Look returns the number of the last look that is due with so many pairs; 0 if none is.
func (r Until) Look(pairs int) int {
	look := 0
	for r.Pairs(look+1) <= pairs {
		look++
	}
	return look
}

// Pairs returns the number of pairs at a look; looks are numbered from 1. A pair has two candidates.
func (r Until) Pairs(look int) int {
	first := max(firstLook, r.Candidates*firstLookEach/2)
	return int(math.Ceil(float64(first)*math.Pow(nextLook, float64(look-1)) - 1e-9))
}

// Sure returns the confidence of the claim, with the default applied.
func (r Until) Sure() float64 { return cmp.Or(r.Confidence, 1-level) }

// Level returns the error probability of a look, for Drawing.Joint.
func (r Until) Level(look int) float64 {
	k := float64(look)
	return (1 - r.Sure()) / (k * (k + 1))
}

// Top returns the k best candidates, best first. known is false if others may be among them according to the bounds
// of ranks, or if some candidates cannot be compared.
func (u *Uncertainty) Top(k int) (best []int, known bool) {
	if len(u.fit.Components) != 1 {
		return nil, false
	}
	for _, i := range u.fit.inOrder(0) {
		if u.RankHigh[i] <= k {
			best = append(best, i)
		}
	}
	return best, len(best) == k
}

// placing is the part of the permitted error probability that is spent on looks at which newcomers may be placed.
const placing = 0.1

// PlacingLevel returns the error probability of each of so many looks at which a newcomer's rank may be known, for
// Drawing.Joint. PlacedLevel is what they leave for the ranking afterwards.
func PlacingLevel(looks int) float64 { return level * placing / float64(max(looks, 1)) }

// PlacedLevel is the error probability of a ranking with newcomers, for Drawing.Joint.
const PlacedLevel = level * (1 - placing)

// Placed reports whether a candidate's rank is known: its bounds leave one, and it can be compared with all others.
func (u *Uncertainty) Placed(i int) bool {
	return len(u.fit.Components) == 1 && u.RankLow[i] == u.RankHigh[i]
}
