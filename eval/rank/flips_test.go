package rank

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// inLine are verdicts of candidates in a perfect order: each pair is a cluster, asked in
// both orders.
func inLine(n int) []Observed {
	var games []Observed
	for i := range n {
		for j := i + 1; j < n; j++ {
			games = append(games, game(i*n+j, i, j, FirstWins), game(i*n+j, j, i, SecondWins))
		}
	}
	return games
}

// TestRanksInLine: each of 16 candidates beat all after it, in one comparison per pair.
// Candidates with enough others between them get different ranks. A sign test of the two
// alone gives every candidate the ranks 1 to 16.
func TestRanksInLine(t *testing.T) {
	t.Parallel()
	_, u := estimated(t, 16, inLine(16), Options{OrderEffect: true}, Drawing{})
	for i := range 16 {
		if width := u.RankHigh[i] - u.RankLow[i]; u.RankLow[i] > i+1 || u.RankHigh[i] < i+1 || width > 13 {
			t.Errorf("%d: rank %d to %d", i+1, u.RankLow[i], u.RankHigh[i])
		}
		if u.MarginalLow[i] < u.RankLow[i] || u.MarginalHigh[i] > u.RankHigh[i] {
			t.Errorf("%d: alone %d to %d, together %d to %d", i+1, u.MarginalLow[i], u.MarginalHigh[i], u.RankLow[i], u.RankHigh[i])
		}
	}
	if u.RankHigh[0] > 8 || u.RankLow[15] < 9 || u.ahead(0, 1, ofPair) != 0 || u.ahead(0, 15, ofAll) != 1 {
		t.Errorf("the first has rank up to %d, the last from %d", u.RankHigh[0], u.RankLow[15])
	}
}

// TestFlipsAreASignTest: of two candidates that were compared only with each other, flips
// have the chance of a sign test: 2 of 2^G for G clusters that went one way.
func TestFlipsAreASignTest(t *testing.T) {
	t.Parallel()
	for _, clusters := range []int{3, 6, 10} {
		fit, err := FromObserved(2, 1, perfect(clusters), Options{OrderEffect: true})
		if err != nil {
			t.Fatal(err)
		}
		in, err := fit.influences(perfect(clusters))
		if err != nil {
			t.Fatal(err)
		}
		f, err := fit.flipsOf(t.Context(), []orderedPair{pairOf(0, 1)}, in.verdicts, level, 0)
		if err != nil {
			t.Fatal(err)
		}
		want := math.Exp2(float64(1 - clusters))
		if got := f.claimed([]int{0}, want); len(got) != 1 {
			t.Errorf("%d clusters: nothing claimed at %v", clusters, want)
		}
		if got := f.claimed([]int{0}, want*0.99); len(got) != 0 {
			t.Errorf("%d clusters: claimed at less than %v", clusters, want)
		}
	}
}

// TestJointFlips: candidates of the same luck in every item have the same signs, so that
// what is claimed of many such pairs costs no more than of one.
func TestJointFlips(t *testing.T) {
	t.Parallel()
	_, u := estimated(t, 6, threeAndThree(7), Options{OrderEffect: true}, Drawing{})
	for i := range 6 {
		low, high := 1+i/3*3, 3+i/3*3
		if u.RankLow[i] != low || u.RankHigh[i] != high {
			t.Errorf("%d: rank %d to %d, want %d to %d", i, u.RankLow[i], u.RankHigh[i], low, high)
		}
	}
}

// TestMarginalRanks: the bounds of one candidate's rank hold for it among eight equals. Tests
// that do not count how many they are hold in two of three evaluations.
func TestMarginalRanks(t *testing.T) {
	t.Parallel()
	e := evaluations{candidates: 8, items: 20, judges: []simulatedJudge{{scale: 1}}, luck: 0.5}
	const many = 200
	held := 0
	for seed := range uint64(many) {
		random := rand.New(rand.NewPCG(seed, 78))
		observed := e.observed(random, e.abilities(random))
		fit, err := FromObserved(8, 1, slices.Clone(observed), Options{OrderEffect: true})
		if err != nil {
			t.Fatal(err)
		}
		u, err := fit.Uncertainty(t.Context(), observed, Drawing{Draws: 1})
		if err != nil {
			t.Fatal(err)
		}
		if u.MarginalLow[0] == 1 && u.MarginalHigh[0] == 8 {
			held++
		}
	}
	if held < many*9/10 {
		t.Errorf("the bounds hold in %d of %d evaluations", held, many)
	}
}

// TestLongLine: of many separated candidates only neighbours are tested; that all others
// are apart follows from these. Pairs cost so much that testing all is out of the question.
func TestLongLine(t *testing.T) {
	t.Parallel()
	const n = 50
	games := inLine(n)
	fit, err := FromObserved(n, 1, slices.Clone(games), Options{OrderEffect: true})
	if err != nil {
		t.Fatal(err)
	}
	in, err := fit.influences(games)
	if err != nil {
		t.Fatal(err)
	}
	work := Drawing{Draws: 1, flipWork: 1.5e9}
	if apart := fit.mostApart(fit.inOrder(0), in.verdicts, work); apart < leastApart || apart >= n/2 {
		t.Fatalf("candidates %d apart are tested", apart)
	}
	_, u := estimated(t, n, games, Options{OrderEffect: true}, work)
	for i := range n {
		if width := u.RankHigh[i] - u.RankLow[i]; u.RankLow[i] > i+1 || u.RankHigh[i] < i+1 || width > 24 {
			t.Errorf("%d: rank %d to %d", i+1, u.RankLow[i], u.RankHigh[i])
		}
	}
}

// TestOneWonAll: one of many candidates won all of its verdicts, in whichever order the pair was shown. Only its own pairs
// are tested by flips of signs, so there is time for all of them.
func TestOneWonAll(t *testing.T) {
	t.Parallel()
	const n, items = 45, 21
	random := rand.New(rand.NewPCG(1, 2))
	var games []Observed
	for item := range items {
		for i := range n {
			for j := i + 1; j < n; j++ {
				one, other, outcome := i, j, Outcome(random.IntN(2))
				if i == 0 {
					outcome = FirstWins
				}
				if random.IntN(2) == 0 {
					one, other, outcome = j, i, 1-outcome
				}
				games = append(games, game(item, one, other, outcome))
			}
		}
	}
	_, u := estimated(t, n, games, Options{OrderEffect: true}, Drawing{Draws: 20})
	for i, contender := range u.Contenders {
		if contender != (i == 0) {
			t.Errorf("%d may be the best: %t", i, contender)
		}
	}
	if u.RankHigh[0] != 1 || u.Best[0] < 1-level {
		t.Errorf("rank of the first to %d, P(best) %v", u.RankHigh[0], u.Best[0])
	}
}

// TestSignsSayHowSure: where signs are not flipped, the probability that one is better grows with the items that it won.
func TestSignsSayHowSure(t *testing.T) {
	t.Parallel()
	for items, want := range map[int]float64{5: 0, 6: 1 - math.Exp2(-5), 12: 1 - math.Exp2(-11)} {
		var games []Observed
		for item := range items {
			games = append(games, game(item, 0, 1, FirstWins))
		}
		_, u := estimated(t, 2, games, Options{}, Drawing{Draws: 20, flipWork: 1})
		if p := u.Beats(0, 1); u.parts[0].separated != nil || p < want || (p >= 1-level) != (want > 0) || u.Beats(1, 0) > 1-p+1e-9 {
			t.Errorf("%d items: %v, want at least %v", items, p, want)
		}
	}
}

// TestFarVerdictsAreNoEvidence: one candidate beat six weak ones, and another lost to six
// strong ones. The two never met, and equal abilities between the strong and the weak ones
// contradict no verdict. In the fit with equal abilities, every cluster points in favour of the
// first candidate, each with next to nothing, so a test of signs alone would find it better.
// All together they say less than a single verdict on the two may.
func TestFarVerdictsAreNoEvidence(t *testing.T) {
	t.Parallel()
	const others = 6
	var games []Observed
	both := func(first, second int, outcome, reversed Outcome) {
		games = append(games, game(first*100+second, first, second, outcome), game(first*100+second, second, first, reversed))
	}
	for k := range others {
		strong, weak := 2+k, 2+others+k
		both(0, weak, FirstWins, SecondWins)
		both(strong, 1, FirstWins, SecondWins)
		for l := range k { // the strong ones are equals, and so are the weak ones
			both(strong, 2+l, FirstWins, FirstWins)
			both(weak, 2+others+l, FirstWins, FirstWins)
		}
	}
	both(2, 2+others, FirstWins, SecondWins)
	_, u := estimated(t, 2+2*others, games, Options{OrderEffect: true}, Drawing{Draws: 1})
	if u.parts[0].separated[pairOf(0, 1)] == nil {
		t.Fatal("the two are not tested")
	}
	for of := range families {
		if claim := u.ahead(0, 1, of); claim != 0 {
			t.Errorf("two candidates that no verdict tells apart: %d in family %d", claim, of)
		}
	}
}
