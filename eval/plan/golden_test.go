package plan_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
)

var update = flag.Bool("update", false, "write testdata/runs.golden anew")

// TestMeaningOfIndexes fails when an index means another run than it did before.
// Records made under the old meaning would then be read under the new one: such
// a change needs a new eval.PlanVersion beside -update.
func TestMeaningOfIndexes(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	fmt.Fprintf(&got, "plan version %d\n", eval.PlanVersion)
	write := func(title string, e *eval.Evaluation, phase int, queues ...string) {
		p := mustPlan(t, e, phase, plan.Options{JudgeQueues: append([]string{"a", "b"}, queues...)})
		fmt.Fprintf(&got, "\n%s of %s: %d runs\nindex judge first second trial\n", title, e.ID(), p.Runs())
		for i := range min(p.Runs(), 12) {
			run := p.Run(i)
			fmt.Fprintf(&got, "%d %d %d %d %d\n", run.Index, run.Judge, run.First, run.Second, run.Trial)
		}
		for i := 12; i < p.Runs(); i = i*2 + 1 { // further ones, ever sparser
			run := p.Run(i)
			fmt.Fprintf(&got, "%d %d %d %d %d\n", run.Index, run.Judge, run.First, run.Second, run.Trial)
		}
	}
	small := func() *eval.Evaluation {
		e := evaluation(2, 3, 1, 40)
		e.Single.Trials, e.Pairwise.Trials = 2, 2
		return e
	}
	write("single", small(), single)
	for _, order := range []eval.Order{eval.OrderBoth, eval.OrderRandom, eval.OrderAsListed} {
		for _, pairs := range []eval.Pairs{
			{Mode: eval.PairsAll},
			{Mode: eval.PairsSample, Sample: 0.25},
			{Mode: eval.PairsListed, Listed: [][2]int{{2, 0}, {5, 4}, {1, 2}}},
		} {
			e := small()
			e.Pairwise.Order, e.Pairwise.Pairs = order, pairs
			write(fmt.Sprintf("pairwise, %s, %s", pairs.Mode, order), e, pairwise)
		}
	}
	against := ofModels(small(), 3)
	against.Pairwise.Pairs = eval.Pairs{Mode: eval.PairsBaseline, Baseline: "m1"}
	write("pairwise, baseline", against, pairwise)
	rounds := small()
	rounds.Pairwise.Pairs = eval.Pairs{Mode: eval.PairsSwiss, Share: 0.4}
	write("pairwise, swiss, round 1", rounds, pairwise)
	write("runs", listed(20), 0, "c")
	write("prompts", prompted(20), 0, "c")

	p := mustPlan(t, panel(2, 2, 3), 0, plan.Options{JudgeQueues: []string{"a", "b"}})
	fmt.Fprintf(&got, "\npanel: %d runs\nindex judge document dimension\n", p.Runs())
	for i := range p.Runs() {
		run := p.Run(i)
		fmt.Fprintf(&got, "%d %d %d %d\n", run.Index, run.Judge, run.First, run.Dimension)
	}

	const file = "testdata/runs.golden"
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("indexes mean other runs than in %s; got:\n%s", file, got.String())
	}
}
