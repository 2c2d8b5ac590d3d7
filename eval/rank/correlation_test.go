package rank

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestCorrelation: the correlation is Pearson's of the pairs in both directions, which of two texts is the one changes
// nothing, and leaving out a criterion's ties and degrees gives the phi coefficient.
func TestCorrelation(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var c, turned Correlation
	var xs, ys []float64
	same, decided := 0, 0
	for k := range 400 {
		x := float64(random.IntN(5) - 2)
		y := x
		if random.Float64() < 0.4 {
			y = float64(random.IntN(5) - 2)
		}
		c.Add(k/4, x, y)
		direction := float64(1 - 2*random.IntN(2))
		turned.Add(k/4, direction*x, direction*y)
		xs, ys = append(xs, x, -x), append(ys, y, -y)
		if x != 0 || y != 0 {
			decided++
			if sign(x) == sign(y) {
				same++
			}
		}
	}
	xy, xx, yy := 0.0, 0.0, 0.0
	for k := range xs {
		xy, xx, yy = xy+xs[k]*ys[k], xx+xs[k]*xs[k], yy+ys[k]*ys[k]
	}
	r, limits := c.R()
	if want := xy / math.Sqrt(xx*yy); math.Abs(r-want) > 1e-12 || !(limits.Low < r && r < limits.High) || limits.SE > 0.1 {
		t.Errorf("r = %v, limits %+v, want %v", r, limits, want)
	}
	if other, its := turned.R(); math.Abs(other-r) > 1e-12 || math.Abs(its.Low-limits.Low) > 1e-9 {
		t.Errorf("r = %v, limits %+v of turned pairs, want %v, %+v", other, its, r, limits)
	}
	if share, its := c.Same(); math.Abs(share-float64(same)/float64(decided)) > 1e-12 || !(its.Low < share && share < its.High) {
		t.Errorf("%v are the same, limits %+v, want %d of %d", share, its, same, decided)
	}
}

// TestCorrelationOfNothing: without verdicts, with ties alone, and by one cluster, nothing is claimed.
func TestCorrelationOfNothing(t *testing.T) {
	t.Parallel()
	var none, ties, one Correlation
	ties.Add(0, 0, 1)
	ties.Add(1, 0, -1)
	for range 5 {
		one.Add(7, 1, 1)
	}
	for name, c := range map[string]*Correlation{"none": &none, "ties": &ties} {
		if r, limits := c.R(); !math.IsNaN(r) || !math.IsNaN(limits.Low) {
			t.Errorf("%s: r = %v, limits %+v, want NaN", name, r, limits)
		}
	}
	if r, limits := one.R(); r != 1 || !math.IsNaN(limits.Low) {
		t.Errorf("one cluster: r = %v, limits %+v, want 1 and none", r, limits)
	}
	if share, _ := none.Same(); !math.IsNaN(share) {
		t.Errorf("%v of none are the same", share)
	}
}
