package rank

import (
	"math"
	"math/rand/v2"
	"testing"
)

// judgedBy is one evaluation of five candidates on 40 items by such judges, with and without
// scales.
func judgedBy(t *testing.T, seed uint64, scales ...float64) (fit, plain *Fit, u, without *Uncertainty) {
	t.Helper()
	e := evaluations{candidates: 5, apart: 0.3, items: 40}
	for _, s := range scales {
		e.judges = append(e.judges, simulatedJudge{scale: s, order: 0.3})
	}
	random := rand.New(rand.NewPCG(seed, 1))
	observed := e.observed(random, e.abilities(random))
	both := func(options Options) (*Fit, *Uncertainty) {
		fit, err := FromObserved(5, len(scales), observed, options)
		if err != nil {
			t.Fatal(err)
		}
		u, err := fit.Uncertainty(t.Context(), observed, Drawing{Draws: 1})
		if err != nil {
			t.Fatal(err)
		}
		return fit, u
	}
	fit, u = both(Options{OrderEffect: true, Scales: true})
	plain, without = both(Options{OrderEffect: true})
	return fit, plain, u, without
}

// TestScales: judges of scale 1, .6 and .2 are told from each other, their mean is 1, and
// their limits hold the truth.
func TestScales(t *testing.T) {
	t.Parallel()
	truth := []float64{1 / 0.6, 1, 0.2 / 0.6}
	var held share
	means := make([]float64, 3)
	const many = 40
	for seed := range uint64(many) {
		fit, plain, u, _ := judgedBy(t, seed, 1, 0.6, 0.2)
		sum := 0.0
		for k, j := range fit.Judges {
			sum += j.Scale
			means[k] += j.Scale / many
			held.add(u.Scales[k].Low <= truth[k] && truth[k] <= u.Scales[k].High)
		}
		if math.Abs(sum-3) > 1e-9 || plain.Judges[0].HasScale || !fit.Judges[2].HasScale {
			t.Fatalf("scales %+v, and without the option %+v", fit.Judges, plain.Judges)
		}
	}
	for k, mean := range means {
		if math.Abs(mean-truth[k]) > 0.1 {
			t.Errorf("judge %d has scale %.2f on average, want %.2f", k, mean, truth[k])
		}
	}
	if held.rate() < 0.9 {
		t.Errorf("limits of scales hold the truth in %.3f", held.rate())
	}
}

// TestCoinFlippingJudge: a judge that answers by chance takes power from the ranking, which
// scales give back.
func TestCoinFlippingJudge(t *testing.T) {
	t.Parallel()
	const many = 40
	var alone, added, weighed int // neighbours told apart
	for seed := range uint64(many) {
		fit, plain, u, without := judgedBy(t, seed, 1, 0)
		_, _, _, one := judgedBy(t, seed, 1)
		for i := range 4 {
			for _, c := range []struct {
				u    *Uncertainty
				told *int
			}{{u, &weighed}, {without, &added}, {one, &alone}} {
				if c.u.ahead(i+1, i, ofPair) == 1 {
					*c.told++
				}
			}
		}
		if fit.Judges[1].Scale > 0.8 || len(plain.Abilities) != 5 {
			t.Errorf("the coin has scale %.2f", fit.Judges[1].Scale)
		}
	}
	t.Logf("of %d neighbours, one judge tells %d apart, with a coin %d, weighed %d", 4*many, alone, added, weighed)
	if added >= alone || weighed < (alone+added)/2 {
		t.Errorf("of %d neighbours, one judge tells %d apart, with a coin %d, weighed %d", 4*many, alone, added, weighed)
	}
}

// TestScalesWithoutNeed: of one judge, and of two that are alike, scales change next to
// nothing.
func TestScalesWithoutNeed(t *testing.T) {
	t.Parallel()
	fit, plain, _, _ := judgedBy(t, 3, 1)
	if fit.Judges[0].HasScale || fit.Abilities[0] != plain.Abilities[0] {
		t.Errorf("one judge: %+v", fit.Judges[0])
	}
	fit, plain, _, _ = judgedBy(t, 3, 1, 1)
	for i, ability := range fit.Abilities {
		if math.Abs(ability-plain.Abilities[i]) > 0.1 {
			t.Errorf("candidate %d: %.3f, without scales %.3f", i, ability, plain.Abilities[i])
		}
	}
	// Ties, lengths and a judge that gave no verdict.
	games := tournament(1, 4, 400, 1, 0.4)
	for k := range games {
		games[k].Judge, games[k].Longer = int32(k%2)*2, float64(k%7)-3
	}
	fit, err := FromObserved(4, 3, games, Options{OrderEffect: true, Scales: true})
	if err != nil || fit.Judges[1].HasScale || !fit.HasLength || math.Abs(fit.Judges[0].Scale+fit.Judges[2].Scale-2) > 1e-9 {
		t.Errorf("%v, %+v", err, fit)
	}
}
