package rank

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestOneDegreeIsNone: if all wins have the same degree, the ranking and its limits are those of the winners alone.
func TestOneDegreeIsNone(t *testing.T) {
	t.Parallel()
	good, _, _ := gradingJudges()
	e := evaluations{candidates: 5, drawn: true, items: 12, judges: good, luck: 0.5}
	random := rand.New(rand.NewPCG(3, 3))
	observed := e.observed(random, e.abilities(random))
	for i := range observed {
		observed[i].FirstMore, observed[i].SecondMore = 2*observed[i].FirstWins, 2*observed[i].SecondWins
	}
	same := uncertaintyOf(t, e, observed)
	plain := uncertaintyOf(t, e, winnersOf(observed))
	for i := range e.candidates {
		if got, want := same.fit.Abilities[i], plain.fit.Abilities[i]; math.Abs(got-want) > 1e-9 {
			t.Errorf("ability of %d: %v, want %v", i, got, want)
		}
		if got, want := same.Abilities[i], plain.Abilities[i]; math.Abs(got.Low-want.Low)+math.Abs(got.High-want.High) > 1e-9 {
			t.Errorf("limits of %d: %+v, want %+v", i, got, want)
		}
	}
	if !same.fit.Weighted() || plain.fit.Weighted() {
		t.Error("the likelihood of degrees is taken for one that tells how well the model fits, or that of winners is not")
	}
}

// TestDegreesKeepRecords: wins, losses and win rates count who won, not by how much.
func TestDegreesKeepRecords(t *testing.T) {
	t.Parallel()
	observed := []Observed{
		{Cluster: 0, First: 0, Second: 1, FirstWins: 1, FirstMore: 2}, {Cluster: 1, First: 1, Second: 0, FirstWins: 1},
		{Cluster: 2, First: 0, Second: 1, SecondWins: 1}, {Cluster: 3, First: 0, Second: 1, Ties: 1},
	}
	fit, err := FromObserved(2, 1, observed, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if want := (Record{Wins: 1, Losses: 2, Ties: 1}); fit.records[0] != want {
		t.Errorf("record %+v, want %+v", fit.records[0], want)
	}
	if !(fit.Abilities[0] > fit.Abilities[1]) {
		t.Errorf("abilities %v: a win by three degrees counts less than two by one", fit.Abilities)
	}
	if got, want := WinRates(2, observed), WinRates(2, winnersOf(observed)); got[0] != want[0] {
		t.Errorf("win rate %+v, want %+v", got[0], want[0])
	}
	for _, bad := range []Observed{{First: 0, Second: 1, SecondWins: 1, FirstMore: 1}, {First: 0, Second: 1, FirstWins: 1, FirstMore: -1}} {
		if _, err := FromObserved(2, 1, []Observed{bad}, Options{}); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

// TestDegreesTellMore: degrees of good judges make intervals narrower in comparison with how far candidates are apart, and
// those of noisy judges little wider. docs/report.md has the numbers of -full.
func TestDegreesTellMore(t *testing.T) {
	t.Parallel()
	good, noisy, tying := gradingJudges()
	random := []simulatedJudge{{scale: 1, order: 0.3, much: 1, atRandom: 1}, {scale: 1, order: -0.2, much: 1, atRandom: 1}}
	for _, test := range []struct {
		name   string
		judges []simulatedJudge
		apart  float64
		most   float64 // width, as a share of that by the winners alone
	}{
		{"good judges, candidates .2 apart", good, 0.2, 1},
		{"good judges, candidates .6 apart", good, 0.6, 1},
		{"good judges that tie", tying, 0.6, 1},
		{"noisy judges", noisy, 0.2, 1.1},
		{"degrees at random", random, 0.2, 1.15},
	} {
		n := 20
		if *full {
			n = 300
		}
		e := evaluations{candidates: 6, apart: test.apart, items: 30, judges: test.judges, luck: 0.5}
		var graded, plain precision
		for seed := range uint64(n) {
			random := rand.New(rand.NewPCG(seed, 5))
			abilities := e.abilities(random)
			observed := e.observed(random, abilities)
			graded.add(uncertaintyOf(t, e, observed), abilities)
			plain.add(uncertaintyOf(t, e, winnersOf(observed)), abilities)
		}
		share := graded.width() / plain.width()
		t.Logf("| %s | %.2f |", test.name, share)
		if share > test.most {
			t.Errorf("%s: intervals are %.2f as wide as by the winners alone, want at most %.2f", test.name, share, test.most)
		}
	}
}

// precision sums up how wide limits of differences are, and how far apart abilities are estimated to be for each unit by
// which they are.
type precision struct{ wide, slope float64 }

func (p *precision) add(u *Uncertainty, truth []float64) {
	squares, mean := 0.0, 0.0
	for _, ability := range truth {
		mean += ability / float64(len(truth))
	}
	for _, ability := range truth {
		squares += (ability - mean) * (ability - mean)
	}
	for i, ability := range u.fit.Abilities {
		p.slope += ability * (truth[i] - mean) / squares
		for j := range i {
			_, limits, _ := u.Contrast(i, j)
			p.wide += limits.High - limits.Low
		}
	}
}

// width returns the width in units of true differences, up to a factor.
func (p precision) width() float64 { return p.wide / p.slope }

func uncertaintyOf(t *testing.T, e evaluations, observed []Observed) *Uncertainty {
	t.Helper()
	fit, err := FromObserved(e.candidates, len(e.judges), slices.Clone(observed), e.options())
	if err != nil {
		t.Fatal(err)
	}
	u, err := fit.Uncertainty(t.Context(), observed, Drawing{Draws: 20})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// winnersOf returns the verdicts without degrees.
func winnersOf(observed []Observed) []Observed {
	out := slices.Clone(observed)
	for i := range out {
		out[i].FirstMore, out[i].SecondMore = 0, 0
	}
	return out
}
