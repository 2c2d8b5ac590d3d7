package plan_test

import (
	"fmt"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
)

func TestSample(t *testing.T) {
	t.Parallel()
	const pairs = 50*49/2 + 3 // of items of 50 and 3 documents
	for _, test := range []struct {
		share float64
		want  int
	}{{0.2, 246}, {0.00001, 1}, {1, pairs}, {0.5, 614}} {
		t.Run(fmt.Sprint(test.share), func(t *testing.T) {
			t.Parallel()
			e := evaluation(2, 50, 1, 3)
			e.Pairwise.Pairs = eval.Pairs{Mode: eval.PairsSample, Sample: test.share}
			o := queuesOf(e, "a", "b")
			got := asked(t, mustPlan(t, e, pairwise, o), o)
			everything := naive(e, pairwise)
			for q, n := range got {
				if everything[q] != n {
					t.Errorf("run %+v is there %d times, want %d", q, n, everything[q])
				}
			}
			if want := test.want * 2 * 2; len(got) != want { // orders, judges
				t.Errorf("%d different runs, want %d", len(got), want)
			}
		})
	}
}

// Every pair must be as likely to be drawn as any other, also from few pairs,
// where a Feistel network has the fewest bits to work with.
func TestSampleIsFair(t *testing.T) {
	t.Parallel()
	for _, docs := range []int{2, 3, 4, 5, 7} {
		pairs := docs * (docs - 1) / 2
		drawn := map[[2]int]int{}
		const draws = 500
		e := evaluation(1, docs)
		e.Pairwise.Order = eval.OrderAsListed
		e.Pairwise.Pairs = eval.Pairs{Mode: eval.PairsSample, Sample: 1e-9}
		for i := range draws {
			e.Again = fmt.Sprint(i)
			run := mustPlan(t, e, pairwise, queuesOf(e, "q")).Run(0)
			drawn[[2]int{run.First, run.Second}]++
		}
		chi, expected := 0.0, draws/float64(pairs)
		for a := range docs {
			for b := a + 1; b < docs; b++ {
				d := float64(drawn[[2]int{a, b}]) - expected
				chi += d * d / expected
			}
		}
		// 99.9 % of fair draws stay below 45.3 at 20 degrees of freedom, and lower with
		// fewer; the draws are the same in every run of this test.
		if chi > 45.3 {
			t.Errorf("%d documents: chi-square %.1f over %d pairs: %v", docs, chi, pairs, drawn)
		}
	}
}
