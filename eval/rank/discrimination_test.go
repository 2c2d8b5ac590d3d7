package rank

import (
	"math"
	"math/rand/v2"
	"testing"
)

// judgedBy is one evaluation of five candidates on 40 items by such judges, with and without
// scales.
func judgedBy(t *testing.T, seed uint64, apart float64, scales ...float64) (fit, plain *Fit, u, without *Uncertainty) {
	t.Helper()
	e := evaluations{candidates: 5, apart: apart, items: 40}
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
		fit, plain, u, _ := judgedBy(t, seed, 0.3, 1, 0.6, 0.2)
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

// TestCoinFlippingJudge: one judge tells four pairs of neighbours apart in 34 to 52 % of the
// evaluations. Beside it, a judge that answers by chance takes that down to 16 to 42 %, and
// scales give it back. With -full, the shares of every pair are held against these.
func TestCoinFlippingJudge(t *testing.T) {
	t.Parallel()
	many := 40
	if *full {
		many = 400
	}
	var alone, added, weighed [4]share // of each pair
	sum := func(pairs [4]share) (s share) {
		for _, one := range pairs {
			s.hits, s.of = s.hits+one.hits, s.of+one.of
		}
		return s
	}
	for seed := range uint64(many) {
		fit, _, u, without := judgedBy(t, seed, 0.27, 1, 0)
		_, _, _, one := judgedBy(t, seed, 0.27, 1)
		for i := range 4 {
			alone[i].add(one.ahead(i+1, i, ofPair) == 1)
			added[i].add(without.ahead(i+1, i, ofPair) == 1)
			weighed[i].add(u.ahead(i+1, i, ofPair) == 1)
		}
		if fit.Judges[1].Scale > 0.8 {
			t.Errorf("the coin has scale %.2f", fit.Judges[1].Scale)
		}
	}
	one, coin, scaled := sum(alone).rate(), sum(added).rate(), sum(weighed).rate()
	t.Logf("told apart by one judge %v (%.3f), with a coin %v (%.3f), weighed %v (%.3f)", alone, one, added, coin, weighed, scaled)
	if !(one > 0.34 && one < 0.52) || !(coin > 0.16 && coin < 0.42) || scaled < (one+coin)/2 {
		t.Errorf("one judge tells %.3f of the neighbours apart, with a coin %.3f, weighed %.3f", one, coin, scaled)
	}
	for i := range alone {
		if *full && (alone[i].rate() < 0.34 || alone[i].rate() > 0.52 || added[i].rate() < 0.16 || added[i].rate() > 0.42 || weighed[i].rate() < 0.34) {
			t.Errorf("pair %d: one judge %.3f, with a coin %.3f, weighed %.3f", i, alone[i].rate(), added[i].rate(), weighed[i].rate())
		}
	}
}

// TestScalesWithoutNeed: of one judge, and of two that are alike, scales change next to
// nothing.
func TestScalesWithoutNeed(t *testing.T) {
	t.Parallel()
	fit, plain, _, _ := judgedBy(t, 3, 0.3, 1)
	if fit.Judges[0].HasScale || fit.Abilities[0] != plain.Abilities[0] {
		t.Errorf("one judge: %+v", fit.Judges[0])
	}
	fit, plain, _, _ = judgedBy(t, 3, 0.3, 1, 1)
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
