package rank

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// sampledUnits are n units of 4 candidates: what one judge says of each in both orders, and what another predicted.
func sampledUnits(n int) []Unit {
	random := rand.New(rand.NewPCG(3, 4))
	var units []Unit
	for k := range n {
		i, j := pairAt(4, k%6)
		u := Unit{Cluster: int32(k), First: int32(i), Second: int32(j), Each: [2]int{1, 1}, Weight: 1}
		for order := range u.True {
			one := Counts{FirstWins: 1}
			if random.Float64() < 1/(1+math.Exp(0.5*float64(j-i))) {
				one = Counts{SecondWins: 1}
			}
			if order == 1 {
				one.FirstWins, one.SecondWins = one.SecondWins, one.FirstWins
			}
			u.True[order] = one
		}
		u.Predicted = Counts{FirstWins: random.IntN(3), SecondWins: 1}
		units = append(units, u)
	}
	return units
}

// TestFromSampleOfEverythingIsTheFit: if the judge has seen everything, predictions change nothing.
func TestFromSampleOfEverythingIsTheFit(t *testing.T) {
	t.Parallel()
	units := sampledUnits(60)
	var all []Observed
	for _, u := range units {
		all = append(all, u.asked()...)
	}
	want, err := FromObserved(4, 1, all, Options{OrderEffect: true})
	if err != nil {
		t.Fatal(err)
	}
	got, err := FromSample(4, 1, nil, units, Options{OrderEffect: true})
	if err != nil {
		t.Fatal(err)
	}
	for i, ability := range got.Fit.Abilities {
		if math.Abs(ability-want.Abilities[i]) > 1e-9 {
			t.Errorf("ability %d is %v, want %v", i, ability, want.Abilities[i])
		}
	}
	if got.Fit.Weighted() || got.Fit.Standings()[0].Record != want.Standings()[0].Record {
		t.Errorf("weighted %v, record %v; want %v", got.Fit.Weighted(), got.Fit.Standings()[0].Record, want.Standings()[0].Record)
	}
}

// TestFromSampleFollowsTheJudge: wrong predictions of units that the judge has not seen are corrected by what it says of
// the sample, and right ones are used; only what the judge said counts as won or lost.
func TestFromSampleFollowsTheJudge(t *testing.T) {
	t.Parallel()
	for name, right := range map[string]bool{"right": true, "wrong": false} {
		var units []Unit
		for k := range 600 {
			i, j := pairAt(4, k%6)
			u := Unit{Cluster: int32(k), First: int32(i), Second: int32(j), Each: [2]int{1, 1}}
			won := k/6%10 >= 3 // the candidate with the lower number wins 70 %
			if u.Predicted = (Counts{FirstWins: 2}); won != right {
				u.Predicted = Counts{SecondWins: 2}
			}
			if k/60%5 == 0 {
				u.Weight = 5
				u.True = [2]Counts{{FirstWins: 1}, {SecondWins: 1}}
				if !won {
					u.True = [2]Counts{{SecondWins: 1}, {FirstWins: 1}}
				}
			}
			units = append(units, u)
		}
		c, err := FromSample(4, 1, nil, units, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if a := c.Fit.Abilities; !(a[0] > a[1]+0.1 && a[1] > a[2]+0.1 && a[2] > a[3]+0.1) {
			t.Errorf("%s predictions: abilities %v", name, a)
		}
		if right != (c.Lambda > 0.5) {
			t.Errorf("%s predictions count as %v", name, c.Lambda)
		}
		if games := c.Fit.Standings()[0].Games(); games != 120 { // 60 units of each candidate, in two orders
			t.Errorf("%s predictions: the first has %d comparisons, want the judge's 120", name, games)
		}
	}
}

// TestVotesOnAUnitCountOnce: however many people vote on a pair, it weighs the same.
func TestVotesOnAUnitCountOnce(t *testing.T) {
	t.Parallel()
	one := func(votes int) *Correction {
		var units []Unit
		for k := range 120 {
			i, j := pairAt(4, k%6)
			u := Unit{Cluster: int32(k), First: int32(i), Second: int32(j), Each: [2]int{1, 0}, Once: true, Predicted: Counts{FirstWins: 2, SecondWins: 1}}
			if k/6%2 == 0 {
				u.Weight = 2
				u.True[0] = Counts{FirstWins: 1}
				if k/12%3 == 0 { // the votes on these pairs are many
					u.True[0] = Counts{SecondWins: votes}
				}
			}
			units = append(units, u)
		}
		c, err := FromSample(4, 1, nil, units, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	few, many := one(1), one(7)
	for i, ability := range few.Fit.Abilities {
		if math.Abs(ability-many.Fit.Abilities[i]) > 1e-9 || math.Abs(ability) < 0.1 {
			t.Errorf("ability %d is %v with a vote on each pair, and %v with several on some", i, ability, many.Fit.Abilities[i])
		}
	}
}

// TestSamplingSaysWhatMoreOfItGives: the variance that a larger sample should leave is the one that it leaves.
func TestSamplingSaysWhatMoreOfItGives(t *testing.T) {
	t.Parallel()
	for name, cheap := range map[string]float64{"good": 0.8, "useless": 0.5} {
		variance := func(weight int) (whole, sampling float64) {
			const many = 10
			for seed := range uint64(many) {
				random := rand.New(rand.NewPCG(seed, 8))
				var units []Unit
				for k := range 1500 {
					i, j := pairAt(4, k%6)
					u := Unit{Cluster: int32(k), First: int32(i), Second: int32(j), Each: [2]int{1, 0}, Once: true}
					won := random.Float64() < 0.6
					if u.Predicted = (Counts{SecondWins: 1}); won == (random.Float64() < cheap) {
						u.Predicted = Counts{FirstWins: 1}
					}
					if random.IntN(weight) == 0 {
						u.Weight = float64(weight)
						if u.True[0] = (Counts{SecondWins: 1}); won {
							u.True[0] = Counts{FirstWins: 1}
						}
					}
					units = append(units, u)
				}
				c, err := FromSample(4, 1, nil, units, Options{})
				if err != nil {
					t.Fatal(err)
				}
				u, err := c.Fit.Uncertainty(t.Context(), c.Observed, Drawing{Draws: 10})
				if err != nil {
					t.Fatal(err)
				}
				for _, limits := range u.Abilities {
					whole += limits.SE * limits.SE / many
				}
				sampling += c.Sampling(units) / many
			}
			return whole, sampling
		}
		whole, sampling := variance(20)
		for _, weight := range []int{2, 5} {
			got, _ := variance(weight)
			if want := whole * (1 - sampling*(1-float64(weight-1)/19)); math.Abs(got/want-1) > 0.15 {
				t.Errorf("%s predictions, 1 in %d asked: variance %.4g, want %.4g; with 1 in 20, %.4g", name, weight, got, want, whole)
			}
		}
	}
}

// TestFromSampleIsUnbiased: whatever is predicted and however far it counts, the mean over all ways to draw two of four
// units is the score of all verdicts.
func TestFromSampleIsUnbiased(t *testing.T) {
	t.Parallel()
	units := sampledUnits(4)
	for i := range units {
		units[i].First, units[i].Second = 0, 1
	}
	const lambda = 0.3
	want, mean, ways := 0.0, 0.0, 0.0
	lead := func(all []Observed, lambda float64) (sum float64) {
		for _, o := range all {
			by := o.weight() * float64(o.FirstWins-o.SecondWins)
			if o.First == 1 {
				by = -by
			}
			if o.Predicted {
				by *= lambda
			}
			sum += by
		}
		return sum
	}
	for _, u := range units {
		want += lead(u.asked(), 0)
	}
	for i := range units {
		for j := range i {
			for k, u := range units {
				if u.Weight = 2; k != i && k != j {
					u.Weight, u.True = 0, [2]Counts{}
				}
				mean += lead(u.asked(), 0) + lead(u.predicted(), lambda)
			}
			ways++
		}
	}
	if math.Abs(mean/ways-want) > 1e-9 {
		t.Errorf("the mean is %v, want %v", mean/ways, want)
	}
}

// TestFromSampleIsChecked: units that make no sense are refused.
func TestFromSampleIsChecked(t *testing.T) {
	t.Parallel()
	for says, u := range map[string]Unit{
		"weight 0.5":               {Second: 1, Weight: 0.5},
		"weight NaN":               {Second: 1, Weight: math.NaN()},
		"weight 0 with verdicts":   {Second: 1, True: [2]Counts{{Ties: 1}}},
		"verdicts in each order":   {Second: 1, Each: [2]int{-1, 0}},
		"candidate 0 and itself":   {Weight: 1, True: [2]Counts{{Ties: 1}}},
		"candidates 0 and 9, want": {Second: 9, Predicted: Counts{Ties: 1}, Each: [2]int{1, 1}},
	} {
		if _, err := FromSample(2, 1, nil, []Unit{u}, Options{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want an error that says %s", u, err, says)
		}
	}
}

// TestWeightedRecordsAreWeakEvidence: five verdicts on pairs that were chosen count as one on a pair that was drawn at random
// from five, where one candidate always beat another.
func TestWeightedRecordsAreWeakEvidence(t *testing.T) {
	t.Parallel()
	chosen := func(weights ...float64) float64 {
		var units []Unit
		for k, w := range weights {
			units = append(units, Unit{
				Cluster: int32(k), Second: 1, Each: [2]int{1, 0}, True: [2]Counts{{FirstWins: 1}}, Weight: w,
			})
		}
		c, err := FromSample(2, 1, nil, units, Options{})
		if err != nil {
			t.Fatal(err)
		}
		u, err := c.Fit.Uncertainty(t.Context(), c.Observed, Drawing{Draws: 50})
		if err != nil {
			t.Fatal(err)
		}
		return u.alwaysWon(0, 1)
	}
	if got, want := chosen(1, 1, 1, 1, 1, 5), math.Exp2(1-2.0); math.Abs(got-want) > 1e-9 {
		t.Errorf("p = %v, want %v", got, want)
	}
	if got, want := chosen(1, 1, 1, 1, 1, 1), math.Exp2(1-6.0); got != want {
		t.Errorf("without weights p = %v, want %v", got, want)
	}
}
