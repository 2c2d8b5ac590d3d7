package rank

import (
	"cmp"
	"fmt"
	"math"
)

// Until is a rule to end an evaluation as soon as it is known which candidates are the best.
//
// Frequent looks find a false claim sooner or later. So there are looks at fixed numbers of
// pairs only. Each spends a part of the chance to be wrong (Lan and DeMets 1983,
// "Discrete sequential boundaries for clinical trials"): look k has 1/(k·(k+1)) of it, and
// all looks together have no more than the whole, however many there are. A look may be late
// or left out. To look in between changes nothing, as long as it stops nothing.
//
// Pairs must be compared in an order that does not depend on their verdicts, and that makes any
// first ones a fair sample of all.
type Until struct {
	// Candidates is how many there are.
	Candidates int
	// Top is how many candidates the best are.
	Top int
	// Confidence is how often the claim must be right; 0: 95 %.
	Confidence float64
}

const (
	// firstLook is a number of pairs below which little can be known, and firstLookEach one of
	// each candidate: looks before would waste what they spend.
	firstLook     = 10
	firstLookEach = 6
	// nextLook is the factor between the numbers of pairs at looks: with more looks, each one
	// could claim less.
	nextLook = 1.5
)

// Check reports whether the rule makes sense.
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

// Look is the number of the last look that is due with so many pairs; 0: none is.
func (r Until) Look(pairs int) int {
	look := 0
	for r.Pairs(look+1) <= pairs {
		look++
	}
	return look
}

// Pairs is the number of pairs at a look, from 1. A pair has two candidates.
func (r Until) Pairs(look int) int {
	first := max(firstLook, r.Candidates*firstLookEach/2)
	return int(math.Ceil(float64(first)*math.Pow(nextLook, float64(look-1)) - 1e-9))
}

// Sure is the confidence of the claim.
func (r Until) Sure() float64 { return cmp.Or(r.Confidence, 1-level) }

// Level is the Drawing.Joint of a look.
func (r Until) Level(look int) float64 {
	k := float64(look)
	return (1 - r.Sure()) / (k * (k + 1))
}

// Top are the k best candidates in their order. known is false if bounds of ranks allow others
// among them, or if there are candidates that cannot be compared.
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
