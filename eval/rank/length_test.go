package rank

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// measured is games between candidates 0.5 apart, of texts whose length is worth gamma
// a standard deviation to judge 1, and nothing to judge 0.
func measured(games int, gamma float64) []Measured {
	random := rand.New(rand.NewPCG(11, 12))
	const spread = 0.29 // of the differences below, about
	var all []Measured
	for range games {
		g := Measured{Judge: random.IntN(2)}
		g.First, g.Second = random.IntN(4), random.IntN(3)
		if g.Second >= g.First {
			g.Second++
		}
		g.FirstLength, g.SecondLength = 100+random.IntN(400), 100+random.IntN(400)
		d := 0.5 * float64(g.First-g.Second)
		if g.Judge == 1 {
			d += gamma * g.difference() / spread
		}
		g.Outcome = SecondWins
		if random.Float64() < 1/(1+math.Exp(-d)) {
			g.Outcome = FirstWins
		}
		all = append(all, g)
	}
	return all
}

func TestWithLength(t *testing.T) {
	t.Parallel()
	for _, gamma := range []float64{0, 0.8} {
		games := slices.DeleteFunc(measured(12_000, gamma), func(g Measured) bool { return g.Judge == 0 })
		fit, err := WithLength(4, 2, games, Options{OrderEffect: true})
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
	games := slices.DeleteFunc(measured(2000, 0), func(g Measured) bool { return g.Judge == 1 })
	for i := range games {
		games[i].FirstLength, games[i].SecondLength = 7*i, 7*i
		games[i].Outcome = Outcome(i % 7 % 3)
		if err := tally.Add(games[i].Comparison); err != nil {
			t.Fatal(err)
		}
	}
	for _, options := range []Options{{OrderEffect: true}, {Ties: HalfWins}} {
		plain, err := BradleyTerry(4, []*Tally{tally}, options)
		if err != nil {
			t.Fatal(err)
		}
		with, err := WithLength(4, 1, games, options)
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
	for _, g := range []Measured{
		{Comparison: Comparison{0, 1, FirstWins}, FirstLength: 300, SecondLength: 100},
		{Comparison: Comparison{0, 1, SecondWins}, FirstLength: 100, SecondLength: 300},
		{Comparison: Comparison{0, 1, SecondWins}, FirstLength: 300, SecondLength: 100},
		{Comparison: Comparison{0, 1, Tied}, FirstLength: 200, SecondLength: 200},
		{Comparison: Comparison{0, 1, FirstWins}, FirstLength: 0, SecondLength: 0},
	} {
		l.Add(g)
	}
	// Differences ½, −½, ½, 0, 0 and verdicts 1, −1, −1, 0, 1.
	want := (5*0.5 - 0.5*0) / math.Sqrt((5*0.75-0.25)*(5*4-0))
	if got := l.Correlation(); !near(got, want, 1e-12) || l.LongerWins != 2 || l.ShorterWins != 1 {
		t.Errorf("correlation %v, longer %d, shorter %d; want %v, 2, 1", got, l.LongerWins, l.ShorterWins, want)
	}
}
