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

func tallied(t *testing.T, n int, games []Observed, options Options) *Fit {
	t.Helper()
	tally := NewTally(n)
	for _, g := range games {
		if err := tally.AddCounts(int(g.First), int(g.Second), g.counts()); err != nil {
			t.Fatal(err)
		}
	}
	fit, err := BradleyTerry(n, []*Tally{tally}, options)
	if err != nil {
		t.Fatal(err)
	}
	return fit
}

func bootstrap(t *testing.T, n int, games []Observed, options Options, how Resampling) *Bootstrap {
	t.Helper()
	b, err := tallied(t, n, games, options).Bootstrap(t.Context(), games, how)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestBootstrapOfIndependentGames: where every game is a cluster of its own, limits
// are as wide as the standard errors of the fit say.
func TestBootstrapOfIndependentGames(t *testing.T) {
	t.Parallel()
	games := tournament(1, 6, 1500, 1, 0.4)
	fit, b := tallied(t, 6, games, Options{}), bootstrap(t, 6, games, Options{}, Resampling{Seed: 7})
	for _, s := range fit.Standings() {
		i := s.Candidate
		if width := (b.Abilities[i].High - b.Abilities[i].Low) / (2 * z95); math.Abs(width/s.SE-1) > 0.12 {
			t.Errorf("candidate %d: limits are %.4f errors wide, the standard error is %.4f", i, width, s.SE)
		}
		if b.Abilities[i].Low > s.Ability || b.Abilities[i].High < s.Ability {
			t.Errorf("candidate %d: ability %.3f outside %.3f to %.3f", i, s.Ability, b.Abilities[i].Low, b.Abilities[i].High)
		}
	}
	if b.Clusters != 1500 || b.Resamples != 1000 || b.Regularised != 0 || b.Linearised {
		t.Errorf("%d clusters, %d resamples, %d regularised, linearised %t", b.Clusters, b.Resamples, b.Regularised, b.Linearised)
	}
	if best, next := b.Beats(0, 5), b.Beats(0, 1); best != 1 || next < 0.9 || next > 1 {
		t.Errorf("the best beats the last in %.3f and the second in %.3f of the resamples", best, next)
	}
	if one, other := b.Beats(2, 3), b.Beats(3, 2); math.Abs(one+other-1) > 1e-12 {
		t.Errorf("one beats the other in %v and is beaten in %v of the resamples", one, other)
	}
}

// TestBootstrapKeepsClustersTogether: the same verdict four times over is one piece
// of evidence. Standard errors that take games as independent halve, limits by
// cluster stay.
func TestBootstrapKeepsClustersTogether(t *testing.T) {
	t.Parallel()
	once, four := tournament(2, 5, 800, 1, 0.3), tournament(2, 5, 800, 4, 0.3)
	fits := [2]*Fit{tallied(t, 5, once, Options{}), tallied(t, 5, four, Options{})}
	of := [2]*Bootstrap{
		bootstrap(t, 5, once, Options{}, Resampling{Seed: 3}),
		bootstrap(t, 5, four, Options{}, Resampling{Seed: 3}),
	}
	for i := range 5 {
		if naive := fits[1].se(i) / fits[0].se(i); math.Abs(naive-0.5) > 0.01 {
			t.Errorf("candidate %d: standard errors are %.3f of those before", i, naive)
		}
		one, other := of[0].Abilities[i].High-of[0].Abilities[i].Low, of[1].Abilities[i].High-of[1].Abilities[i].Low
		if math.Abs(other/one-1) > 1e-6 { // the same clusters were drawn
			t.Errorf("candidate %d: limits are %.6f wide, with each verdict once %.6f", i, other, one)
		}
	}
}

// TestBootstrapIsReproducible: the same digits in any order of games and on any
// number of processors, others with another seed.
func TestBootstrapIsReproducible(t *testing.T) {
	games := tournament(4, 4, 200, 2, 0.5)
	one := bootstrap(t, 4, games, Options{OrderEffect: true}, Resampling{Resamples: 200, Seed: 9})
	random := rand.New(rand.NewPCG(5, 6))
	random.Shuffle(len(games), func(i, j int) { games[i], games[j] = games[j], games[i] })
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	other := bootstrap(t, 4, games, Options{OrderEffect: true}, Resampling{Resamples: 200, Seed: 9})
	if diff := cmp.Diff(one, other, cmp.AllowUnexported(Bootstrap{})); diff != "" {
		t.Errorf("same games and seed, other results:\n%s", diff)
	}
	if third := bootstrap(t, 4, games, Options{OrderEffect: true}, Resampling{Resamples: 200, Seed: 10}); slices.Equal(third.Abilities, one.Abilities) {
		t.Error("another seed draws the same")
	}
}

// TestBootstrapThatLosesALink: a candidate that won once is without a victory in
// (1 − 1/N)^N of the resamples, about 37 %.
func TestBootstrapThatLosesALink(t *testing.T) {
	t.Parallel()
	games := tournament(5, 3, 300, 1, 0.2)
	for k, outcome := range []Outcome{FirstWins, SecondWins, SecondWins, SecondWins, SecondWins, SecondWins, SecondWins, SecondWins} {
		games = append(games, game(1000+k, 3, k%3, outcome))
	}
	b := bootstrap(t, 4, games, Options{}, Resampling{Seed: 1})
	if share := float64(b.Regularised) / float64(b.Resamples); math.Abs(share-0.37) > 0.05 {
		t.Errorf("%.3f of the resamples lost the only victory, want about 0.37", share)
	}
	if b.RankHigh[3] != 4 || math.IsNaN(b.Abilities[3].Low) {
		t.Errorf("who lost nearly always ranks up to %d of 4, with an ability from %.2f", b.RankHigh[3], b.Abilities[3].Low)
	}
}

// TestBootstrapOfComponents: nothing relates candidates that were never compared,
// not even through others.
func TestBootstrapOfComponents(t *testing.T) {
	t.Parallel()
	var games []Observed
	for _, g := range tournament(6, 3, 200, 1, 0.4) {
		apart := g
		apart.First, apart.Second, apart.Cluster = g.First+3, g.Second+3, g.Cluster+1000
		games = append(games, g, apart)
	}
	b := bootstrap(t, 7, games, Options{}, Resampling{Resamples: 300})
	if !math.IsNaN(b.Beats(0, 4)) || math.IsNaN(b.Beats(0, 1)) {
		t.Errorf("between components %v, within %v", b.Beats(0, 4), b.Beats(0, 1))
	}
	if b.RankHigh[2] > 3 || b.RankHigh[6] != 1 || b.Regularised != 0 {
		t.Errorf("ranks up to %d of 3 and %d of 1, %d regularised", b.RankHigh[2], b.RankHigh[6], b.Regularised)
	}
}

// TestOneStepIsNearTheRefit: with many games, a resample's own maximum is where one
// step of Newton's leads.
func TestOneStepIsNearTheRefit(t *testing.T) {
	t.Parallel()
	const n = 12
	games := tournament(8, n, 20_000, 1, 0.2)
	fit := tallied(t, n, games, Options{OrderEffect: true})
	d, err := newDraws(fit, games)
	if err != nil {
		t.Fatal(err)
	}
	step, again := newStepper(fit, d), newRefitter(fit, d)
	for seed := range uint64(20) {
		times := d.draw(rand.New(rand.NewPCG(seed, 1)))
		stepped := step.from(times)
		refitted, prior, err := again.fit(times)
		if err != nil || prior {
			t.Fatal(prior, err)
		}
		for i := range n {
			moved, off := math.Abs(refitted[i]-fit.Abilities[i]), math.Abs(refitted[i]-stepped[i])
			if off > 0.15*fit.se(i)+0.05*moved {
				t.Errorf("seed %d, candidate %d: %.5f beside %.5f, having moved by %.5f", seed, i, stepped[i], refitted[i], moved)
			}
		}
	}
}

func TestBootstrapRefuses(t *testing.T) {
	t.Parallel()
	games := []Observed{game(0, 0, 1, FirstWins)}
	fit := tallied(t, 2, games, Options{})
	for name, bad := range map[string]func() error{
		"too many resamples": func() error {
			_, err := fit.Bootstrap(t.Context(), slices.Clone(games), Resampling{Resamples: 40_000})
			return err
		},
		"a verdict that is not in the fit": func() error {
			_, err := fit.Bootstrap(t.Context(), []Observed{game(0, 1, 0, FirstWins)}, Resampling{})
			return err
		},
		"a judge that is not in the fit": func() error {
			other := games[0]
			other.Judge = 1
			_, err := fit.Bootstrap(t.Context(), []Observed{other}, Resampling{})
			return err
		},
		"an end": func() error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := fit.Bootstrap(ctx, slices.Clone(games), Resampling{})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("after the end: %v", err)
			}
			return err
		},
	} {
		if bad() == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if b := bootstrap(t, 0, nil, Options{}, Resampling{}); b.Clusters != 0 {
		t.Errorf("of nothing: %+v", b)
	}
}

// TestCorrection: of ten clusters Student's t with 9 degrees of freedom is 2.262157,
// and errors are √(10/9) too small; of many clusters nothing is left of either.
func TestCorrection(t *testing.T) {
	t.Parallel()
	for clusters, want := range map[int][2]float64{1: {0.025, 1}, 10: {0.0085502, 1.0540926}, 1_000_000: {0.025, 1}} {
		if tail, narrow := correction(clusters); !near(tail, want[0], 5e-7) || !near(narrow, want[1], 1e-6) {
			t.Errorf("%d clusters: %.7f, %.7f, want %.7f", clusters, tail, narrow, want)
		}
	}
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	sorted := make([]float64, 199)
	for i := range sorted {
		sorted[i] = float64(i + 1)
	}
	for share, want := range map[float64]float64{0.025: 5, 0.975: 195, 0.5: 100, 0.0275: 5.5, 0.001: 1, 0.999: 199} {
		if got := percentile(sorted, share); !near(got, want, 1e-9) {
			t.Errorf("percentile %.4f of 1 to 199: %v, want %v", share, got, want)
		}
	}
}
