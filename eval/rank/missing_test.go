package rank

import (
	"math/rand/v2"
	"testing"
)

// TestBoundsOfMissingVerdicts: where half of the last candidate's losses are missing, it
// seems better than it is; its bounds have its true rank, and those of a candidate
// without missing verdicts are its ranks.
func TestBoundsOfMissingVerdicts(t *testing.T) {
	t.Parallel()
	e := evaluations{candidates: 4, apart: 0.3, items: 150, judges: []simulatedJudge{{scale: 1}}, fails: 0.5}
	random := rand.New(rand.NewPCG(3, 4))
	observed, missing := e.incomplete(random, e.observed(random, e.abilities(random)))
	if len(missing) < 60 {
		t.Fatalf("%d verdicts are missing", len(missing))
	}
	fit, u := estimated(t, 4, observed, Options{OrderEffect: true}, Drawing{Draws: 1})
	if u.RankHigh[0] == 4 {
		t.Fatalf("the last has rank %d, at most %d: it does not seem better than it is", fit.rank(0), u.RankHigh[0])
	}
	got, err := BoundsOf(t.Context(), 0, 4, 1, observed, missing, Options{OrderEffect: true})
	if err != nil || got.Worst != 4 || got.High != 4 || got.Best > fit.rank(0) || got.Low > u.RankLow[0] {
		t.Errorf("bounds %+v, %v; rank %d", got, err, fit.rank(0))
	}
	var others []Missing
	for _, m := range missing {
		if m.First != 3 && m.Second != 3 {
			others = append(others, m)
		}
	}
	got, err = BoundsOf(t.Context(), 3, 4, 1, observed, others, Options{OrderEffect: true})
	if want := (Bounds{fit.rank(3), fit.rank(3), u.RankLow[3], u.RankHigh[3]}); err != nil || got != want {
		t.Errorf("without missing verdicts of its own: %+v, %v; want %+v", got, err, want)
	}
}
