package rank

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/stat"
)

// scored are scores of candidates by item.
func scored(byItem [][]float64) (all []Scores) {
	for item, scores := range byItem {
		for candidate, score := range scores {
			all = append(all, Scores{Candidate: candidate, Cluster: item, Sum: score, Count: 1})
		}
	}
	return all
}

// TestEffectsOfScores: where every candidate has one score on each item, effects and the interaction of two prompts and
// two models are those of paired t tests over items.
func TestEffectsOfScores(t *testing.T) {
	t.Parallel()
	byItem := [][]float64{{5, 3, 2, 1}, {4, 4, 3, 3}, {5, 2, 4, 1}, {3, 3, 1, 2}, {5, 4, 2, 2}, {4, 1, 3, 1}}
	said, ok := MeanEffects(Layout{{0, 1}, {2, 3}}, 4, scored(byItem), 1, 5)
	if !ok {
		t.Fatal("there are no effects")
	}
	paired := func(weights [4]float64) (mean, se, p float64) {
		var differences []float64
		for _, scores := range byItem {
			sum := 0.0
			for k, weight := range weights {
				sum += weight * scores[k]
			}
			differences = append(differences, sum)
		}
		mean, deviation := stat.MeanStdDev(differences, nil)
		se = deviation / math.Sqrt(float64(len(byItem)))
		return mean, se, 2 * student(float64(len(byItem)-1)).Survival(math.Abs(mean/se))
	}
	for what, c := range map[string]struct {
		weights [4]float64
		by, se  float64
	}{
		"first row":     {[4]float64{.5, .5}, said.Rows[0].At, said.Rows[0].SE},
		"second column": {[4]float64{1: .5, 3: .5}, said.Columns[1].At, said.Columns[1].SE},
		"rows":          {[4]float64{.5, .5, -.5, -.5}, said.RowRange.By, said.RowRange.SE},
		"columns":       {[4]float64{.5, -.5, .5, -.5}, said.ColumnRange.By, said.ColumnRange.SE},
		"interaction":   {[4]float64{.25, -.25, -.25, .25}, said.Interaction[0][0].By, said.Interaction[0][0].SE},
	} {
		if mean, se, _ := paired(c.weights); !near(c.by, mean, 1e-9) || !near(c.se, se, 1e-9) {
			t.Errorf("%s: got %.4f ± %.4f, want %.4f ± %.4f", what, c.by, c.se, mean, se)
		}
	}
	if _, _, p := paired([4]float64{1, -1, -1, 1}); said.Untested != Tested || !near(said.P, p, 1e-9) {
		t.Errorf("the interaction has p = %.6f (%d), want %.6f", said.P, said.Untested, p)
	}
	if said.Rows[0].RankHigh != 1 || said.Rows[1].RankLow != 2 || said.More != 0 {
		t.Errorf("got rows %+v, columns %+v, more %d; want the first row ahead, and not which differs more", said.Rows, said.Columns, said.More)
	}
}

// TestEffectsShareTheChance: a difference that only one test alone would call more than chance is not claimed.
func TestEffectsShareTheChance(t *testing.T) {
	t.Parallel()
	var byItem [][]float64
	for _, luck := range []float64{2, 1, 0.4, 2, -1, 1, 1, 0} {
		byItem = append(byItem, []float64{10 + luck, 10 + luck, 10, 10.1, 9.9, 10 + luck/4})
	}
	said, _ := MeanEffects(Layout{{0, 1}, {2, 3}, {4, 5}}, 6, scored(byItem), 0, 20)
	first := said.RowRange
	alone := 2 * student(7).Survival(first.By/first.SE)
	if first.Highest != 0 || alone > 0.05 || alone < 0.0125 {
		t.Fatalf("the first row is above by %+v, p = %.4f alone: not what this test is about", first, alone)
	}
	if said.Rows[0].RankHigh != 3 || first.Low > 0 {
		t.Errorf("the first row is called ahead of another: %+v, range %+v", said.Rows, first)
	}
}

// TestWhichFactorDiffersMore: it is said only if chance does not explain the difference.
func TestWhichFactorDiffersMore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		row, column float64
		want        int
	}{"rows": {3, 0.1, 1}, "columns": {0.1, 3, -1}, "both alike": {2, 2, 0}, "none": {0, 0, 0}} {
		var byItem [][]float64
		for item := range 12 {
			noise := func(k int) float64 { return math.Sin(float64(7*item + 3*k + 1)) }
			byItem = append(byItem, []float64{
				5 + noise(0), 5 + c.column + noise(1), 5 + c.row + noise(2), 5 + c.row + c.column + noise(3),
			})
		}
		if said, _ := MeanEffects(Layout{{0, 1}, {2, 3}}, 4, scored(byItem), 0, 20); said.More != c.want {
			t.Errorf("%s: got %d, want %d", name, said.More, c.want)
		}
	}
}

// TestEffectsThatAreNotKnown: there are no numbers without evidence for them.
func TestEffectsThatAreNotKnown(t *testing.T) {
	t.Parallel()
	square := Layout{{0, 1}, {2, 3}}
	cycle := func(clusters int, all ...int) (games []Observed) {
		for k := range clusters {
			for at, i := range all {
				outcome := FirstWins
				if (k+at)%3 == 0 {
					outcome = SecondWins
				}
				games = append(games, game(k, i, all[(at+1)%len(all)], outcome))
			}
		}
		return games
	}
	how := Drawing{Draws: 10, Seed: 1}

	_, u := estimated(t, 4, append(cycle(9, 0, 1), cycle(9, 2, 3)...), Options{}, how)
	if _, ok := u.Effects(square); ok {
		t.Error("candidates that no verdict relates have effects")
	}
	_, u = estimated(t, 4, []Observed{game(0, 0, 1, FirstWins), game(1, 0, 2, FirstWins), game(2, 0, 3, SecondWins)}, Options{OrderEffect: true}, how)
	if _, ok := u.Effects(square); ok {
		t.Error("what may be a preference for a position is an effect")
	}
	games := cycle(9, 0, 1, 2)
	for k := range 9 {
		games = append(games, game(k, 3, k%3, FirstWins))
	}
	_, u = estimated(t, 4, games, Options{}, how)
	if said, ok := u.Effects(square); !ok || said.Untested != Assumed || said.Interaction != nil || !math.IsNaN(said.P) || said.More != 0 {
		t.Errorf("a candidate that always won: got %+v", said)
	}
	_, u = estimated(t, 6, cycle(2, 0, 2, 4, 1, 3, 5), Options{Ridge: 1e-9}, how)
	if said, ok := u.Effects(Layout{{0, 1, 2}, {3, 4, 5}}); !ok || said.Untested == Tested {
		t.Errorf("two clusters, two degrees of freedom: got %+v", said)
	}

	if _, ok := MeanEffects(square, 4, scored([][]float64{{1, 2, 3, 4}}), 1, 5); ok {
		t.Error("the scores on one item have effects")
	}
	if _, ok := MeanEffects(square, 4, scored([][]float64{{1, 2, 3}, {1, 2, 4}}), 1, 5); ok {
		t.Error("a candidate without scores has an effect")
	}
	said, ok := MeanEffects(square, 4, scored([][]float64{{5, 1, 5, 1}, {5, 1, 5, 1}, {5, 1, 5, 1}}), 1, 5)
	if !ok || said.Untested != NoVariance || !math.IsNaN(said.Rows[0].Low) || said.Columns[0].RankHigh != 2 {
		t.Errorf("scores that do not vary: got %+v", said)
	}
	few := [][]float64{{1, 2, 3, 4, 5, 6}, {2, 2, 4, 4, 4, 7}, {1, 3, 3, 5, 5, 5}}
	if said, _ := MeanEffects(Layout{{0, 1, 2}, {3, 4, 5}}, 6, scored(few[:2]), 1, 7); said.Untested != FewClusters || said.Interaction == nil {
		t.Errorf("two items, two degrees of freedom: got %+v", said)
	}
	if said, _ := MeanEffects(Layout{{0, 1, 2}, {3, 4, 5}}, 6, scored(few), 1, 7); said.Untested != Tested {
		t.Errorf("three items, two degrees of freedom: got %+v", said)
	}
}
