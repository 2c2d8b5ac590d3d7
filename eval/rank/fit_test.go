package rank_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/evalfleet/evalfleet/eval/rank"
)

// game is a row of a test's table: first, second, and how the comparisons ended.
type game struct {
	first, second, wins, losses, ties int
}

func tallyOf(t testing.TB, n int, games ...game) *rank.Tally {
	t.Helper()
	tally := rank.NewTally(n)
	for _, g := range games {
		if err := tally.AddCounts(g.first, g.second, rank.Counts{FirstWins: g.wins, SecondWins: g.losses, Ties: g.ties}); err != nil {
			t.Fatal(err)
		}
	}
	return tally
}

func fitOf(t testing.TB, n int, options rank.Options, judges ...*rank.Tally) *rank.Fit {
	t.Helper()
	fit, err := rank.BradleyTerry(n, judges, options)
	if err != nil {
		t.Fatal(err)
	}
	checkFinite(t, fit)
	return fit
}

// checkFinite fails on any number that is not one, and on means that are not 0.
func checkFinite(t testing.TB, fit *rank.Fit) {
	t.Helper()
	finite := func(what string, values ...float64) {
		for _, v := range values {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Errorf("%s: got %v, want a finite number", what, v)
			}
		}
	}
	finite("fit", fit.LogLikelihood, fit.Deviance)
	for _, e := range fit.Judges {
		finite("judge", e.Order, e.OrderSE, e.LogNu, e.LogNuSE, e.Nu())
	}
	for _, s := range fit.Standings() {
		finite("standing", s.Ability, s.ModelSE, s.WinRate())
	}
	for _, part := range fit.Components {
		var mean float64
		for _, i := range part.Candidates {
			mean += fit.Abilities[i] / float64(len(part.Candidates))
		}
		if math.Abs(mean) > 1e-7 {
			t.Errorf("mean ability of component %v: got %g, want 0", part.Candidates, mean)
		}
	}
}

func TestNothing(t *testing.T) {
	t.Parallel()
	if got := fitOf(t, 0, rank.Options{}).Standings(); len(got) != 0 {
		t.Errorf("standings of no candidates: %v", got)
	}
	fit := fitOf(t, 3, rank.Options{OrderEffect: true}, rank.NewTally(3))
	if len(fit.Components) != 3 {
		t.Errorf("components of 3 never compared: got %d, want 3", len(fit.Components))
	}
	for _, s := range fit.Standings() {
		if s.Rank != 1 || s.Games() != 0 || s.Regularised {
			t.Errorf("never compared: got %+v, want rank 1, no games, nothing assumed", s)
		}
	}
}

// TestUndefeated checks that a candidate that wins everything gets a finite,
// flagged ability, and that one draw is enough for the likelihood to have a
// maximum with half-wins.
func TestUndefeated(t *testing.T) {
	t.Parallel()
	games := []game{{0, 1, 10, 0, 0}, {0, 2, 10, 0, 0}, {1, 2, 6, 4, 0}}
	fit := fitOf(t, 3, rank.Options{}, tallyOf(t, 3, games...))
	if part := fit.Components[0]; !part.Separable || !part.Regularised {
		t.Errorf("undefeated: separable %v, regularised %v, want both", part.Separable, part.Regularised)
	}
	if s := fit.Standings()[0]; s.Candidate != 0 || !s.Regularised {
		t.Errorf("best: got %+v, want candidate 0, flagged", s)
	}
	games[0].ties = 1
	fit = fitOf(t, 3, rank.Options{Ties: rank.HalfWins}, tallyOf(t, 3, games...))
	if part := fit.Components[0]; part.Separable || part.Regularised {
		t.Errorf("after a draw: separable %v, regularised %v, want neither", part.Separable, part.Regularised)
	}
}

// TestDrawsConnect: a draw is enough to bound what would otherwise be undefeated,
// whichever of the two was shown first.
func TestDrawsConnect(t *testing.T) {
	t.Parallel()
	for _, draw := range []game{{0, 1, 10, 0, 1}, {1, 0, 0, 10, 1}} {
		fit := fitOf(t, 3, rank.Options{}, tallyOf(t, 3, draw, game{0, 2, 10, 0, 0}, game{1, 2, 6, 4, 0}))
		if part := fit.Components[0]; part.Separable || part.Regularised {
			t.Errorf("%+v: separable %v, regularised %v, want neither", draw, part.Separable, part.Regularised)
		}
	}
	// Never having won separates as well as never having lost.
	fit := fitOf(t, 3, rank.Options{}, tallyOf(t, 3, game{0, 1, 6, 4, 0}, game{0, 2, 10, 0, 0}, game{1, 2, 10, 0, 0}))
	if !fit.Components[0].Separable {
		t.Error("one lost everything: not separable")
	}
}

// TestOnlyTies: the likelihood says nothing about abilities, so all share the
// first rank and the prior's uncertainty.
func TestOnlyTies(t *testing.T) {
	t.Parallel()
	for _, ties := range []rank.Ties{rank.Davidson, rank.HalfWins} {
		fit := fitOf(t, 3, rank.Options{Ties: ties, OrderEffect: true}, tallyOf(t, 3, game{0, 1, 0, 0, 20}, game{1, 2, 0, 0, 20}, game{2, 0, 0, 0, 20}))
		for _, s := range fit.Standings() {
			if s.Rank != 1 || math.Abs(s.Ability) > 1e-9 || s.WinRate() != .5 {
				t.Errorf("ties %d: got %+v, want rank 1, ability 0, win rate 0.5", ties, s)
			}
		}
		if want := ties == rank.Davidson; fit.Components[0].Regularised != want || fit.Judges[0].Regularised != want {
			t.Errorf("ties %d: regularised %v %v, want %v", ties, fit.Components[0].Regularised, fit.Judges[0].Regularised, want)
		}
	}
}

// TestSeparatedByTies has a likelihood without maximum although everybody lost or
// tied: the chain of ties and the win can be stretched for ever together with ν.
func TestSeparatedByTies(t *testing.T) {
	t.Parallel()
	fit := fitOf(t, 3, rank.Options{}, tallyOf(t, 3, game{0, 1, 0, 0, 5}, game{1, 2, 0, 0, 5}, game{0, 2, 5, 0, 0}))
	if !fit.Judges[0].Regularised || !fit.Components[0].Regularised || fit.Components[0].Separable {
		t.Errorf("got judge %+v, component %+v, want both regularised and not separable", fit.Judges[0], fit.Components[0])
	}
	if got := fit.Standings()[0].Candidate; got != 0 {
		t.Errorf("best: got %d, want 0", got)
	}
}

// TestAlwaysFirst is a judge that looks at nothing but the position: no finite
// order effect exists, and no candidate may look better.
func TestAlwaysFirst(t *testing.T) {
	t.Parallel()
	var games []game
	for i := range 4 {
		for j := range 4 {
			if i != j {
				games = append(games, game{i, j, 5, 0, 0})
			}
		}
	}
	fit := fitOf(t, 4, rank.Options{OrderEffect: true}, tallyOf(t, 4, games...))
	if e := fit.Judges[0]; !e.HasOrder || !e.Regularised || e.Order < 3 {
		t.Errorf("always first: got %+v, want a large regularised order effect", e)
	}
	for _, ability := range fit.Abilities {
		near(t, "ability", ability, 0, 1e-6)
	}
}

// TestOnlyTheBiasedJudge: beside a judge that always says "first", a sound one
// keeps estimates without a prior on its own effect.
func TestOnlyTheBiasedJudge(t *testing.T) {
	t.Parallel()
	always := rank.NewTally(5)
	for i := range 5 {
		for j := range 5 {
			if i != j {
				if err := always.AddCounts(i, j, rank.Counts{FirstWins: 40}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	fit := fitOf(t, 5, rank.Options{OrderEffect: true}, always, random(t, 5, 400, 7))
	if !fit.Judges[0].Regularised || fit.Judges[1].Regularised {
		t.Errorf("regularised: got %v and %v, want the first judge only", fit.Judges[0].Regularised, fit.Judges[1].Regularised)
	}
}

// TestSlowDivergence: along the chain everything is even, so abilities must rise by
// the order effect from each to the next, and one verdict at the end pulls both
// without end. The order effect itself is then still small when the likelihood
// stops changing; only its standard error tells.
func TestSlowDivergence(t *testing.T) {
	t.Parallel()
	const n = 8
	games := []game{{n - 1, 0, 10, 0, 0}}
	for i := range n - 1 {
		games = append(games, game{i, i + 1, 5, 5, 0})
	}
	fit := fitOf(t, n, rank.Options{OrderEffect: true}, tallyOf(t, n, games...))
	if e := fit.Judges[0]; fit.Components[0].Separable || !e.Regularised || e.OrderSE > 4 {
		t.Errorf("got %+v, separable %v, want a regularised order effect and not separable", e, fit.Components[0].Separable)
	}
}

// TestEquals: candidates with the same results share a rank, and the same input has
// the same digits every time.
func TestEquals(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		// 2k and 2k+1 have the same results against everybody.
		half := random(t, 5, 200, seed)
		tally := rank.NewTally(10)
		for pair, c := range half.Cells() {
			for _, i := range []int{0, 1} {
				for _, j := range []int{0, 1} {
					if err := tally.AddCounts(2*pair.First+i, 2*pair.Second+j, c); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		fit := fitOf(t, 10, rank.Options{OrderEffect: true}, tally)
		standings := fit.Standings()
		for k := 0; k < 10; k += 2 {
			one, twin := standings[k], standings[k+1]
			if one.Rank != k+1 || twin.Rank != k+1 || one.Candidate/2 != twin.Candidate/2 {
				t.Errorf("seed %d: ranks of %d and %d are %d and %d, want twins with %d", seed, one.Candidate, twin.Candidate, one.Rank, twin.Rank, k+1)
			}
		}
		again := fitOf(t, 10, rank.Options{OrderEffect: true}, tally)
		if !slices.Equal(again.Abilities, fit.Abilities) || again.Deviance != fit.Deviance {
			t.Errorf("seed %d: other digits for the same input", seed)
		}
	}
}

// TestOrderNotTold: what is always shown first could be better or favoured, so no
// order effect is fitted; one pair in both orders tells it.
func TestOrderNotTold(t *testing.T) {
	t.Parallel()
	options := rank.Options{OrderEffect: true}
	fit := fitOf(t, 2, options, tallyOf(t, 2, game{0, 1, 30, 10, 0}))
	if fit.Judges[0].HasOrder {
		t.Errorf("one order only: got %+v, want no order effect", fit.Judges[0])
	}
	fit = fitOf(t, 2, options, tallyOf(t, 2, game{0, 1, 30, 10, 0}, game{1, 0, 20, 20, 0}))
	near(t, "order effect", fit.Judges[0].Order, math.Log(3)/2, 1e-9)
	near(t, "difference", fit.Abilities[0]-fit.Abilities[1], math.Log(3)/2, 1e-9)
}

// TestJudgesKeepTheirOwnBias recovers planted abilities and each judge's planted
// order effect from what the model expects, without noise.
func TestJudgesKeepTheirOwnBias(t *testing.T) {
	t.Parallel()
	abilities, bias := []float64{.8, .2, -.3, -.7}, []float64{.6, -.9}
	judges := []*rank.Tally{rank.NewTally(4), rank.NewTally(4)}
	const games = 1_000_000
	for k, tally := range judges {
		for i := range abilities {
			for j := range abilities {
				if i == j {
					continue
				}
				p := 1 / (1 + math.Exp(-(abilities[i] - abilities[j] + bias[k])))
				wins := int(math.Round(p * games))
				if err := tally.AddCounts(i, j, rank.Counts{FirstWins: wins, SecondWins: games - wins}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	fit := fitOf(t, 4, rank.Options{OrderEffect: true}, judges...)
	for i, want := range abilities {
		near(t, "ability", fit.Abilities[i], want, 1e-5)
	}
	for k, want := range bias {
		near(t, "order effect", fit.Judges[k].Order, want, 1e-5)
	}
}

// TestComponents: two tables that never met are two rankings.
func TestComponents(t *testing.T) {
	t.Parallel()
	fit := fitOf(t, 6, rank.Options{}, tallyOf(t, 6, game{0, 5, 7, 3, 0}, game{1, 2, 6, 4, 0}, game{2, 3, 6, 4, 0}, game{3, 1, 5, 5, 0}))
	var got [][]int
	for _, part := range fit.Components {
		got = append(got, part.Candidates)
	}
	want := [][]int{{1, 2, 3}, {0, 5}, {4}}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Fatalf("components: got %v, want %v", got, want)
	}
	first := map[int]int{}
	for _, s := range fit.Standings() {
		if s.Rank == 1 {
			first[s.Component]++
		}
	}
	if len(first) != 3 {
		t.Errorf("components with a first rank: got %v, want 3", first)
	}
	if _, _, ok := fit.Contrast(0, 1); ok {
		t.Error("a contrast between components, want none")
	}
	// The other component's games change nothing here.
	alone := fitOf(t, 2, rank.Options{}, tallyOf(t, 2, game{0, 1, 7, 3, 0}))
	near(t, "ability", fit.Abilities[0], alone.Abilities[0], 1e-9)
	near(t, "deviance", alone.Deviance, 0, 1e-9)
}

func TestRefused(t *testing.T) {
	t.Parallel()
	tally := rank.NewTally(2)
	for _, c := range []rank.Comparison{{First: 0, Second: 2}, {First: -1, Second: 0}, {First: 1, Second: 1}, {First: 0, Second: 1, Outcome: 3}} {
		if err := tally.Add(c); err == nil {
			t.Errorf("add %+v: no error", c)
		}
	}
	if err := tally.AddCounts(0, 1, rank.Counts{FirstWins: -1}); err == nil {
		t.Error("negative counts: no error")
	}
	for pair, counts := range tally.Cells() {
		t.Errorf("after refusals: got %+v of %+v, want nothing counted", counts, pair)
	}
	if _, err := rank.BradleyTerry(3, []*rank.Tally{tally}, rank.Options{}); err == nil {
		t.Error("a tally over other candidates: no error")
	}
	if _, err := rank.BradleyTerry(rank.MaxCandidates+1, nil, rank.Options{}); !errors.Is(err, rank.ErrTooManyCandidates) {
		t.Errorf("too many candidates: got %v", err)
	}
}

// random is a tournament of n candidates with known abilities.
func random(t testing.TB, n, games int, seed uint64) *rank.Tally {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	tally := rank.NewTally(n)
	for range games {
		first := rng.IntN(n)
		second := (first + 1 + rng.IntN(n-1)) % n
		d := 3 * float64(second-first) / float64(n)
		outcome := rank.SecondWins
		switch u := rng.Float64(); {
		case u < .1:
			outcome = rank.Tied
		case rng.Float64() < 1/(1+math.Exp(-d)):
			outcome = rank.FirstWins
		}
		if err := tally.Add(rank.Comparison{First: first, Second: second, Outcome: outcome}); err != nil {
			t.Fatal(err)
		}
	}
	return tally
}

// relabelled is the tally with candidate i called permutation[i].
func relabelled(t *testing.T, tally *rank.Tally, permutation []int) *rank.Tally {
	t.Helper()
	out := rank.NewTally(len(permutation))
	for pair, counts := range tally.Cells() {
		if err := out.AddCounts(permutation[pair.First], permutation[pair.Second], counts); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestNamesDoNotMatter(t *testing.T) {
	t.Parallel()
	const n = 12
	for seed := range uint64(20) {
		tally := random(t, n, 300, seed)
		permutation := rand.New(rand.NewPCG(seed, 2)).Perm(n)
		options := rank.Options{OrderEffect: seed%2 == 0, Ties: rank.Ties(seed / 2 % 2)}
		one := fitOf(t, n, options, tally)
		other := fitOf(t, n, options, relabelled(t, tally, permutation))
		bySecondName := map[int]rank.Standing{}
		for _, s := range other.Standings() {
			bySecondName[s.Candidate] = s
		}
		for _, s := range one.Standings() {
			twin := bySecondName[permutation[s.Candidate]]
			near(t, "ability", twin.Ability, s.Ability, 1e-8)
			near(t, "error", twin.ModelSE, s.ModelSE, 1e-8)
			if twin.Rank != s.Rank || twin.Record != s.Record {
				t.Errorf("seed %d: got %+v, want %+v", seed, twin, s)
			}
		}
	}
}

// TestLosersWin: when every verdict is turned round, so is the ranking.
func TestLosersWin(t *testing.T) {
	t.Parallel()
	const n = 8
	for seed := range uint64(20) {
		tally, turned := random(t, n, 200, seed), rank.NewTally(n)
		for pair, c := range tally.Cells() {
			if err := turned.AddCounts(pair.First, pair.Second, rank.Counts{FirstWins: c.SecondWins, SecondWins: c.FirstWins, Ties: c.Ties}); err != nil {
				t.Fatal(err)
			}
		}
		options := rank.Options{OrderEffect: true}
		one, other := fitOf(t, n, options, tally), fitOf(t, n, options, turned)
		for i := range n {
			near(t, "ability", other.Abilities[i], -one.Abilities[i], 1e-8)
		}
		near(t, "order effect", other.Judges[0].Order, -one.Judges[0].Order, 1e-8)
	}
}

// TestCentredErrors: of two candidates, each is half their difference from the mean.
func TestCentredErrors(t *testing.T) {
	t.Parallel()
	for name, g := range map[string]game{"plain": {0, 1, 7, 3, 0}, "with a prior": {0, 1, 7, 0, 0}, "with ties": {0, 1, 7, 3, 4}} {
		fit := fitOf(t, 2, rank.Options{}, tallyOf(t, 2, g))
		difference, se, _ := fit.Contrast(0, 1)
		best := fit.Standings()[0]
		near(t, name+": ability", best.Ability, difference/2, 1e-9)
		near(t, name+": error", best.ModelSE, se/2, 1e-9)
		if name == "plain" { // the log-odds of 7 to 3 has the variance 1/7 + 1/3
			near(t, "error of the difference", se, math.Sqrt(1./7+1./3), 1e-7)
		}
	}
}

func TestElo(t *testing.T) {
	t.Parallel()
	near(t, "average", rank.Elo(0), 1000, 0)
	near(t, "odds of ten to one", rank.Elo(math.Log(10)), 1400, 1e-9)
}

func TestSwaps(t *testing.T) {
	t.Parallel()
	var s rank.Swaps
	for _, pair := range [][2]rank.Outcome{
		{rank.FirstWins, rank.SecondWins}, {rank.SecondWins, rank.FirstWins}, {rank.Tied, rank.Tied},
		{rank.FirstWins, rank.FirstWins}, {rank.SecondWins, rank.SecondWins}, {rank.SecondWins, rank.SecondWins},
		{rank.Tied, rank.FirstWins}, {rank.SecondWins, rank.Tied},
	} {
		s.Add(pair[0], pair[1])
	}
	if want := (rank.Swaps{Consistent: 3, AlwaysFirst: 1, AlwaysSecond: 2, HalfTied: 2}); s != want {
		t.Errorf("got %+v, want %+v", s, want)
	}
	near(t, "consistency", s.Consistency(), 3./8, 0)
}

// FuzzBradleyTerry: whatever was compared, there is a finite answer.
func FuzzBradleyTerry(f *testing.F) {
	f.Add([]byte{0, 1, 0, 0, 0, 2, 0, 1, 1, 2, 2, 0, 2, 0, 1, 1}, uint8(0))
	f.Add([]byte{0, 1, 0, 0, 1, 0, 0, 0, 1, 2, 0, 0, 2, 1, 0, 0}, uint8(1))
	f.Fuzz(func(t *testing.T, games []byte, options uint8) {
		const n = 6
		judges := []*rank.Tally{rank.NewTally(n), rank.NewTally(n)}
		for ; len(games) >= 4; games = games[4:] {
			first, second := int(games[0]%n), int(games[1]%n)
			if first == second {
				continue
			}
			var c rank.Counts
			switch count := int(games[3]) + 1; games[2] % 3 {
			case 0:
				c.FirstWins = count
			case 1:
				c.SecondWins = count
			default:
				c.Ties = count
			}
			if err := judges[games[2]/3%2].AddCounts(first, second, c); err != nil {
				t.Fatal(err)
			}
		}
		fitOf(t, n, rank.Options{Ties: rank.Ties(options & 1), OrderEffect: options&2 != 0}, judges...)
	})
}

// BenchmarkBradleyTerry fits 1,000 candidates, every pair compared twice.
func BenchmarkBradleyTerry(b *testing.B) {
	const n, games = 1000, 1_000_000
	tally := random(b, n, games, 1)
	b.ReportAllocs()
	for b.Loop() {
		fit := fitOf(b, n, rank.Options{OrderEffect: true}, tally)
		if part := fit.Components[0]; len(part.Candidates) != n || part.Regularised || fit.Judges[0].Nu() == 0 {
			b.Fatalf("%d candidates connected, regularised %v, want %d and not", len(part.Candidates), part.Regularised, n)
		}
		b.ReportMetric(float64(fit.Iterations), "iterations")
	}
}
