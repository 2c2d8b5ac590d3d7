package plan_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
)

// evaluation has items of the given numbers of documents, and judges that ask
// everything once.
func evaluation(judges int, items ...int) *eval.Evaluation {
	e := &eval.Evaluation{Name: "essays", JSON: eval.JSONAuto}
	for i, docs := range items {
		e.Items = append(e.Items, eval.Item{ID: fmt.Sprintf("q%03d", i)})
		for d := range docs {
			id := fmt.Sprintf("q%03d/%05d.md", i, d)
			e.Documents = append(e.Documents, eval.Document{ID: id, Item: i, Candidate: id, Hash: eval.TextHash(id)})
		}
	}
	for j := range judges {
		e.Judges = append(e.Judges, eval.Judge{Name: fmt.Sprintf("judge%d", j), Provider: "simulator", Model: "careful"})
	}
	e.Single = &eval.Single{Criteria: []eval.Criterion{{Name: "style"}}, Scale: eval.Scale{Min: 1, Max: 5}, Trials: 1}
	e.Pairwise = &eval.Pairwise{Pairs: eval.Pairs{Mode: eval.PairsAll}, Order: eval.OrderBoth, Trials: 1}
	e.Normalize()
	return e
}

const (
	single   = 0 // the phases of evaluation()
	pairwise = 1
)

func queuesOf(e *eval.Evaluation, names ...string) plan.Options {
	o := plan.Options{}
	for j := range e.Judges {
		o.JudgeQueues = append(o.JudgeQueues, names[j%len(names)])
	}
	return o
}

func mustPlan(t testing.TB, e *eval.Evaluation, phase int, o plan.Options) *plan.Plan {
	t.Helper()
	p, err := plan.New(e, phase, o)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return p
}

func TestPhasesAreSingleThenPairwise(t *testing.T) {
	t.Parallel()
	e := evaluation(1, 2)
	if got, want := plan.Phases(e), []eval.Kind{eval.KindSingle, eval.KindPairwise}; !slices.Equal(got, want) {
		t.Errorf("Phases = %v, want %v", got, want)
	}
	e.Panel = panel(1, 1, 1).Panel
	if got, want := plan.Phases(e), []eval.Kind{eval.KindSingle, eval.KindPairwise, eval.KindPanel}; !slices.Equal(got, want) {
		t.Errorf("Phases with a panel = %v, want %v", got, want)
	}
	e.Single, e.Panel = nil, nil
	if got, want := plan.Phases(e), []eval.Kind{eval.KindPairwise}; !slices.Equal(got, want) {
		t.Errorf("Phases without single = %v, want %v", got, want)
	}
}

// question is everything about a run but its number.
type question struct{ judge, first, second, trial int }

// naive counts the questions of a phase with nested loops, the pairs of mode
// all, in every order that is allowed.
func naive(e *eval.Evaluation, phase int) map[question]int {
	want := map[question]int{}
	add := func(trials, first, second int) {
		for trial := 1; trial <= trials; trial++ {
			for judge := range e.Judges {
				want[question{judge, first, second, trial}]++
			}
		}
	}
	for a, docA := range e.Documents {
		if phase == single {
			add(e.Single.Trials, a, -1)
			continue
		}
		for b, docB := range e.Documents {
			if a == b || docA.Item != docB.Item {
				continue
			}
			if a < b || e.Pairwise.Order == eval.OrderBoth {
				add(e.Pairwise.Trials, a, b)
			}
		}
	}
	return want
}

// asked collects the questions of all queues and checks what holds of any plan.
func asked(t *testing.T, p *plan.Plan, o plan.Options) map[question]int {
	t.Helper()
	got, total := map[question]int{}, 0
	if !slices.IsSorted(p.Queues()) {
		t.Errorf("Queues = %q, want them sorted", p.Queues())
	}
	for _, queue := range p.Queues() {
		last := -1
		for i := range p.Len(queue) {
			run := p.At(queue, i)
			if run.Index <= last && !p.Balanced() {
				t.Fatalf("At(%q, %d).Index = %d, want above %d", queue, i, run.Index, last)
			}
			last = run.Index
			if run.Index >= p.Runs() {
				t.Fatalf("At(%q, %d).Index = %d, want below Runs() = %d", queue, i, run.Index, p.Runs())
			}
			if o.JudgeQueues[run.Judge] != queue {
				t.Fatalf("At(%q, %d) is judge %d's, whose queue is %q", queue, i, run.Judge, o.JudgeQueues[run.Judge])
			}
			if other := p.Run(run.Index); other != run {
				t.Fatalf("Run(%d) = %+v, At(%q, %d) = %+v", run.Index, other, queue, i, run)
			}
			got[question{run.Judge, run.First, run.Second, run.Trial}]++
			total++
		}
	}
	if total != p.Runs() {
		t.Errorf("queues hold %d runs, want Runs() = %d", total, p.Runs())
	}
	return got
}

func TestEveryRunOnce(t *testing.T) {
	t.Parallel()
	for _, items := range [][]int{{2}, {1, 2, 1}, {3, 1, 5}, {15}, {16}, {17}, {32}, {33}, {50}, {16, 2, 17, 31}} {
		for _, phase := range []int{single, pairwise} {
			for _, order := range []eval.Order{eval.OrderBoth, eval.OrderAsListed} {
				t.Run(fmt.Sprintf("%v/%d/%s", items, phase, order), func(t *testing.T) {
					t.Parallel()
					e := evaluation(3, items...)
					e.Single.Trials, e.Pairwise.Trials, e.Pairwise.Order = 2, 2, order
					o := queuesOf(e, "b", "a")
					got := asked(t, mustPlan(t, e, phase, o), o)
					if diff := cmp.Diff(naive(e, phase), got, cmp.AllowUnexported(question{})); diff != "" {
						t.Errorf("runs (-want +got):\n%s", diff)
					}
				})
			}
		}
	}
}

func TestIndexDoesNotDependOnQueues(t *testing.T) {
	t.Parallel()
	e := evaluation(4, 20, 3)
	one := mustPlan(t, e, pairwise, queuesOf(e, "all"))
	many := mustPlan(t, e, pairwise, queuesOf(e, "d", "c", "b", "a"))
	for i := range one.Runs() {
		if got, want := many.Run(i), one.Run(i); got != want {
			t.Fatalf("run %d in four queues = %+v, in one = %+v", i, got, want)
		}
	}
}

func TestLimitKeepsTheFirstRuns(t *testing.T) {
	t.Parallel()
	e := evaluation(3, 4)
	for limit := 1; limit <= 40; limit++ {
		o := queuesOf(e, "a", "a", "b")
		all := mustPlan(t, e, pairwise, o)
		o.Limit = limit
		p := mustPlan(t, e, pairwise, o)
		if got, want := p.Runs(), min(limit, all.Runs()); got != want {
			t.Errorf("limit %d: Runs = %d, want %d", limit, got, want)
		}
		asked(t, p, o)
		wantQueues := []string{"a", "b"}
		if limit < 3 {
			wantQueues = []string{"a"}
		}
		if got := p.Queues(); !slices.Equal(got, wantQueues) {
			t.Errorf("limit %d: Queues = %q, want %q", limit, got, wantQueues)
		}
		last := all.Runs() - 1
		if got, want := p.Run(last), all.Run(last); got != want {
			t.Errorf("limit %d: Run(%d) = %+v, want %+v", limit, last, got, want)
		}
	}
}

func TestBothOrdersAreNeighbours(t *testing.T) {
	t.Parallel()
	for _, mode := range []eval.Pairs{
		{Mode: eval.PairsAll},
		{Mode: eval.PairsSample, Sample: 0.3},
		{Mode: eval.PairsListed, Listed: [][2]int{{3, 1}, {0, 2}}},
	} {
		e := evaluation(1, 20)
		e.Pairwise.Pairs = mode
		p := mustPlan(t, e, pairwise, queuesOf(e, "q"))
		for i := 0; i < p.Runs(); i += 2 {
			a, b := p.Run(i), p.Run(i+1)
			if a.First != b.Second || a.Second != b.First {
				t.Fatalf("%s: runs %d and %d = %+v, %+v, want one pair swapped", mode.Mode, i, i+1, a, b)
			}
		}
	}
}

func TestNeighboursShareDocuments(t *testing.T) {
	t.Parallel()
	e := evaluation(1, 1000)
	p := mustPlan(t, e, pairwise, queuesOf(e, "q"))
	const window = 512 // the runs of one tile in both orders
	most := 0
	for start := 0; start+window <= p.Runs(); start += 997 {
		texts := map[int]bool{}
		for i := start; i < start+window; i++ {
			run := p.Run(i)
			texts[run.First], texts[run.Second] = true, true
		}
		most = max(most, len(texts))
	}
	if want := 4 * 16; most > want { // row after row: 257
		t.Errorf("%d neighbouring runs need %d texts, want at most %d", window, most, want)
	}
}

func TestRandomOrder(t *testing.T) {
	t.Parallel()
	e := evaluation(2, 60)
	e.Pairwise.Order, e.Pairwise.Trials = eval.OrderRandom, 2
	o := queuesOf(e, "q")
	p := mustPlan(t, e, pairwise, o)
	if got, want := p.Runs(), 60*59/2*2*2; got != want {
		t.Fatalf("Runs = %d, want %d", got, want)
	}
	shown := map[[2]int]int{} // pair as enumerated → times not swapped
	for question, n := range asked(t, p, o) {
		a, b := question.first, question.second
		shown[[2]int{min(a, b), max(a, b)}] += 0
		if a < b {
			shown[[2]int{a, b}] += n
		}
	}
	straight := 0
	for pair, n := range shown {
		switch n {
		case 0:
		case 4:
			straight++
		default:
			t.Errorf("pair %v has %d of 4 runs in one order, want all in the same", pair, n)
		}
	}
	pairs := 60 * 59 / 2
	if len(shown) != pairs {
		t.Errorf("%d pairs, want %d", len(shown), pairs)
	}
	if straight < pairs*45/100 || straight > pairs*55/100 {
		t.Errorf("%d of %d pairs are as enumerated, want about half", straight, pairs)
	}

	e.Again = "2"
	other, same := mustPlan(t, e, pairwise, o), 0
	for i := 0; i < p.Runs(); i += 4 {
		if p.Run(i) == other.Run(i) {
			same++
		}
	}
	if same == pairs {
		t.Error("another evaluation has the same orders")
	}
}

func TestListedPairsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	e := evaluation(1, 4)
	e.Pairwise.Order = eval.OrderAsListed
	e.Pairwise.Pairs = eval.Pairs{Mode: eval.PairsListed, Listed: [][2]int{{3, 1}, {0, 2}, {1, 3}}}
	p := mustPlan(t, e, pairwise, queuesOf(e, "q"))
	var got [][2]int
	for i := range p.Runs() {
		run := p.Run(i)
		got = append(got, [2]int{run.First, run.Second})
	}
	if diff := cmp.Diff(e.Pairwise.Pairs.Listed, got); diff != "" {
		t.Errorf("pairs (-want +got):\n%s", diff)
	}
}

func TestOutOfRangePanics(t *testing.T) {
	t.Parallel()
	e := evaluation(1, 3)
	p := mustPlan(t, e, pairwise, queuesOf(e, "q"))
	for name, f := range map[string]func(){
		"At below":         func() { p.At("q", -1) },
		"At beyond":        func() { p.At("q", p.Len("q")) },
		"At unknown queue": func() { p.At("other", 0) },
		"Run below":        func() { p.Run(-1) },
		"Run beyond":       func() { p.Run(p.Runs()) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: want a panic", name)
				}
			}()
			f()
		}()
	}
}

func FuzzEveryRunOnce(f *testing.F) {
	f.Add(uint8(3), uint8(1), uint8(17), uint8(2), uint8(2), uint16(0), uint8(0))
	f.Add(uint8(2), uint8(2), uint8(33), uint8(1), uint8(1), uint16(7), uint8(1))
	f.Add(uint8(1), uint8(40), uint8(0), uint8(3), uint8(3), uint16(99), uint8(2))
	f.Fuzz(func(t *testing.T, item1, item2, item3, judges, trials uint8, limit uint16, mask uint8) {
		e := evaluation(int(judges%4)+1, int(item1%48), int(item2%48), int(item3%48)+2)
		e.Single.Trials = int(trials%3) + 1
		e.Pairwise.Trials = int(trials%3) + 1
		e.Pairwise.Order = []eval.Order{eval.OrderBoth, eval.OrderAsListed}[mask>>7]
		o := plan.Options{Limit: int(limit)}
		for j := range e.Judges {
			o.JudgeQueues = append(o.JudgeQueues, []string{"a", "b"}[mask>>j&1])
		}
		for _, phase := range []int{single, pairwise} {
			p := mustPlan(t, e, phase, o)
			got, want := asked(t, p, o), naive(e, phase)
			if o.Limit == 0 || o.Limit >= len(want) {
				if diff := cmp.Diff(want, got, cmp.AllowUnexported(question{})); diff != "" {
					t.Fatalf("runs (-want +got):\n%s", diff)
				}
				continue
			}
			if len(got) != o.Limit {
				t.Fatalf("%d different runs under limit %d", len(got), o.Limit)
			}
			for q, n := range got {
				if want[q] != n {
					t.Fatalf("run %+v is there %d times, want %d", q, n, want[q])
				}
			}
		}
	})
}
