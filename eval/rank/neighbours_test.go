package rank

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestNeighbours: with as many more clusters as are said to be needed, neighbours are told apart
// in about every other evaluation.
func TestNeighbours(t *testing.T) {
	t.Parallel()
	e := evaluations{candidates: 4, apart: 0.6, items: 12, judges: []simulatedJudge{{scale: 1, order: 0.4}}, luck: 0.5}
	simulated := func(seed uint64) (*Fit, *Uncertainty) {
		random := rand.New(rand.NewPCG(seed, 81))
		return estimated(t, e.candidates, e.observed(random, e.abilities(random)), Options{OrderEffect: true}, Drawing{Draws: 1})
	}
	const many = 60
	var totals []float64
	for seed := range uint64(many) {
		_, u := simulated(seed)
		all := u.Neighbours()
		if len(all) != 3 || all[0].Worse != all[1].Better || all[1].Worse != all[2].Better {
			t.Fatalf("neighbours %+v", all)
		}
		for _, pair := range all {
			if claimed := u.ahead(pair.Better, pair.Worse, ofPair) != 0; claimed != (pair.More == 0) || claimed && pair.Right < 0.9 {
				t.Errorf("claimed %t: %+v", claimed, pair)
			}
			totals = append(totals, float64(e.items)+pair.More)
		}
	}
	slices.Sort(totals)
	e.items = int(totals[len(totals)/2])
	var apart share
	for seed := range uint64(many) {
		_, u := simulated(seed)
		for i := 1; i < e.candidates; i++ {
			apart.add(u.ahead(i, i-1, ofPair) == 1)
		}
	}
	t.Logf("%d items, said %v to %v: %.3f told apart", e.items, totals[len(totals)/4], totals[len(totals)*3/4], apart.rate())
	if apart.rate() < 0.3 || apart.rate() > 0.85 {
		t.Errorf("with %d items %.3f of neighbours are told apart", e.items, apart.rate())
	}
}

// TestNeighboursWithoutADoubt: when one of two candidates won every comparison, a claim takes
// six items, whatever the prior says of the difference.
func TestNeighboursWithoutADoubt(t *testing.T) {
	t.Parallel()
	for items, more := range map[int]float64{2: 4, 4: 2, 5: 1, 6: 0, 10: 0} {
		_, u := estimated(t, 2, perfect(items), Options{OrderEffect: true}, Drawing{Draws: 1})
		if got := u.Neighbours(); len(got) != 1 || got[0].Better != 0 || got[0].More != more || !(got[0].Right > 0.6) {
			t.Errorf("%d items: %+v, want %v more", items, got, more)
		}
	}
	// Of one item nothing is known, and of equals no number is enough.
	if _, u := estimated(t, 2, perfect(1), Options{OrderEffect: true}, Drawing{Draws: 1}); !math.IsNaN(u.Neighbours()[0].Right) || !math.IsNaN(u.Neighbours()[0].More) {
		t.Errorf("one item: %+v", u.Neighbours())
	}
	var equals []Observed
	for item := range 10 {
		equals = append(equals, game(item, 0, 1, Outcome(item%2)), game(item, 1, 0, Outcome(item%2)))
	}
	if _, u := estimated(t, 2, equals, Options{OrderEffect: true}, Drawing{Draws: 1}); math.Abs(u.Neighbours()[0].Right-0.5) > 1e-9 || !math.IsInf(u.Neighbours()[0].More, 1) {
		t.Errorf("equals: %+v", u.Neighbours())
	}
}

// TestEqualRecordsAreTreatedAlike: candidates with the very same record have the same limits, whatever rounding makes of
// their strengths, and no number of further verdicts tells them apart.
func TestEqualRecordsAreTreatedAlike(t *testing.T) {
	t.Parallel()
	var placed, tied []Observed
	for item := range 12 {
		for i := range 4 {
			for j := range i {
				placed = append(placed, game(item, i, j, FirstWins), game(item, j, i, FirstWins))
				tied = append(tied, game(item, i, j, Tied), game(item, j, i, Tied))
			}
		}
		tied = append(tied, game(item, 4, 0, FirstWins), game(item, 0, 4, SecondWins))
	}
	_, u := estimated(t, 4, placed, Options{OrderEffect: true}, Drawing{})
	for i, limits := range u.Abilities {
		if first := u.Abilities[0]; math.Abs(limits.Low-first.Low) > 1e-3 || math.Abs(limits.High-first.High) > 1e-3 ||
			math.Abs(limits.Low+limits.High) > 1e-3 {
			t.Errorf("candidate %d has limits %+v, the first %+v", i, limits, first)
		}
	}
	_, even := estimated(t, 5, tied, Options{OrderEffect: true}, Drawing{})
	for _, u := range []*Uncertainty{u, even} {
		for _, pair := range u.Neighbours() {
			if math.Abs(u.fit.Abilities[pair.Better]-u.fit.Abilities[pair.Worse]) < 1e-3 && !math.IsInf(pair.More, 1) {
				t.Errorf("equal candidates: %+v", pair)
			}
		}
	}
}
