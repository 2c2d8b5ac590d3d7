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
func tournament(seed uint64, n, games, copies int, step float64) []Game {
	random := rand.New(rand.NewPCG(seed, 0))
	var all []Game
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
			all = append(all, Game{Cluster: cluster, Comparison: Comparison{i, j, outcome}})
		}
	}
	return all
}

func bootstrap(t *testing.T, n, judges int, games []Game, options Options, how Resampling) *Bootstrap {
	t.Helper()
	b, err := NewBootstrap(t.Context(), n, judges, games, options, how)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func tallied(t *testing.T, n int, games []Game) *Fit {
	t.Helper()
	tally := NewTally(n)
	for _, g := range games {
		if err := tally.Add(g.Comparison); err != nil {
			t.Fatal(err)
		}
	}
	fit, err := BradleyTerry(n, []*Tally{tally}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return fit
}

// TestBootstrapOfIndependentGames: where every game is a cluster of its own, limits
// are as wide as the standard errors of the fit say.
func TestBootstrapOfIndependentGames(t *testing.T) {
	t.Parallel()
	games := tournament(1, 6, 1500, 1, 0.4)
	fit, b := tallied(t, 6, games), bootstrap(t, 6, 1, games, Options{}, Resampling{Seed: 7})
	for _, s := range fit.Standings() {
		i := s.Candidate
		if width := (b.High[i] - b.Low[i]) / (2 * z95); math.Abs(width/s.SE-1) > 0.12 {
			t.Errorf("candidate %d: limits are %.4f errors wide, the standard error is %.4f", i, width, s.SE)
		}
		if b.Low[i] > s.Ability || b.High[i] < s.Ability {
			t.Errorf("candidate %d: ability %.3f outside %.3f to %.3f", i, s.Ability, b.Low[i], b.High[i])
		}
	}
	if b.Clusters != 1500 || b.Resamples != DefaultResamples || b.Regularised != 0 || b.Linearised {
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
	fits := [2]*Fit{tallied(t, 5, once), tallied(t, 5, four)}
	of := [2]*Bootstrap{
		bootstrap(t, 5, 1, once, Options{}, Resampling{Seed: 3}),
		bootstrap(t, 5, 1, four, Options{}, Resampling{Seed: 3}),
	}
	for i := range 5 {
		if naive := fits[1].se(i) / fits[0].se(i); math.Abs(naive-0.5) > 0.01 {
			t.Errorf("candidate %d: standard errors are %.3f of those before", i, naive)
		}
		one, other := of[0].High[i]-of[0].Low[i], of[1].High[i]-of[1].Low[i]
		if math.Abs(other/one-1) > 1e-6 { // the same clusters were drawn
			t.Errorf("candidate %d: limits are %.6f wide, with each verdict once %.6f", i, other, one)
		}
	}
}

// TestBootstrapIsReproducible: the same digits in any order of games and on any
// number of processors, others with another seed.
func TestBootstrapIsReproducible(t *testing.T) {
	games := tournament(4, 4, 200, 2, 0.5)
	one := bootstrap(t, 4, 1, games, Options{OrderEffect: true}, Resampling{Resamples: 200, Seed: 9})
	random := rand.New(rand.NewPCG(5, 6))
	random.Shuffle(len(games), func(i, j int) { games[i], games[j] = games[j], games[i] })
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	other := bootstrap(t, 4, 1, games, Options{OrderEffect: true}, Resampling{Resamples: 200, Seed: 9})
	if diff := cmp.Diff(one, other, cmp.AllowUnexported(Bootstrap{})); diff != "" {
		t.Errorf("same games and seed, other results:\n%s", diff)
	}
	if third := bootstrap(t, 4, 1, games, Options{OrderEffect: true}, Resampling{Resamples: 200, Seed: 10}); slices.Equal(third.Low, one.Low) {
		t.Error("another seed draws the same")
	}
}

// TestBootstrapThatLosesALink: a candidate that won once is without a victory in
// (1 − 1/N)^N of the resamples, about 37 %.
func TestBootstrapThatLosesALink(t *testing.T) {
	t.Parallel()
	games := tournament(5, 3, 300, 1, 0.2)
	for k, outcome := range []Outcome{FirstWins, SecondWins, SecondWins, SecondWins, SecondWins, SecondWins, SecondWins, SecondWins} {
		games = append(games, Game{Cluster: 1000 + k, Comparison: Comparison{3, k % 3, outcome}})
	}
	b := bootstrap(t, 4, 1, games, Options{}, Resampling{Seed: 1})
	if share := float64(b.Regularised) / float64(b.Resamples); math.Abs(share-0.37) > 0.05 {
		t.Errorf("%.3f of the resamples lost the only victory, want about 0.37", share)
	}
	if b.RankHigh[3] != 4 || math.IsNaN(b.Low[3]) {
		t.Errorf("who lost nearly always ranks up to %d of 4, with an ability from %.2f", b.RankHigh[3], b.Low[3])
	}
}

// TestBootstrapOfComponents: nothing relates candidates that were never compared,
// not even through others.
func TestBootstrapOfComponents(t *testing.T) {
	t.Parallel()
	var games []Game
	for _, g := range tournament(6, 3, 200, 1, 0.4) {
		apart := g
		apart.First, apart.Second, apart.Cluster = g.First+3, g.Second+3, g.Cluster+1000
		games = append(games, g, apart)
	}
	b := bootstrap(t, 7, 1, games, Options{}, Resampling{Resamples: 300})
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
	tally := NewTally(n)
	for _, g := range games {
		if err := tally.Add(g.Comparison); err != nil {
			t.Fatal(err)
		}
	}
	m, fit, at, err := fitted(n, []*Tally{tally}, Options{OrderEffect: true})
	if err != nil {
		t.Fatal(err)
	}
	d := newDraws(m, games, Options{OrderEffect: true})
	follow := newFollower(d, m, at)
	for seed := range uint64(20) {
		times := d.draw(rand.New(rand.NewPCG(seed, 1)))
		stepped := follow.step(times)
		d.fill(times, m.rows)
		refitted, prior, err := follow.refit(fit)
		if err != nil || prior {
			t.Fatal(prior, err)
		}
		m.ridge = follow.ridge
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
	game := Game{Comparison: Comparison{0, 1, FirstWins}}
	for name, bad := range map[string]func() error{
		"too many resamples": func() error {
			_, err := NewBootstrap(t.Context(), 2, 1, []Game{game}, Options{}, Resampling{Resamples: 40_000})
			return err
		},
		"a judge that is not there": func() error {
			_, err := NewBootstrap(t.Context(), 2, 0, []Game{game}, Options{}, Resampling{})
			return err
		},
		"a candidate that is not there": func() error {
			_, err := NewBootstrap(t.Context(), 1, 1, []Game{game}, Options{}, Resampling{})
			return err
		},
		"an end": func() error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := NewBootstrap(ctx, 2, 1, []Game{game}, Options{}, Resampling{})
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
	if b := bootstrap(t, 0, 0, nil, Options{}, Resampling{}); b.Clusters != 0 {
		t.Errorf("of nothing: %+v", b)
	}
}
