package rank

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTiers: three equals that beat three others in every item are a tier of their own, and
// apart from the second tier. Only these three may be the best.
func TestTiers(t *testing.T) {
	t.Parallel()
	_, u := estimated(t, 6, threeAndThree(7), Options{OrderEffect: true}, Drawing{})
	want := [][]Tier{{{Candidates: []int{0, 1, 2}, Apart: true}, {Candidates: []int{3, 4, 5}, Apart: true}}}
	if diff := cmp.Diff(want, u.Tiers); diff != "" {
		t.Error(diff)
	}
	if want := []bool{true, true, true, false, false, false}; !slices.Equal(u.Contenders, want) {
		t.Errorf("contenders %v", u.Contenders)
	}
	_, u = estimated(t, 6, threeAndThree(3), Options{OrderEffect: true}, Drawing{})
	if len(u.Tiers[0]) != 1 || slices.Contains(u.Contenders, false) {
		t.Errorf("of three items: %v, contenders %v", u.Tiers, u.Contenders)
	}
}

// threeAndThree are verdicts on six candidates, the first three of which beat the others. The
// candidates of each half beat each other in a circle.
func threeAndThree(items int) []Observed {
	var games []Observed
	for item := range items {
		for i := range 3 {
			for j := 3; j < 6; j++ {
				games = append(games, game(item, i, j, FirstWins), game(item, j, i, SecondWins))
			}
		}
		for _, pair := range [][2]int{{0, 1}, {1, 2}, {2, 0}, {3, 4}, {4, 5}, {5, 3}} {
			games = append(games, game(item, pair[0], pair[1], FirstWins), game(item, pair[1], pair[0], SecondWins))
		}
	}
	return games
}

// TestTiersFollowFromClaims: in evaluations of all kinds, tiers are what their comment says, and no two numbers contradict
// each other. Contenders are those that no test excludes or, with few candidates, no bounds of ranks. A candidate whose rank
// can only be 1 is the only contender. Contenders have 95 % of P(best).
func TestTiersFollowFromClaims(t *testing.T) {
	t.Parallel()
	several, apart, alone := 0, 0, 0
	for k, e := range slices.Repeat(simulations(), 3) {
		if e.candidates > 60 || k >= len(simulations()) && e.candidates > 8 {
			continue
		}
		random := rand.New(rand.NewPCG(uint64(k), 8))
		observed := e.observed(random, e.abilities(random))
		fit, err := FromObserved(e.candidates, len(e.judges), observed, e.options())
		if err != nil {
			t.Fatal(err)
		}
		u, err := fit.Uncertainty(t.Context(), observed, Drawing{Draws: 500})
		if err != nil {
			t.Fatal(err)
		}
		better := func(i, j int) bool { return u.ahead(i, j, ofAll) == 1 }

		for c, tiers := range u.Tiers {
			var all []int
			for at, tier := range tiers {
				all = append(all, tier.Candidates...)
				for _, i := range tier.Candidates {
					if u.RankLow[i] < at+1 || slices.ContainsFunc(tier.Candidates, func(j int) bool { return better(j, i) }) {
						t.Errorf("%s: %d of tier %d, from rank %d", e.name, i, at+1, u.RankLow[i])
					}
					if at > 0 && !slices.ContainsFunc(tiers[at-1].Candidates, func(j int) bool { return better(j, i) }) {
						t.Errorf("%s: %d of tier %d, and none of the tier above is better", e.name, i, at+1)
					}
				}
			}
			if got := slices.Sorted(slices.Values(all)); !slices.Equal(got, fit.Components[c].Candidates) {
				t.Errorf("%s: tiers of %v, want %v", e.name, got, fit.Components[c].Candidates)
			}
			for at, above := range tiers {
				each := true
				for _, i := range slices.Concat(candidatesOf(tiers[:at]), above.Candidates) {
					for _, j := range candidatesOf(tiers[at+1:]) {
						each = each && better(i, j)
					}
				}
				if each != above.Apart {
					t.Errorf("%s: tier %d is apart: %t, want %t", e.name, at+1, above.Apart, each)
				}
				if above.Apart && at+1 < len(tiers) {
					apart++
				}
			}
			if len(tiers) > 1 {
				several++
			}
		}

		for i, contender := range u.Contenders {
			few := len(fit.Components[fit.component[i]].Candidates) <= FewCandidates
			if open := u.RankLow[i] == 1 && (few || u.MarginalLow[i] == 1); contender != open {
				t.Errorf("%s: %d may be the best: %t, with ranks from %d, and %d alone", e.name, i, contender, u.RankLow[i], u.MarginalLow[i])
			}
			if u.RankHigh[i] == 1 && len(fit.Components) == 1 {
				alone++
				if slices.Contains(slices.Delete(slices.Clone(u.Contenders), i, i+1), true) || !contender || u.Best[i] < 0.95-1e-9 {
					t.Errorf("%s: %d is the best, contenders %v, P(best) %v", e.name, i, u.Contenders, u.Best)
				}
			}
		}
		sum, whole := 0.0, 0.0
		for i, p := range u.Best {
			whole += p
			if u.Contenders[i] {
				sum += p
			}
		}
		if len(fit.Components) == 1 && (sum < 0.95-1e-9 || whole < 1-1e-9 || whole > 1+1e-9) {
			t.Errorf("%s: contenders have P(best) %.3f of %.3f", e.name, sum, whole)
		}
	}

	if several < 10 || apart < 3 || alone < 2 {
		t.Errorf("only %d rankings of several tiers, %d apart, and %d with a certain first", several, apart, alone)
	}
}

func candidatesOf(tiers []Tier) (all []int) {
	for _, tier := range tiers {
		all = append(all, tier.Candidates...)
	}
	return all
}

// TestBestOfAPerfectRecord: a candidate that won 20 of 20 comparisons is ahead at 95 %, and its
// probability to be the best is not less. By normal errors it would be .88 of two candidates.
func TestBestOfAPerfectRecord(t *testing.T) {
	t.Parallel()
	for _, wins := range []int{6, 20} {
		_, u := estimated(t, 2, perfect(wins), Options{}, Drawing{})
		if u.RankHigh[0] != 1 || u.Best[0] < 0.95-1e-9 || u.Best[0]+u.Best[1] > 1+1e-9 {
			t.Errorf("%d wins: rank up to %d, P(best) %v", wins, u.RankHigh[0], u.Best)
		}
	}
	if _, u := estimated(t, 2, perfect(5), Options{}, Drawing{}); u.RankHigh[0] != 2 || u.Best[0] > 0.95 {
		t.Errorf("5 wins: rank up to %d, P(best) %v", u.RankHigh[0], u.Best)
	}
}

// TestContendersOfManyLooks: with a lower error probability, as for one of many looks, contenders
// are those that the tests at that level do not exclude.
func TestContendersOfManyLooks(t *testing.T) {
	t.Parallel()
	games := tournament(3, 12, 1500, 1, 0.3)
	fit, few := estimated(t, 12, games, Options{}, Drawing{Joint: 1e-9})
	_, more := estimated(t, 12, games, Options{}, Drawing{Joint: 0.5})
	wider := 0
	for i := range 12 {
		if few.Contenders[i] != (few.RankLow[i] == 1) || more.Contenders[i] != (more.MarginalLow[i] == 1) {
			t.Errorf("%d: %t with ranks from %d, %t with ranks from %d alone", i, few.Contenders[i], few.RankLow[i], more.Contenders[i], more.MarginalLow[i])
		}
		if few.Contenders[i] && !more.Contenders[i] {
			wider++
		}
	}
	if wider == 0 || !few.Contenders[fit.inOrder(0)[0]] {
		t.Errorf("contenders %v, and %v at a higher level", few.Contenders, more.Contenders)
	}
}

// TestNarrowings: after as many more items as are said, half of the evaluations have at most half
// of their contenders left.
func TestNarrowings(t *testing.T) {
	t.Parallel()
	const many, n = 20, 30
	fewer := 0
	for seed := range uint64(many) {
		random := rand.New(rand.NewPCG(seed, 99))
		e := evaluations{candidates: n, drawn: true, items: 20, pairs: n, judges: []simulatedJudge{{scale: 1}}, luck: 0.5}
		abilities := e.abilities(random)
		count := func() (Narrowing, int) {
			observed := e.observed(random, abilities)
			fit, err := FromObserved(n, 1, observed, e.options())
			if err != nil {
				t.Fatal(err)
			}
			u, err := fit.Uncertainty(t.Context(), observed, Drawing{Draws: 100})
			if err != nil {
				t.Fatal(err)
			}
			left := 0
			for _, one := range u.Contenders {
				if one {
					left++
				}
			}
			return u.Narrowings()[0], left
		}

		before, contenders := count()
		if before.Contenders != contenders || before.Left != (contenders+1)/2 || before.Clusters != 20 || (before.More == 0) != (contenders == 1) {
			t.Fatalf("%+v of %d contenders", before, contenders)
		}
		e.items += int(min(before.More, 500))
		if _, left := count(); left <= before.Left {
			fewer++
		}
	}
	if fewer < many*2/5 {
		t.Errorf("at most half are left in %d of %d evaluations", fewer, many)
	}
}
