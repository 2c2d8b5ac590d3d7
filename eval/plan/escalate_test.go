package plan_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
)

// escalating has two judges that score and compare everything, and a strong one.
func escalating(share float64, items ...int) *eval.Evaluation {
	e := evaluation(3, items...)
	e.Escalate = &eval.Escalate{When: eval.Doubts(), Share: share}
	return e
}

// found takes the first pairs as contested, and the rest as agreed.
func found(contested, pairs int) (f plan.Found) {
	for number := range pairs {
		if number < contested {
			f.Contested = append(f.Contested, number)
		} else {
			f.Agreed = append(f.Agreed, number)
		}
	}
	return f
}

// TestEscalationAsksTheStrongJudgeLater: the strong judge scores nothing and compares nothing with the others; a phase of
// its own follows, about at most all pairs.
func TestEscalationAsksTheStrongJudgeLater(t *testing.T) {
	t.Parallel()
	e := escalating(0.2, 6, 5)
	want := []eval.Kind{eval.KindSingle, eval.KindPairwise, eval.KindPairwise}
	if got := plan.Phases(e); !slices.Equal(got, want) {
		t.Fatalf("phases %v, want %v", got, want)
	}
	for phase, judges := range [][]int{{0, 1}, {0, 1}, {2}} {
		o := queuesOf(e, "a", "b", "c")
		o.JudgeQueues = o.JudgeQueues[:len(e.JudgesOf(want[phase]))]
		p := mustPlan(t, e, phase, o)
		var asked []int
		counts := make([]int, len(o.JudgeQueues))
		for i := range p.Runs() {
			judge := p.Run(i).Judge
			counts[judge]++
			if !slices.Contains(asked, judge) {
				asked = append(asked, judge)
			}
		}
		if !slices.Equal(asked, judges) || p.Open() != (phase == 2) {
			t.Errorf("phase %d asks judges %v, open %v; want %v", phase, asked, p.Open(), judges)
		}
		if got := plan.Asks(e, phase, p.Runs()); !slices.Equal(got, counts) {
			t.Errorf("phase %d asks judges %v times, want %v", phase, got, counts)
		}
		if queues := []string{"a", "b", "c"}[judges[0] : judges[len(judges)-1]+1]; !slices.Equal(p.Queues(), queues) {
			t.Errorf("phase %d has queues %v, want %v", phase, p.Queues(), queues)
		}
	}
	if got := plan.PairSizes(e); !slices.Equal(got, []int{1, 4, 2}) {
		t.Errorf("a pair has %v runs", got)
	}
	if plan.Prefixes(e) {
		t.Error("the first pairs are said to be a sample of all verdicts")
	}
}

// TestEscalationChoosesContestedPairsAndASample: every contested pair is compared, and exactly the share of the others; the
// same ones each time, in another evaluation others, and each in the orders in which the first judges saw it.
func TestEscalationChoosesContestedPairsAndASample(t *testing.T) {
	t.Parallel()
	e := escalating(0.2, 20)
	e.Pairwise.Order = eval.OrderRandom
	o := queuesOf(e, "q")
	first := mustPlan(t, e, 1, o)
	choice, err := plan.Choose(e, 2, make([]*plan.Choice, 2), found(30, 190))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(choice.Contested, found(30, 190).Contested) || len(choice.Sampled) != 32 || !slices.IsSorted(choice.Sampled) || choice.Sampled[0] < 30 {
		t.Fatalf("contested %v, sampled %v", choice.Contested, choice.Sampled)
	}
	again, _ := plan.Choose(e, 2, make([]*plan.Choice, 2), found(30, 190))
	if diff := cmp.Diff(choice, again); diff != "" {
		t.Errorf("chosen again:\n%s", diff)
	}

	o.Choice = choice
	p := mustPlan(t, e, 2, o)
	shown := map[[2]int]int{} // the numbers of the pairs
	for number := range 190 {
		run := first.Run(number * 2)
		if slices.Contains(choice.Contested, number) || slices.Contains(choice.Sampled, number) {
			shown[[2]int{run.First, run.Second}] = number
		}
	}
	var order []int
	for i := range p.Runs() {
		run := p.Run(i)
		number, chosen := shown[[2]int{run.First, run.Second}]
		if !chosen || run.Judge != 2 {
			t.Errorf("run %d asks judge %d about %d and %d, which is not chosen, or in the other order", i, run.Judge, run.First, run.Second)
		}
		delete(shown, [2]int{run.First, run.Second})
		order = append(order, number)
	}
	if p.Open() || len(shown) > 0 {
		t.Errorf("open %v, %d of the chosen pairs are not compared", p.Open(), len(shown))
	}
	if slices.IsSorted(order) {
		t.Error("pairs are in the plan's order, so that those before an early end are no random ones")
	}

	documents, err := plan.EscalatedPairs(e, choice.Sampled)
	if err != nil || len(documents) != len(choice.Sampled) {
		t.Fatalf("documents %v, %v", documents, err)
	}
	run := first.Run(choice.Sampled[3] * 2)
	if documents[3] != [2]int{min(run.First, run.Second), max(run.First, run.Second)} {
		t.Errorf("pair %d is of %v, want %d and %d", choice.Sampled[3], documents[3], run.First, run.Second)
	}
}

// TestEscalationSamplesEveryPairEquallyOften: over many evaluations, each pair that is not contested is drawn about as often
// as any other.
func TestEscalationSamplesEveryPairEquallyOften(t *testing.T) {
	t.Parallel()
	const evaluations = 400
	drawn := make([]int, 105)
	for k := range evaluations {
		e := escalating(0.2, 15)
		e.Name = strings.Repeat("x", k)
		choice, err := plan.Choose(e, 2, make([]*plan.Choice, 2), found(5, 105))
		if err != nil {
			t.Fatal(err)
		}
		for _, number := range choice.Sampled {
			drawn[number]++
		}
	}
	for number, times := range drawn[5:] {
		if share, slack := float64(times)/evaluations, 5*math.Sqrt(0.2*0.8/evaluations); math.Abs(share-0.2) > slack {
			t.Errorf("pair %d is drawn in %.2f of the evaluations, want about 0.2", number+5, share)
		}
	}
}

// TestEscalationSamplesSomePairs: a small share takes ten pairs, or all if there are fewer.
func TestEscalationSamplesSomePairs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		share        float64
		agreed, want int
	}{{0.01, 100, 10}, {0.01, 4, 4}, {0.2, 0, 0}, {0.2, 101, 21}, {1, 50, 50}} {
		if got := plan.Sampled(&eval.Escalate{Share: tt.share}, tt.agreed); got != tt.want {
			t.Errorf("share %v of %d: %d pairs, want %d", tt.share, tt.agreed, got, tt.want)
		}
	}
}

// TestEscalationIsChecked: what makes no sense is refused.
func TestEscalationIsChecked(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, says string
		change     func(*eval.Evaluation)
	}{
		{"nobody else", "another one that sees all pairs first", func(e *eval.Evaluation) { e.Judges = e.Judges[:1] }},
		{"no sample", "share is 0", func(e *eval.Evaluation) { e.Escalate.Share = 0 }},
		{"too many", "share is 1.5", func(e *eval.Evaluation) { e.Escalate.Share = 1.5 }},
		{"no number", "share is NaN", func(e *eval.Evaluation) { e.Escalate.Share = math.NaN() }},
		{"no doubt", "when a pair is contested", func(e *eval.Evaluation) { e.Escalate.When = nil }},
		{"another doubt", `contested when "often"`, func(e *eval.Evaluation) { e.Escalate.When = []eval.Doubt{"often"} }},
		{"rounds", "in rounds (swiss)", func(e *eval.Evaluation) { e.Pairwise.Pairs = eval.Pairs{Mode: eval.PairsSwiss, Share: 0.4} }},
		{"the best by score", "top_n", func(e *eval.Evaluation) { e.Pairwise.TopN = 3 }},
	} {
		e := escalating(0.2, 6)
		tt.change(e)
		if _, err := plan.New(e, 1, queuesOf(e, "q")); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want an error that says %s", tt.name, err, tt.says)
		}
	}

	e := escalating(0.2, 6)
	for name, choice := range map[string]*plan.Choice{
		"beyond":     {Contested: []int{15}},
		"twice":      {Contested: []int{3}, Sampled: []int{3}},
		"other kind": {Documents: []int{1, 2}},
	} {
		o := queuesOf(e, "q")
		o.Choice = choice
		if _, err := plan.New(e, 2, o); err == nil {
			t.Errorf("%s: the choice %+v is taken", name, *choice)
		}
	}
	if _, err := plan.Choose(e, 2, make([]*plan.Choice, 2), plan.Found{Contested: []int{4, 2}}); err == nil {
		t.Error("pairs that are not in order are taken")
	}
	if _, err := plan.EscalatedPairs(e, []int{99}); err == nil {
		t.Error("a pair beyond the plan has documents")
	}
}

// What a store holds may be wrong: without pairs or judges there is no strong judge, and every question about it has an
// answer.
func TestEscalationOfNothing(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*eval.Evaluation){
		"no pairs":  func(e *eval.Evaluation) { e.Pairwise = nil },
		"no judges": func(e *eval.Evaluation) { e.Judges = nil },
	} {
		e := escalating(0.2, 6)
		change(e)
		if strong := e.Strong(); strong >= 0 || len(e.FirstJudges()) != len(e.Judges) {
			t.Errorf("%s: strong judge %d, %d judges before it", what, strong, len(e.FirstJudges()))
		}
		for phase := range plan.Phases(e) {
			if plan.Escalated(e, phase) || len(plan.Asks(e, phase, 10)) != len(e.Judges) {
				t.Errorf("%s: phase %d asks %v, escalated %t", what, phase, plan.Asks(e, phase, 10), plan.Escalated(e, phase))
			}
		}
	}
}
