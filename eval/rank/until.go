package rank

import (
	"cmp"
	"fmt"
	"math"
)

// Until is a rule to end an evaluation as soon as it is known which candidates are the best.
//
// Who looks often sees a false claim sooner or later. So there are looks at fixed numbers of
// clusters only; each spends a part of the chance to be wrong (Lan and DeMets 1983,
// "Discrete sequential boundaries for clinical trials"): look k has 1/(k·(k+1)) of it, and
// all looks together have no more than the whole, however many there are. A look may be late
// or left out. To look in between changes nothing, as long as it stops nothing.
type Until struct {
	// Top is how many candidates the best are.
	Top int
	// Confidence is how often the claim must be right; 0: 95 %.
	Confidence float64
}

const (
	// firstLook is a number of clusters below which little can be known: looks before it would
	// waste what they spend.
	firstLook = 10
	// nextLook is the factor between the numbers of clusters at looks: with more looks, each
	// one could claim less.
	nextLook = 1.5
)

// Check reports whether the rule makes sense for n candidates.
func (r Until) Check(n int) error {
	switch {
	case r.Top < 1 || r.Top >= n:
		return fmt.Errorf("top %d of %d candidates, want 1 to %d", r.Top, n, n-1)
	case !(r.Confidence >= 0 && r.Confidence < 1):
		return fmt.Errorf("confidence %v, want less than 1", r.Confidence)
	default:
		return nil
	}
}

// Look is the number of the last look that is due with so many clusters; 0: none is.
func (r Until) Look(clusters int) int {
	if clusters < firstLook {
		return 0
	}
	return 1 + int(math.Log(float64(clusters)/firstLook)/math.Log(nextLook)+1e-9)
}

// Level is the Drawing.Level of a look.
func (r Until) Level(look int) float64 {
	k := float64(look)
	return (1 - cmp.Or(r.Confidence, 1-level)) / (k * (k + 1))
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
