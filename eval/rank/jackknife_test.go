package rank

import (
	"math"
	"math/rand/v2"
	"testing"
)

// rated are so many items with five units each; two raters say the same with a
// probability that differs between items.
func rated(random *rand.Rand, items int) *ClusteredAgreement {
	a := NewClusteredAgreement(2)
	for item := range items {
		same := []float64{0.5, 0.9}[random.IntN(2)]
		for range 5 {
			one := float64(random.IntN(2))
			other := one
			if random.Float64() > same {
				other = 1 - one
			}
			a.Add(item, []float64{one, other})
		}
	}
	return a
}

// TestCoefficientsHaveLimits: limits of kappa and alpha hold the truth, which is 2·0.7 − 1,
// in about 95 of 100 evaluations, although units of an item are alike.
func TestCoefficientsHaveLimits(t *testing.T) {
	t.Parallel()
	const many, truth = 400, 0.4
	for _, items := range []int{10, 30, 100} {
		var cohen, alpha share
		for seed := range uint64(many) {
			a := rated(rand.New(rand.NewPCG(seed, 5)), items)
			k, l := a.Limits(func(a *Agreement) float64 { return a.Cohen(0, 1) }), a.Limits(func(a *Agreement) float64 { return a.Alpha(Nominal) })
			cohen.add(k.Low <= truth && truth <= k.High)
			alpha.add(l.Low <= truth && truth <= l.High)
		}
		if cohen.rate() < 0.92 || alpha.rate() < 0.92 || cohen.rate() > 0.99 {
			t.Errorf("%d items: limits of kappa hold the truth in %.3f, of alpha in %.3f", items, cohen.rate(), alpha.rate())
		}
	}
}

// TestCoefficientsWithoutLimits: where the error is not known, there are no limits.
func TestCoefficientsWithoutLimits(t *testing.T) {
	t.Parallel()
	kappa := func(a *Agreement) float64 { return a.Cohen(0, 1) }
	agreed, one, many := NewClusteredAgreement(2), NewClusteredAgreement(2), NewClusteredAgreement(31)
	for k := range 20 {
		agreed.Add(k, []float64{float64(k % 2), float64(k % 2)})
		one.Add(3, []float64{float64(k % 2), float64(k % 3 % 2)})
		values := make([]float64, 31)
		values[k] = 1
		many.Add(k, values)
	}
	for what, a := range map[string]*ClusteredAgreement{"full agreement": agreed, "one item": one, "31 raters": many} {
		if got := a.Limits(kappa); !math.IsNaN(got.Low) || !math.IsNaN(got.SE) {
			t.Errorf("%s: limits %+v", what, got)
		}
	}
	if agreed.Cohen(0, 1) != 1 {
		t.Errorf("kappa %v, want 1", agreed.Cohen(0, 1))
	}
}

// TestLeavingOutAGroup: what is left is what the other groups added.
func TestLeavingOutAGroup(t *testing.T) {
	t.Parallel()
	all, others := NewClusteredAgreement(3), NewAgreement(3)
	random := rand.New(rand.NewPCG(1, 2))
	for k := range 40 {
		values := []float64{float64(random.IntN(3)), float64(random.IntN(3)), math.NaN()}
		if k%3 > 0 {
			values[2] = float64(random.IntN(3))
		}
		all.Add(k%4, values)
		if k%4 != 2 {
			others.Add(values)
		}
	}
	left := all.lessGroup(all.groups[2])
	for what, of := range map[string]func(*Agreement) float64{
		"Cohen": func(a *Agreement) float64 { return a.Cohen(0, 2) }, "alpha": func(a *Agreement) float64 { return a.Alpha(Interval) },
		"Fleiss": func(a *Agreement) float64 { kappa, _ := a.Fleiss(); return kappa },
	} {
		if got, want := of(left), of(others); math.Abs(got-want) > 1e-12 {
			t.Errorf("%s %v, want %v", what, got, want)
		}
	}
}
