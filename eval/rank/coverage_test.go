package rank

import (
	"math"
	"math/rand/v2"
	"testing"
)

// simulated are verdicts on candidates whose abilities are known, by judges whose
// preference for the text shown first is known. Every text has luck beside its
// candidate's ability, drawn so that the odds are exactly Bradley–Terry's (the
// difference of two Gumbel variables is logistic: Yellott 1977, "The relationship
// between Luce's choice axiom, Thurstone's theory of comparative judgment, and the
// double exponential distribution"). In half of the verdicts the judge sees that luck,
// which both orders, all judges and all pairs of an item then share; in the others it
// sees noise of its own.
func simulated(random *rand.Rand, abilities, orders []float64, items, pairs int) []Observed {
	n := len(abilities)
	gumbel := func() float64 { return -math.Log(-math.Log(random.Float64())) }
	var observed []Observed
	for item := range items {
		luck := make([]float64, n)
		for i := range luck {
			luck[i] = gumbel()
		}
		chosen := random.Perm(n * (n - 1) / 2)[:pairs]
		for _, pair := range chosen {
			i, j := pairAt(n, pair)
			cluster := item
			if items == 1 { // then every pair has texts of its own
				cluster, luck[i], luck[j] = pair, gumbel(), gumbel()
			}
			for judge, order := range orders {
				for _, shown := range [2][2]int{{i, j}, {j, i}} {
					first, second := luck[shown[0]], luck[shown[1]]
					if random.IntN(2) == 0 {
						first, second = gumbel(), gumbel()
					}
					outcome := SecondWins
					if abilities[shown[0]]+first+order > abilities[shown[1]]+second {
						outcome = FirstWins
					}
					one := game(cluster, shown[0], shown[1], outcome)
					one.Judge = int32(judge)
					observed = append(observed, one)
				}
			}
		}
	}
	return observed
}

// pairAt is the k-th of all pairs.
func pairAt(n, k int) (i, j int) {
	for k >= n-1-i {
		k -= n - 1 - i
		i++
	}
	return i, i + 1 + k
}

// covered counts how often what is known lies in what is said.
type covered struct{ abilities, naive, ranks, orders, of, ofOrders int }

func (c *covered) share(n int) float64 { return float64(n) / float64(c.of) }
func (c *covered) orderShare() float64 { return float64(c.orders) / float64(c.ofOrders) }
func (c *covered) add(t *testing.T, seed uint64, items, pairs, resamples int) {
	t.Helper()
	const candidates = 30
	random := rand.New(rand.NewPCG(seed, 77))
	abilities, mean := make([]float64, candidates), 0.0
	for i := range abilities {
		abilities[i] = random.NormFloat64()
		mean += abilities[i] / candidates
	}
	orders := []float64{0.6, -0.2}
	observed := simulated(random, abilities, orders, items, pairs)
	fit, err := FromObserved(candidates, len(orders), observed, Options{OrderEffect: true})
	if err != nil {
		t.Fatal(err)
	}
	b, err := fit.Bootstrap(t.Context(), observed, Resampling{Resamples: resamples, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range fit.Standings() {
		i := s.Candidate
		truth, better := abilities[i]-mean, 0
		for _, other := range abilities {
			if other > abilities[i] {
				better++
			}
		}
		c.of++
		c.abilities += within(truth, b.Abilities[i].Low, b.Abilities[i].High)
		c.naive += within(truth, s.Low, s.High)
		c.ranks += within(float64(1+better), float64(b.RankLow[i]), float64(b.RankHigh[i]))
	}
	for k, order := range orders {
		c.ofOrders++
		se := b.Orders[k].SE
		c.orders += within(order, fit.Judges[k].Order-2*se, fit.Judges[k].Order+2*se)
	}
}

func within(x, low, high float64) int {
	if x < low || x > high {
		return 0
	}
	return 1
}

// TestCoverage: of many evaluations by simulated judges, 95 % intervals hold the truth
// about 95 times in 100, by pairs and by items, and so do those of judges' preference
// for a position; intervals that take verdicts as independent do not. With -full these
// are 500 evaluations each, and the bounds are tight.
func TestCoverage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		items, pairs int
	}{{"by pair", 1, 435}, {"by item", 50, 30}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			evaluations, resamples, low, high, orders := 5, 100, 0.9, 0.99, 0.8
			if *full {
				evaluations, resamples, low, high, orders = 500, 200, 0.93, 0.97, 0.94
			}
			var c covered
			for seed := range uint64(evaluations) {
				c.add(t, seed, tt.items, tt.pairs, resamples)
			}
			t.Logf("%d evaluations: %.2f %% of abilities, %.2f %% of positions within 2 errors, %.2f %% of ranks; %.2f %% were verdicts independent",
				evaluations, 100*c.share(c.abilities), 100*c.orderShare(), 100*c.share(c.ranks), 100*c.share(c.naive))
			if got := c.share(c.abilities); got < low || got > high {
				t.Errorf("%.4f of the intervals hold the ability, want %.2f to %.3f", got, low, high)
			}
			if got := c.orderShare(); got < orders {
				t.Errorf("%.4f of the preferences lie within two errors, want %.2f", got, orders)
			}
			if naive := c.share(c.naive); *full && naive > low {
				t.Errorf("%.4f of the intervals of independent verdicts hold the ability: the simulation is too easy", naive)
			}
		})
	}
}
