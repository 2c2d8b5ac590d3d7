package eval_test

import (
	"math"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
)

// TestRubricScore compares with scores that HealthBench's formula gives: points of what is met, of all positive points.
func TestRubricScore(t *testing.T) {
	t.Parallel()
	item := eval.Item{Rubric: []eval.RubricCriterion{{Text: "dose", Points: 7}, {Text: "source", Points: 3}, {Text: "invents", Points: -8}}}
	for name, c := range map[string]struct {
		met  []float64
		want float64
	}{
		"everything good": {[]float64{1, 1, 0}, 100},
		"nothing":         {[]float64{0, 0, 0}, 0},
		"a part":          {[]float64{0, 1, 0}, 30},
		"a fault":         {[]float64{1, 1, 1}, 20},
		"only a fault":    {[]float64{0, 0, 1}, -80},
	} {
		if got := item.RubricScore(c.met); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %g, want %g", name, got, c.want)
		}
	}
	third := eval.Item{Rubric: []eval.RubricCriterion{{Points: 3}, {Points: -1}}}
	if got, want := eval.RubricScale([]eval.Item{{}, item, third}), (eval.Scale{Min: -80, Max: 100}); got != want {
		t.Errorf("scale %v, want %v", got, want)
	}
	if got, want := eval.RubricScale([]eval.Item{third}), (eval.Scale{Min: -34, Max: 100}); got != want {
		t.Errorf("scale %v, want %v: the lower end is rounded down", got, want)
	}
}

// TestRubricPosition: only the names that RubricID gives belong to a criterion of the item.
func TestRubricPosition(t *testing.T) {
	t.Parallel()
	item := eval.Item{Rubric: make([]eval.RubricCriterion, 12)}
	for i := range item.Rubric {
		if got := item.RubricPosition(eval.RubricID(i)); got != i {
			t.Errorf("%q is criterion %d, want %d", eval.RubricID(i), got, i)
		}
	}
	for _, name := range []string{"", "rubric", "1", "rubric 0", "rubric 13", "rubric 01", "rubric +1", "rubric  1", "rubric 1 ", "Rubric 1", "rubric -1"} {
		if got := item.RubricPosition(name); got != -1 {
			t.Errorf("%q is criterion %d, want none", name, got)
		}
	}
}
