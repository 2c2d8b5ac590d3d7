package rank

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// stopping are evaluations that end when it is known who the best are.
type stopping struct {
	evaluations
	until Until
	few   int  // simulated without -full; 0: none
	naive bool // every look has all of the chance to be wrong
}

// ended is how one evaluation ended: after how many of its pairs, and whether the
// candidates that it called the best are.
type ended struct {
	claimed, right bool
	pairs, of      int
}

func (s stopping) run(t *testing.T, seed uint64) ended {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 80))
	abilities := s.abilities(random)
	observed := s.observed(random, abilities)
	_, highest := s.ranks(abilities)
	pairs := shuffled(random, observed)
	rule := s.until
	rule.Candidates = s.candidates
	var so []Observed
	looks := 0
	for k, pair := range pairs {
		so = append(so, pair...)
		look := rule.Look(k + 1)
		if s.naive && k+1 >= rule.Pairs(1) {
			look = k + 1
		}
		if look == looks {
			continue
		}
		looks = look
		fit, err := FromObserved(s.candidates, len(s.judges), slices.Clone(so), s.options())
		if err != nil {
			t.Fatal(err)
		}
		how := Drawing{Draws: 1, Seed: seed, Joint: rule.Level(look)}
		if s.naive {
			how.Joint = 0
		}
		u, err := fit.Uncertainty(t.Context(), so, how)
		if err != nil {
			t.Fatal(err)
		}
		if best, known := u.Top(rule.Top); known {
			right := !slices.ContainsFunc(best, func(i int) bool { return highest[i] > rule.Top })
			return ended{claimed: true, right: right, pairs: k + 1, of: len(pairs)}
		}
	}
	return ended{pairs: len(pairs), of: len(pairs)}
}

// shuffled are the verdicts of each pair of texts, the pairs of all items in a random order.
func shuffled(random *rand.Rand, observed []Observed) [][]Observed {
	type pair struct{ cluster, low, high int32 }
	place := map[pair]int{}
	var pairs [][]Observed
	for _, o := range observed {
		key := pair{o.Cluster, min(o.First, o.Second), max(o.First, o.Second)}
		k, known := place[key]
		if !known {
			k = len(pairs)
			place[key], pairs = k, append(pairs, nil)
		}
		pairs[k] = append(pairs[k], o)
	}
	random.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
	return pairs
}

// TestLooks: looks follow at growing distances, and together they spend no more than the chance
// of a false claim.
func TestLooks(t *testing.T) {
	t.Parallel()
	for confidence, chance := range map[float64]float64{0: 0.05, 0.95: 0.05, 0.8: 0.2} {
		rule, spent, looks := Until{Candidates: 3, Top: 1, Confidence: confidence}, 0.0, 0
		for pairs := range 100_000 {
			look := rule.Look(pairs)
			if look < looks || look > looks+1 || pairs < 10 && look > 0 {
				t.Fatalf("look %d after look %d with %d pairs", look, looks, pairs)
			}
			if look > looks {
				looks = look
				spent += rule.Level(look)
			}
		}
		if spent > chance || spent < chance*0.9 || looks < 15 || looks > 30 {
			t.Errorf("%d looks spend %.4f of %v", looks, spent, chance)
		}
	}
	for _, wrong := range []Until{{}, {Top: -1}, {Top: 3}, {Top: 1, Confidence: 1}, {Top: 1, Confidence: -1}, {Top: 1, Confidence: math.NaN()}} {
		if wrong.Candidates = 3; wrong.Check() == nil {
			t.Errorf("%+v is accepted", wrong)
		}
	}
	if err := (Until{Candidates: 3, Top: 2}).Check(); err != nil {
		t.Error(err)
	}
}

// TestTop: the best are known if bounds of ranks leave no others, and only then; never of
// candidates that were not compared.
func TestTop(t *testing.T) {
	t.Parallel()
	var games []Observed
	for item := range 12 {
		for i := range 4 {
			for j := i + 1; j < 4; j++ {
				if i/2 == j/2 { // 0 and 1 are equals, and so are 2 and 3
					games = append(games, game(item, i, j, FirstWins), game(item, j, i, FirstWins))
				} else {
					games = append(games, game(item, i, j, FirstWins), game(item, j, i, SecondWins))
				}
			}
		}
	}
	_, u := estimated(t, 4, games, Options{OrderEffect: true}, Drawing{Draws: 1})
	if best, known := u.Top(2); !known || !slices.Equal(slices.Sorted(slices.Values(best)), []int{0, 1}) {
		t.Errorf("the best two: %v, known %t", best, known)
	}
	for _, k := range []int{1, 3} {
		if best, known := u.Top(k); known {
			t.Errorf("the best %d are said to be %v", k, best)
		}
	}
	_, u = estimated(t, 5, games, Options{OrderEffect: true}, Drawing{Draws: 1})
	if _, known := u.Top(2); known {
		t.Error("the best two are known beside a candidate that was not compared")
	}
	// With less chance to be wrong, the same verdicts say less.
	if _, u := estimated(t, 4, games, Options{OrderEffect: true}, Drawing{Draws: 1, Joint: 1e-6}); u.RankHigh[0] != 4 {
		t.Errorf("rank up to %d at a level of one in a million", u.RankHigh[0])
	}
}

// TestUntil: evaluations that end as soon as the best are known, although after every pair it
// is asked whether they are, name others in at most 5 of 100. With -full these are 1,000 of
// each row.
func TestUntil(t *testing.T) {
	t.Parallel()
	judges := []simulatedJudge{{scale: 1, order: 0.6}, {scale: 1, order: -0.2}}
	one := judges[:1]
	for _, s := range []stopping{
		{evaluations{name: "2 equal candidates, top 1, 100 items", candidates: 2, items: 100, judges: judges, luck: 0.5}, Until{Top: 1}, 40, false},
		{evaluations{name: "6 equal candidates, top 1, 60 items", candidates: 6, items: 60, judges: one, luck: 0.5}, Until{Top: 1}, 0, false},
		{evaluations{name: "6 equal candidates, top 3, 60 items", candidates: 6, items: 60, judges: one, luck: 0.5}, Until{Top: 3}, 0, false},
		{evaluations{name: "3 pairs of equals 1.5 apart, top 3, 60 items", candidates: 6, apart: 1.5, alike: 2, items: 60, judges: one, luck: 0.5}, Until{Top: 3}, 4, false},
		{evaluations{name: "3 pairs of equals 4 apart, top 3, 60 items", candidates: 6, apart: 4, alike: 2, items: 60, judges: one, luck: 0.5}, Until{Top: 3}, 0, false},
		{evaluations{name: "6 candidates 1 apart, top 3, 60 items", candidates: 6, apart: 1, items: 60, judges: one, luck: 0.5}, Until{Top: 3}, 4, false},
		{evaluations{name: "6 candidates .3 apart, top 3, 100 items", candidates: 6, apart: 0.3, items: 100, judges: one, luck: 0.5}, Until{Top: 3}, 0, false},
		{evaluations{name: "16 candidates, top 3, 120 pairs, by pair", candidates: 16, drawn: true, items: 1, judges: judges, luck: 0.5}, Until{Top: 3}, 0, false},
		{evaluations{name: "2 equal candidates, top 1, 100 items, no spending", candidates: 2, items: 100, judges: judges, luck: 0.5}, Until{Top: 1}, 0, true},
		{evaluations{name: "6 candidates 1 apart, top 3, 20 items, two judges", candidates: 6, apart: 1, items: 20, judges: judges, luck: 0.5}, Until{Top: 3}, 0, false},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			if s.few == 0 && !*full {
				t.Skip("takes long: -full")
			}
			evaluations, most := s.few, 0.08 // of so few evaluations: that nothing is wrong by far
			if *full {
				evaluations = *evaluationsFlag
				most = 0.05 + 3*math.Sqrt(0.05*0.95/float64(evaluations))
			}
			var wrong, claims share
			used := 0.0
			for seed := range uint64(evaluations) {
				end := s.run(t, seed)
				claims.add(end.claimed)
				wrong.add(end.claimed && !end.right)
				used += float64(end.pairs) / float64(end.of) / float64(evaluations)
			}
			t.Logf("| %s | %.3f | %.3f | %.3f |", s.name, claims.rate(), wrong.rate(), used)
			if !s.naive && wrong.rate() > most {
				t.Errorf("%.3f of %d evaluations name others than the best, want at most %.3f", wrong.rate(), evaluations, most)
			}
		})
	}
}
