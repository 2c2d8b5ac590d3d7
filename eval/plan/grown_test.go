package plan_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
)

// grown returns an evaluation of items that models have answered, to which the last ones are added. The others have been
// compared.
func grown(models, newcomers, items, opponents int) *eval.Evaluation {
	sizes := slices.Repeat([]int{models}, items)
	e := ofModels(evaluation(2, sizes...), models)
	e.Single = nil
	pairs := eval.Pairs{Mode: eval.PairsGrown, Opponents: opponents}
	for m := models - newcomers; m < models; m++ {
		pairs.Newcomers = append(pairs.Newcomers, fmt.Sprintf("m%d", m))
	}
	for item := range items {
		for a := range models - newcomers {
			for b := a + 1; b < models-newcomers; b++ {
				pairs.Listed = append(pairs.Listed, [2]int{item*models + a, item*models + b})
			}
		}
	}
	e.Pairwise.Pairs = pairs
	return e
}

// placeAll chooses all rounds of an evaluation by what is found before each.
func placeAll(t *testing.T, e *eval.Evaluation, found func(phase int) plan.Found) (choices []*plan.Choice) {
	t.Helper()
	choices = []*plan.Choice{nil}
	for phase := 1; phase < len(plan.Phases(e)); phase++ {
		if plan.BasisOf(e, phase) != plan.ByVerdicts {
			t.Fatalf("phase %d does not depend on verdicts", phase)
		}
		open := mustPlan(t, e, phase, queuesOf(e, "q"))
		choice, err := plan.Choose(e, phase, choices, found(phase))
		if err != nil {
			t.Fatal(err)
		}
		o := queuesOf(e, "q")
		o.Choice = choice
		chosen := mustPlan(t, e, phase, o)
		if !open.Open() || chosen.Open() || chosen.Runs() > open.Runs() {
			t.Errorf("phase %d: %d runs before it is chosen, then %d", phase, open.Runs(), chosen.Runs())
		}
		choices = append(choices, choice)
	}
	return choices
}

// pairsIn returns the pairs of choices, each once.
func pairsIn(t *testing.T, choices ...*plan.Choice) map[[2]int]bool {
	t.Helper()
	all := map[[2]int]bool{}
	for _, choice := range choices {
		if choice == nil {
			continue
		}
		for _, list := range choice.Pairs {
			for _, other := range list[1:] {
				if all[[2]int{list[0], other}] {
					t.Errorf("documents %d and %d are compared twice", list[0], other)
				}
				all[[2]int{list[0], other}] = true
			}
		}
	}
	return all
}

// Every answer of a newcomer meets as many others as it should, each once, of its own item and no newcomer's; and the
// first phase is what was recorded, whatever the order.
func TestGrown(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ models, newcomers, items, opponents int }{
		{6, 1, 5, 3}, {13, 1, 7, 8}, {9, 2, 4, 1}, {4, 2, 3, 8}, {40, 3, 2, 16}, {3, 1, 1, 2},
	} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			t.Parallel()
			e := grown(test.models, test.newcomers, test.items, test.opponents)
			abilities := make([]float64, len(e.Documents))
			for i := range abilities {
				abilities[i] = math.Sin(float64(i % test.models))
			}
			choices := placeAll(t, e, func(int) plan.Found { return plan.Found{Abilities: abilities} })
			met := map[int]int{}
			for pair := range pairsIn(t, choices...) {
				a, b := e.Documents[pair[0]], e.Documents[pair[1]]
				if a.Item != b.Item || slices.Contains(e.Pairwise.Pairs.Newcomers, a.Candidate) == slices.Contains(e.Pairwise.Pairs.Newcomers, b.Candidate) {
					t.Fatalf("%s meets %s", a.ID, b.ID)
				}
				for _, i := range pair {
					met[i]++
				}
			}
			for i, d := range e.Documents {
				want := min(test.opponents, test.models-test.newcomers)
				if slices.Contains(e.Pairwise.Pairs.Newcomers, d.Candidate) && met[i] != want {
					t.Errorf("%s meets %d, want %d", d.ID, met[i], want)
				}
			}

			for _, order := range []eval.Order{eval.OrderBoth, eval.OrderRandom, eval.OrderAsListed} {
				e.Pairwise.Order = order
				for k, pair := range e.Pairwise.Pairs.Listed { // as they were shown
					if order != eval.OrderBoth && k%2 == 1 && pair[0] < pair[1] {
						e.Pairwise.Pairs.Listed[k] = [2]int{pair[1], pair[0]}
					}
				}
				p := mustPlan(t, e, 0, queuesOf(e, "q"))
				each := plan.RunsOfPair(e, 0)
				if !plan.Recorded(e, 0) || plan.Recorded(e, 1) || p.Runs() != len(e.Pairwise.Pairs.Listed)*each {
					t.Fatalf("%s: the first phase has %d runs", order, p.Runs())
				}
				for k, pair := range e.Pairwise.Pairs.Listed {
					if run := p.Run(k * each); run.First != pair[0] || run.Second != pair[1] {
						t.Fatalf("%s: pair %d is shown as %d, %d, and was %v", order, k, run.First, run.Second, pair)
					}
				}
			}
		})
	}
}

// The first round meets all parts of the ranking, the last the closest of those who were not met; a newcomer that is placed
// gets no further pairs.
func TestGrownRounds(t *testing.T) {
	t.Parallel()
	e := grown(34, 2, 8, 8) // m32 and m33 are new
	abilities := make([]float64, len(e.Documents))
	for i := range abilities {
		abilities[i] = float64(i % 34) // m33 is the best
	}
	choices := placeAll(t, e, func(phase int) plan.Found {
		found := plan.Found{Abilities: abilities}
		if phase > 2 {
			found.Placed = []string{"m32"}
		}
		return found
	})
	if len(choices) != 5 {
		t.Fatalf("%d phases, want the recorded one and 4 rounds", len(choices))
	}

	parts := map[int]int{}
	for pair := range pairsIn(t, choices[1]) {
		if pair[1]%34 == 33 {
			parts[pair[0]%34/8]++
		}
	}
	if len(parts) != 4 || slices.Max(slices.Collect(maps.Values(parts))) > 3 {
		t.Errorf("the 8 answers meet quarters of the ranking %v times", parts)
	}
	for pair := range pairsIn(t, choices[3:]...) {
		if pair[1]%34 != 33 || pair[0]%34 < 32-8 {
			t.Errorf("m%d meets m%d", pair[1]%34, pair[0]%34)
		}
	}
}

// A plan refuses newcomers that cannot be placed, or have been compared.
func TestGrownProblems(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(e *eval.Evaluation){
		"want 1 to 1000":                   func(e *eval.Evaluation) { e.Pairwise.Pairs.Opponents = 0 },
		"not sorted names":                 func(e *eval.Evaluation) { e.Pairwise.Pairs.Newcomers = nil },
		"no pairs are listed":              func(e *eval.Evaluation) { e.Pairwise.Pairs.Listed = nil },
		`"m3" is a newcomer, and has rec`:  func(e *eval.Evaluation) { e.Pairwise.Pairs.Listed[0] = [2]int{0, 3} },
		"names documents 0 and 99 of":      func(e *eval.Evaluation) { e.Pairwise.Pairs.Listed[0] = [2]int{0, 99} },
		"newcomers have no opponents":      func(e *eval.Evaluation) { e.Pairwise.Pairs.Newcomers = []string{"m9"} },
		"are not compared by their scores": func(e *eval.Evaluation) { e.Pairwise.TopN = 2 },
	} {
		e := grown(4, 1, 3, 2)
		change(e)
		if _, err := plan.New(e, 0, queuesOf(e, "q")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	e := grown(4, 1, 3, 2)
	if _, err := plan.Choose(e, 2, []*plan.Choice{nil, nil}, plan.Found{Abilities: make([]float64, 12)}); err == nil {
		t.Error("a round is chosen before the one that it follows")
	}
}
