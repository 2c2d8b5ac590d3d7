package plan_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/eval/rank"
)

// league is a judge who prefers documents by their true abilities, with noise: about
// each pair in each order it says the same whenever it is asked.
type league struct {
	seed  uint64
	truth []float64
	said  *rank.Tally
}

func newLeague(seed uint64, docs int) *league {
	l := &league{seed: seed, truth: make([]float64, docs), said: rank.NewTally(docs)}
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range l.truth {
		l.truth[i] = 1.5 * random.NormFloat64()
	}
	return l
}

// carryOut asks about every run of a plan.
func (l *league) carryOut(t testing.TB, p *plan.Plan) {
	t.Helper()
	for i := range p.Runs() {
		run := p.Run(i)
		outcome := rank.SecondWins
		luck := rand.New(rand.NewPCG(l.seed, uint64(run.First)<<32|uint64(run.Second))).Float64()
		if luck < 1/(1+math.Exp(l.truth[run.Second]-l.truth[run.First])) {
			outcome = rank.FirstWins
		}
		if err := l.said.Add(rank.Comparison{First: run.First, Second: run.Second, Outcome: outcome}); err != nil {
			t.Fatal(err)
		}
	}
}

func (l *league) abilities(t testing.TB) []float64 {
	t.Helper()
	fit, err := rank.BradleyTerry(len(l.truth), []*rank.Tally{l.said}, rank.Options{Ties: rank.HalfWins})
	if err != nil {
		t.Fatal(err)
	}
	return fit.Abilities
}

// kendall is the rank correlation τ of two series without ties.
func kendall(a, b []float64) float64 {
	sum, pairs := 0, 0
	for i := range a {
		for j := range i {
			sum += cmp.Compare(a[i], a[j]) * cmp.Compare(b[i], b[j])
			pairs++
		}
	}
	return float64(sum) / float64(pairs)
}

// swissRanking compares documents in rounds and returns how well they are ranked then,
// and in how many runs.
func swissRanking(t testing.TB, seed uint64, docs int, share float64) (tau float64, runs int) {
	t.Helper()
	e := evaluation(1, docs)
	e.Single, e.Pairwise.Pairs = nil, eval.Pairs{Mode: eval.PairsSwiss, Share: share}
	l := newLeague(seed, docs)
	choices := make([]*plan.Choice, len(plan.Phases(e)))
	for phase := range choices {
		if plan.BasisOf(e, phase) != plan.Fixed {
			var err error
			if choices[phase], err = plan.Choose(e, phase, choices[:phase], plan.Found{Abilities: l.abilities(t)}); err != nil {
				t.Fatal(err)
			}
		}
		o := queuesOf(e, "q")
		o.Choice = choices[phase]
		p := mustPlan(t, e, phase, o)
		l.carryOut(t, p)
		runs += p.Runs()
	}
	return kendall(l.abilities(t), l.truth), runs
}

func fullRanking(t testing.TB, seed uint64, docs int) float64 {
	t.Helper()
	l := newLeague(seed, docs)
	l.carryOut(t, mustPlan(t, evaluation(1, docs), pairwise, queuesOf(evaluation(1, docs), "q")))
	return kendall(l.abilities(t), l.truth)
}

// TestSwissRanksNearlyAsWellAsAllPairs is what the fewer calls are for.
func TestSwissRanksNearlyAsWellAsAllPairs(t *testing.T) {
	t.Parallel()
	const docs, share = 50, 0.4
	seeds := 20
	if testing.Short() {
		seeds = 5
	}
	var swiss, full float64
	for seed := range uint64(seeds) {
		tau, runs := swissRanking(t, seed, docs, share)
		if want := docs * (docs - 1) / 2 * 4 / 10 * 2; runs != want {
			t.Fatalf("%d runs, want %d", runs, want)
		}
		swiss += tau / float64(seeds)
		full += fullRanking(t, seed, docs) / float64(seeds)
	}
	t.Logf("mean τ: %.4f with %v of the pairs, %.4f with all: %.1f %%", swiss, share, full, 100*swiss/full)
	if swiss < 0.93*full {
		t.Errorf("mean τ is %.4f, want at least 93 %% of %.4f", swiss, full)
	}
}
