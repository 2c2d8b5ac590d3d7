package rank

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// tournament is games of candidates whose abilities are step apart, copies of each
// in one cluster.
func tournament(seed uint64, n, games, copies int, step float64) []Observed {
	random := rand.New(rand.NewPCG(seed, 0))
	var all []Observed
	for cluster := range games {
		i, j := random.IntN(n), random.IntN(n-1)
		if j >= i {
			j++
		}
		outcome := SecondWins
		if random.Float64() < 1/(1+math.Exp(step*float64(i-j))) {
			outcome = FirstWins
		}
		if random.IntN(20) == 0 {
			outcome = Tied
		}
		for range copies {
			all = append(all, game(cluster, i, j, outcome))
		}
	}
	return all
}

// game is one verdict.
func game(cluster, first, second int, outcome Outcome) Observed {
	o := Observed{Cluster: int32(cluster), First: int32(first), Second: int32(second)}
	switch outcome {
	case FirstWins:
		o.FirstWins = 1
	case SecondWins:
		o.SecondWins = 1
	case Tied:
		o.Ties = 1
	}
	return o
}

// estimated fits the verdicts of one judge.
func estimated(t *testing.T, n int, games []Observed, options Options, how Drawing) (*Fit, *Uncertainty) {
	t.Helper()
	fit, err := FromObserved(n, 1, slices.Clone(games), options)
	if err != nil {
		t.Fatal(err)
	}
	u, err := fit.Uncertainty(t.Context(), games, how)
	if err != nil {
		t.Fatal(err)
	}
	return fit, u
}

// TestIndependentGames: where every game is a cluster of its own, errors are those of
// the fit.
func TestIndependentGames(t *testing.T) {
	t.Parallel()
	fit, u := estimated(t, 6, tournament(1, 6, 3000, 1, 0.4), Options{}, Drawing{Seed: 7})
	for i := range 6 {
		if ratio := u.Abilities[i].SE / fit.se(i); math.Abs(ratio-1) > 0.1 {
			t.Errorf("candidate %d: the error is %.3f of the fit's", i, ratio)
		}
	}
	if u.Clusters != 3000 || u.Draws != 2000 {
		t.Errorf("%d clusters, %d draws", u.Clusters, u.Draws)
	}
	if one, other := u.Beats(2, 3), u.Beats(3, 2); math.Abs(one+other-1) > 1e-12 || !(one > 0.9) {
		t.Errorf("one beats the other in %v and is beaten in %v", one, other)
	}
	sum := 0.0
	for _, p := range u.Best {
		sum += p
	}
	if math.Abs(sum-1) > 1e-9 || u.Best[0] < 0.95 {
		t.Errorf("probabilities to be the best %v", u.Best)
	}
}

// TestClustersStayTogether: the same verdict four times over is one piece of evidence.
// Errors that take verdicts as independent halve, those by cluster stay.
func TestClustersStayTogether(t *testing.T) {
	t.Parallel()
	once, one := estimated(t, 5, tournament(2, 5, 800, 1, 0.3), Options{}, Drawing{})
	four, other := estimated(t, 5, tournament(2, 5, 800, 4, 0.3), Options{}, Drawing{})
	for i := range 5 {
		if own := four.se(i) / once.se(i); math.Abs(own-0.5) > 0.01 {
			t.Errorf("candidate %d: the fit's errors are %.3f of those before", i, own)
		}
		if by := other.Abilities[i].SE / one.Abilities[i].SE; math.Abs(by-1) > 1e-6 {
			t.Errorf("candidate %d: errors by cluster are %.6f of those before", i, by)
		}
	}
}

// TestMeanOfItems: of two candidates whose items all have as many verdicts, the error is
// that of a mean of the items' win rates, which is known: their standard deviation over
// √G, and the limits are Student's.
func TestMeanOfItems(t *testing.T) {
	t.Parallel()
	wins := []int{7, 5, 9, 4, 8, 6}
	var games []Observed
	mean, squares := 0.0, 0.0
	for k, won := range wins {
		games = append(games, Observed{Cluster: int32(k), First: 0, Second: 1, FirstWins: int32(won), SecondWins: int32(10 - won)})
		mean += float64(won) / 60
	}
	for _, won := range wins {
		squares += (float64(won)/10 - mean) * (float64(won)/10 - mean)
	}
	_, u := estimated(t, 2, games, Options{}, Drawing{})
	want := math.Sqrt(squares/5/6) / (mean * (1 - mean)) // the delta method: a logit's slope
	difference, limits, _ := u.Contrast(0, 1)
	if !near(limits.SE, want, 1e-9) || !near(difference, math.Log(mean/(1-mean)), 1e-9) {
		t.Errorf("%.9f with error %.9f, want %.9f", difference, limits.SE, want)
	}
	const student5 = 2.570581836
	if !near(limits.High, difference+student5*want, 1e-6) {
		t.Errorf("the upper limit is %.6f, want %.6f", limits.High, difference+student5*want)
	}
}

// TestReproducible: the same digits in any order of games and on any number of
// processors, other draws with another seed.
func TestReproducible(t *testing.T) {
	games := tournament(4, 4, 200, 2, 0.1)
	_, one := estimated(t, 4, games, Options{OrderEffect: true}, Drawing{Draws: 200, Seed: 9})
	random := rand.New(rand.NewPCG(5, 6))
	random.Shuffle(len(games), func(i, j int) { games[i], games[j] = games[j], games[i] })
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	_, other := estimated(t, 4, games, Options{OrderEffect: true}, Drawing{Draws: 200, Seed: 9})
	if diff := cmp.Diff(one, other, cmpopts.IgnoreUnexported(Uncertainty{})); diff != "" {
		t.Errorf("same games and seed, other results:\n%s", diff)
	}
	if _, third := estimated(t, 4, games, Options{OrderEffect: true}, Drawing{Draws: 200, Seed: 10}); slices.Equal(third.Best, one.Best) {
		t.Error("another seed draws the same")
	}
}

// perfect is a record of wins, each shown in both orders in an item.
func perfect(items int) []Observed {
	var games []Observed
	for k := range items {
		games = append(games, game(k, 0, 1, FirstWins), game(k, 1, 0, SecondWins))
	}
	return games
}

// TestFewItems: a few items that happen to be alike make nothing more certain than the verdicts' own number, and one item
// alone says nothing about others.
func TestFewItems(t *testing.T) {
	t.Parallel()
	for items := range 5 {
		var observed []Observed
		for item := range items + 1 {
			for k := range 8 {
				observed = append(observed, game(item, 0, 1, Outcome(min(k%4, 1))), game(item, 1, 0, Outcome(1-min(k%4, 1))))
			}
			observed = append(observed, game(item, 0, 1, Outcome(item%2)), game(item, 1, 0, Outcome(item%2)))
		}
		fit, u := estimated(t, 2, observed, Options{OrderEffect: true}, Drawing{Draws: 1})
		own := math.Sqrt(fit.covariance.At(0, 0))
		switch limits := u.Abilities[0]; {
		case items == 0 && (!math.IsNaN(limits.SE) || !math.IsNaN(u.Orders[0].Low) || !math.IsNaN(u.Beats(0, 1))):
			t.Errorf("one item: %v, order effect %v, better with probability %v", limits, u.Orders[0], u.Beats(0, 1))
		case items > 0 && items+1 < fewClusters && limits.SE < own:
			t.Errorf("%d items: an error of %v, and of independent verdicts %v", items+1, limits.SE, own)
		case items+1 >= fewClusters && limits.SE > own:
			t.Errorf("%d items that are alike: an error of %v, not below %v", items+1, limits.SE, own)
		}
	}
}

// TestPerfectRecord: the size of a lead that no verdict contradicts is the prior's, so its
// error is at least the fit's; that there is one is said by a sign test of items.
func TestPerfectRecord(t *testing.T) {
	t.Parallel()
	for items, ahead := range map[int]bool{3: false, 5: false, 6: true, 10: true, 15: true, 30: true} {
		fit, u := estimated(t, 2, perfect(items), Options{OrderEffect: true}, Drawing{})
		_, own, _ := fit.Contrast(0, 1)
		_, limits, _ := u.Contrast(0, 1)
		if limits.SE < own-1e-9 || own < 1 || u.Abilities[0].SE < own/2-1e-9 || u.Abilities[0].Low > u.Abilities[0].High-2 {
			t.Errorf("%d to 0: error %.3f, the fit's %.3f, ability %+v", 2*items, limits.SE, own, u.Abilities[0])
		}
		if p := u.Beats(0, 1); !(p > 0.7 && p < 1) || !(u.Best[0] > 0.7) {
			t.Errorf("%d to 0: better with probability %v, the best with %v", 2*items, p, u.Best[0])
		}
		if got := u.RankHigh[0] == 1; got != ahead || (u.RankLow[1] == 2) != ahead {
			t.Errorf("%d to 0 in %d items: ahead %t, want %t", 2*items, items, got, ahead)
		}
	}
	// In one order, the record may be the position's.
	var oneOrder []Observed
	for k := range 30 {
		oneOrder = append(oneOrder, game(k, 0, 1, FirstWins))
	}
	if _, u := estimated(t, 2, oneOrder, Options{OrderEffect: true}, Drawing{}); u.RankHigh[0] != 2 || !math.IsNaN(u.Best[0]) {
		t.Errorf("30 to 0 in one order: rank up to %d, the best with %v", u.RankHigh[0], u.Best[0])
	}
	if _, u := estimated(t, 2, oneOrder, Options{}, Drawing{}); u.RankHigh[0] != 1 {
		t.Error("30 to 0 by people, who see no order: not ahead")
	}
}

// TestLimitsBeyondThePrior: of 16 candidates 1.5 apart, many are separated, and the prior that
// holds them shrinks all differences by a third. Limits hold the truth nevertheless, also of
// one candidate that is far better than seven equals, and of judges' order effects. Limits
// around the shrunk estimates alone, extended by the first-order effect of the prior, hold in
// .81 of the former's differences and in .76 of the better one's.
func TestLimitsBeyondThePrior(t *testing.T) {
	t.Parallel()
	judges := []simulatedJudge{{scale: 1, order: 0.6}, {scale: 1, order: -0.2}}
	for _, e := range []evaluations{
		{name: "in line", candidates: 16, apart: 1.5, items: 1, judges: judges, luck: 0.9},
		{name: "one better", candidates: 8, apart: 8, alike: 7, items: 1, judges: judges, luck: 0.9},
	} {
		var apart, together, orders share
		for seed := range uint64(20) {
			random := rand.New(rand.NewPCG(seed, 79))
			abilities := e.abilities(random)
			observed := e.observed(random, abilities)
			fit, err := FromObserved(e.candidates, len(judges), observed, Options{OrderEffect: true})
			if err != nil {
				t.Fatal(err)
			}
			u, err := fit.Uncertainty(t.Context(), observed, Drawing{Draws: 1, flipWork: 1})
			if err != nil {
				t.Fatal(err)
			}
			for i := range e.candidates {
				for j := range i {
					real := abilities[i] - abilities[j]
					_, limits, _ := u.Contrast(i, j)
					hit := limits.Low <= real && real <= limits.High
					if fit.strong[i] == fit.strong[j] {
						together.add(hit)
					} else {
						apart.add(hit)
					}
				}
			}
			for k, order := range u.Orders {
				orders.add(order.Low <= judges[k].order && judges[k].order <= order.High)
			}
		}
		t.Logf("%s: %.3f of %d, %.3f of %d, %.3f of %d", e.name, apart.rate(), apart.of, together.rate(), together.of, orders.rate(), orders.of)
		if apart.rate() < 0.95 || together.rate() < 0.9 || orders.rate() < 0.9 {
			t.Errorf("%s: %.3f of the limits of separated differences hold, %.3f of other differences, %.3f of order effects", e.name, apart.rate(), together.rate(), orders.rate())
		}
	}
}

// TestAlwaysFirstAsListed: a judge that sees nothing but the position ranks candidates in
// the order in which they are listed, and none of them is ahead.
func TestAlwaysFirstAsListed(t *testing.T) {
	t.Parallel()
	for _, candidates := range []int{2, 3, 5} {
		var games []Observed
		for item := range 40 {
			for i := range candidates {
				for j := i + 1; j < candidates; j++ {
					games = append(games, game(item, i, j, FirstWins))
				}
			}
		}
		_, u := estimated(t, candidates, games, Options{OrderEffect: true}, Drawing{})
		for i := range candidates {
			if u.RankLow[i] != 1 || u.RankHigh[i] != candidates || u.MarginalLow[i] != 1 || u.MarginalHigh[i] != candidates {
				t.Errorf("%d candidates: %d ranks %d to %d", candidates, i, u.RankLow[i], u.RankHigh[i])
			}
		}
	}
}

// TestBaselineAsListed: against a baseline that is always shown first, the others are
// compared with each other but not with it.
func TestBaselineAsListed(t *testing.T) {
	t.Parallel()
	var games []Observed
	for item := range 40 {
		for other, every := range []int{2, 8} { // how seldom it wins
			outcome := FirstWins
			if item%every == 0 {
				outcome = SecondWins
			}
			games = append(games, game(item, 0, 1+other, outcome))
		}
	}
	fit, u := estimated(t, 3, games, Options{OrderEffect: true}, Drawing{})
	if !fit.Judges[0].Confounded || u.RankHigh[0] != 3 || !math.IsNaN(u.Beats(0, 2)) || !math.IsNaN(u.Best[0]) {
		t.Errorf("the baseline: %+v, rank up to %d", fit.Judges[0], u.RankHigh[0])
	}
	if u.ahead(1, 2, ofAll) != 1 || !(u.Beats(1, 2) > 0.99) {
		t.Errorf("two that were shown alike: better with probability %v", u.Beats(1, 2))
	}
}

// TestOnlyLink: a pair that alone relates two halves of the candidates is followed by
// the fit exactly; errors across it are at least the fit's.
func TestOnlyLink(t *testing.T) {
	t.Parallel()
	games := tournament(6, 3, 300, 1, 0.2)
	for _, g := range tournament(7, 3, 300, 1, 0.2) {
		g.First, g.Second, g.Cluster = g.First+3, g.Second+3, g.Cluster+1000
		games = append(games, g)
	}
	for k := range 6 {
		games = append(games, game(5000, 0, 3, Outcome(k%2)))
	}
	fit, u := estimated(t, 6, games, Options{}, Drawing{})
	_, own, _ := fit.Contrast(1, 4)
	if _, limits, _ := u.Contrast(1, 4); limits.SE < own-1e-9 || own < 0.5 {
		t.Errorf("across the link the error is %.3f, the fit's %.3f", limits.SE, own)
	}
}

// TestUncertainComponents: nothing relates candidates that were never compared, not even
// through others.
func TestUncertainComponents(t *testing.T) {
	t.Parallel()
	var games []Observed
	for _, g := range tournament(6, 3, 200, 1, 0.4) {
		apart := g
		apart.First, apart.Second, apart.Cluster = g.First+3, g.Second+3, g.Cluster+1000
		games = append(games, g, apart)
	}
	_, u := estimated(t, 7, games, Options{}, Drawing{Draws: 300})
	if !math.IsNaN(u.Beats(0, 4)) || math.IsNaN(u.Beats(0, 1)) {
		t.Errorf("between components %v, within %v", u.Beats(0, 4), u.Beats(0, 1))
	}
	if u.RankHigh[2] > 3 || u.RankHigh[6] != 1 || math.Abs(u.Best[0]+u.Best[1]+u.Best[2]-1) > 1e-9 || math.Abs(u.Best[3]+u.Best[4]+u.Best[5]-1) > 1e-9 {
		t.Errorf("ranks up to %d of 3 and %d of 1, the best with %v", u.RankHigh[2], u.RankHigh[6], u.Best)
	}
}

func TestUncertaintyRefuses(t *testing.T) {
	t.Parallel()
	games := []Observed{game(0, 0, 1, FirstWins), game(1, 1, 0, FirstWins)}
	fit, u := estimated(t, 2, games, Options{}, Drawing{})
	if u.Clusters != 2 {
		t.Errorf("%d clusters", u.Clusters)
	}
	for name, other := range map[string][]Observed{
		"fewer verdicts":       games[:1],
		"another verdict":      {games[0], game(1, 0, 1, FirstWins)},
		"another candidate":    {games[0], game(1, 2, 0, FirstWins)},
		"one candidate, twice": {games[0], game(1, 1, 1, FirstWins)},
	} {
		if _, err := fit.Uncertainty(t.Context(), other, Drawing{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := fit.Uncertainty(t.Context(), games, Drawing{Draws: MaxDraws + 1}); err == nil {
		t.Error("too many draws: no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := fit.Uncertainty(ctx, games, Drawing{}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
	if _, none := estimated(t, 0, nil, Options{}, Drawing{}); none.Clusters != 0 {
		t.Errorf("of nothing: %+v", none)
	}
}

// TestLeadByLuck: of eight candidates that are nearly equal, the first is rarely said to be
// the best with a probability of .8 or more, and on average about as often as it is.
func TestLeadByLuck(t *testing.T) {
	t.Parallel()
	e := evaluations{candidates: 8, apart: 0.05, items: 30, judges: []simulatedJudge{{scale: 1, order: 0.6}, {scale: 1, order: -0.2}}, luck: 0.5}
	const many = 60
	bold, said, best := 0, 0.0, 0.0
	for seed := range uint64(many) {
		random := rand.New(rand.NewPCG(seed, 77))
		observed := e.observed(random, e.abilities(random))
		fit, err := FromObserved(e.candidates, len(e.judges), observed, Options{OrderEffect: true})
		if err != nil {
			t.Fatal(err)
		}
		u, err := fit.Uncertainty(t.Context(), observed, Drawing{Draws: 300})
		if err != nil {
			t.Fatal(err)
		}
		first := fit.Standings()[0].Candidate
		said += u.Best[first] / many
		if u.Best[first] >= 0.8 {
			bold++
		}
		if first == e.candidates-1 {
			best += 1. / many
		}
	}
	if bold > 6 || said > best+0.1 {
		t.Errorf("said %.2f, true %.2f; %d of %d of .8 or more", said, best, bold, many)
	}
}
