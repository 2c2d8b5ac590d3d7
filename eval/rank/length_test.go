package rank

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// measured is games between candidates 0.5 apart, of texts whose length is worth gamma
// a standard deviation to judge 1, and nothing to judge 0.
func measured(games int, gamma float64) []Observed {
	random := rand.New(rand.NewPCG(11, 12))
	const spread = 0.29 // of the differences below, about
	var all []Observed
	for cluster := range games {
		judge, first, second := random.IntN(2), random.IntN(4), random.IntN(3)
		if second >= first {
			second++
		}
		longer := Relative(100+random.IntN(400), 100+random.IntN(400))
		d := 0.5 * float64(first-second)
		if judge == 1 {
			d += gamma * longer / spread
		}
		outcome := SecondWins
		if random.Float64() < 1/(1+math.Exp(-d)) {
			outcome = FirstWins
		}
		g := game(cluster, first, second, outcome)
		g.Judge, g.Longer = int32(judge), longer
		all = append(all, g)
	}
	return all
}

func TestWithLength(t *testing.T) {
	t.Parallel()
	for _, gamma := range []float64{0, 0.8} {
		games := slices.DeleteFunc(measured(12_000, gamma), func(g Observed) bool { return g.Judge == 0 })
		fit, err := FromObserved(4, 2, games, Options{OrderEffect: true})
		if err != nil {
			t.Fatal(err)
		}
		if !fit.HasLength || math.Abs(fit.Length-gamma) > 3*fit.LengthSE+0.05*gamma || fit.LengthSE > 0.05 {
			t.Errorf("length is worth %.3f (%.3f), want %.1f", fit.Length, fit.LengthSE, gamma)
		}
		if difference, se, _ := fit.Contrast(3, 0); math.Abs(difference-1.5) > 3*se {
			t.Errorf("with a length worth %.1f the best is %.3f (%.3f) above the last, want 1.5", gamma, difference, se)
		}
	}
}

// TestWithoutLength: where all texts are as long, the fit is that of BradleyTerry.
func TestWithoutLength(t *testing.T) {
	t.Parallel()
	tally := NewTally(4)
	games := slices.DeleteFunc(measured(2000, 0), func(g Observed) bool { return g.Judge == 1 })
	for i, g := range games {
		games[i] = game(i, int(g.First), int(g.Second), Outcome(i%7%3))
		if err := tally.AddCounts(int(g.First), int(g.Second), games[i].counts()); err != nil {
			t.Fatal(err)
		}
	}
	for _, options := range []Options{{OrderEffect: true}, {Ties: HalfWins}} {
		plain, err := BradleyTerry(4, []*Tally{tally}, options)
		if err != nil {
			t.Fatal(err)
		}
		with, err := FromObserved(4, 1, games, options)
		if err != nil {
			t.Fatal(err)
		}
		if with.HasLength || !slices.Equal(with.Abilities, plain.Abilities) || with.Judges[0] != plain.Judges[0] || with.Deviance != plain.Deviance {
			t.Errorf("with lengths that are equal %+v, without %+v", with, plain)
		}
	}
}

func TestLengths(t *testing.T) {
	t.Parallel()
	var l Lengths
	if !math.IsNaN(l.Correlation()) {
		t.Errorf("of nothing: %v", l.Correlation())
	}
	for _, g := range []struct {
		outcome       Outcome
		first, second int
	}{
		{FirstWins, 300, 100}, {SecondWins, 100, 300}, {SecondWins, 300, 100}, {Tied, 200, 200}, {FirstWins, 0, 0},
	} {
		l.Add(g.outcome, Relative(g.first, g.second))
	}
	// Differences ½, −½, ½, 0, 0 and verdicts 1, −1, −1, 0, 1.
	want := (5*0.5 - 0.5*0) / math.Sqrt((5*0.75-0.25)*(5*4-0))
	if got := l.Correlation(); !near(got, want, 1e-12) || l.LongerWins != 2 || l.ShorterWins != 1 {
		t.Errorf("correlation %v, longer %d, shorter %d; want %v, 2, 1", got, l.LongerWins, l.ShorterWins, want)
	}
}

// TestLengthNotTold: where every candidate has one text and there are two, length and
// ability are the same thing.
func TestLengthNotTold(t *testing.T) {
	t.Parallel()
	var games []Observed
	for k := range 30 {
		one, other := game(k, 0, 1, Outcome(k%3)), game(k, 1, 0, Outcome(k%2))
		one.Longer, other.Longer = Relative(300, 100), Relative(100, 300)
		games = append(games, one, other)
	}
	fit, err := FromObserved(2, 1, games, Options{OrderEffect: true})
	if err != nil || fit.HasLength {
		t.Errorf("length is told: %+v, %v", fit, err)
	}
}

// TestLongerAlwaysWins: then length has no finite effect, and a prior holds it.
func TestLongerAlwaysWins(t *testing.T) {
	t.Parallel()
	games := measured(500, 0)
	for i := range games {
		outcome := SecondWins
		if games[i].Longer > 0 {
			outcome = FirstWins
		}
		longer := games[i].Longer
		games[i] = game(i, int(games[i].First), int(games[i].Second), outcome)
		games[i].Longer = longer
	}
	fit, err := FromObserved(4, 1, games, Options{OrderEffect: true})
	if err != nil || !fit.HasLength || !fit.LengthRegularised || !fit.Components[0].Regularised || fit.Length < 5 {
		t.Fatalf("%+v, %v", fit, err)
	}
	u, err := fit.Uncertainty(t.Context(), games, Drawing{Draws: 20})
	if err != nil || u.Length.SE < fit.LengthSE {
		t.Errorf("limits of length %+v, %v", u.Length, err)
	}
}
