package plan_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
)

// listed lists runs that ask three models about three files, in no simple order.
func listed(runs int) *eval.Evaluation {
	e := &eval.Evaluation{Name: "batch", JSON: eval.JSONFalse, Items: []eval.Item{{}}, Runs: &eval.Runs{}}
	for i := range 3 {
		id := fmt.Sprintf("%d.txt", i)
		e.Runs.Models = append(e.Runs.Models, eval.Judge{Name: id, Provider: "simulator", Model: fmt.Sprintf("m%d", i)})
		e.Runs.Files = append(e.Runs.Files, eval.Document{ID: id, Candidate: id, Hash: eval.TextHash(id)})
	}
	for i := range runs {
		e.Runs.List = append(e.Runs.List, eval.FileRun{ID: fmt.Sprintf("run%d", i+1), Model: (i*i + i/3) % 3, FileA: i % 2, FileB: i % 3})
	}
	e.Normalize()
	return e
}

func TestListedRunsAreTheList(t *testing.T) {
	t.Parallel()
	e := listed(50)
	for _, queues := range [][]string{{"q", "q", "q"}, {"b", "a", "b"}, {"c", "b", "a"}} {
		for _, limit := range []int{0, 1, 2, 49, 50, 51} {
			o := plan.Options{JudgeQueues: queues, Limit: limit}
			p := mustPlan(t, e, 0, o)
			asked(t, p, o) // holds of any plan
			want := len(e.Runs.List)
			if limit > 0 {
				want = min(want, limit)
			}
			if p.Runs() != want || p.Kind() != eval.KindRuns {
				t.Fatalf("limit %d: %d runs of kind %s, want %d of kind runs", limit, p.Runs(), p.Kind(), want)
			}
			perModel := make([]int, 3)
			for i, run := range e.Runs.List {
				want := plan.Run{Index: i, Judge: run.Model, First: run.FileA, Second: run.FileB, Trial: 1}
				if diff := cmp.Diff(want, p.Run(i)); diff != "" {
					t.Fatalf("run %d (-want +got):\n%s", i, diff)
				}
				if i < p.Runs() {
					perModel[run.Model]++
				}
			}
			asks := plan.Asks(e, 0, p.Runs())
			for model, want := range perModel {
				if got := asks[model]; got != want {
					t.Errorf("limit %d: model %d is asked %d times, want %d", limit, model, got, want)
				}
			}
		}
	}
}

func TestListedRunsComeAfterJudgedKinds(t *testing.T) {
	t.Parallel()
	e := evaluation(2, 3)
	e.Runs = listed(4).Runs
	e.Normalize()
	if got, want := plan.Phases(e), []eval.Kind{eval.KindSingle, eval.KindPairwise, eval.KindRuns}; !slices.Equal(got, want) {
		t.Errorf("Phases = %v, want %v", got, want)
	}
	if got := mustPlan(t, e, 2, plan.Options{JudgeQueues: []string{"a", "b", "c"}}).Runs(); got != 4 {
		t.Errorf("%d listed runs beside judged ones, want 4", got)
	}
}

// prompted lists prompts that ask three models in no simple order, some with a row
// that was there before.
func prompted(n int) *eval.Evaluation {
	e := listed(1)
	e.Prompts = &eval.Prompts{Format: eval.PromptsExperiment, Models: e.Runs.Models}
	e.Runs = nil
	for i := range n {
		if i < 7 {
			id := fmt.Sprintf("line %d", i+1)
			e.Prompts.Rows = append(e.Prompts.Rows, eval.Document{ID: id, Candidate: id, Hash: eval.TextHash(id)})
		}
		e.Prompts.List = append(e.Prompts.List, eval.Prompt{ID: fmt.Sprint(i), Model: (i*i + i/3) % 3, Row: i % 7})
	}
	e.Normalize()
	return e
}

func TestPromptsAreTheList(t *testing.T) {
	t.Parallel()
	e := prompted(50)
	for _, limit := range []int{0, 1, 49, 50, 51} {
		o := plan.Options{JudgeQueues: []string{"b", "a", "b"}, Limit: limit}
		p := mustPlan(t, e, 0, o)
		asked(t, p, o) // holds of any plan
		want := 50
		if limit > 0 {
			want = min(want, limit)
		}
		if p.Runs() != want || p.Kind() != eval.KindPrompts {
			t.Fatalf("limit %d: %d runs of kind %s, want %d of kind prompts", limit, p.Runs(), p.Kind(), want)
		}
		for i, one := range e.Prompts.List {
			want := plan.Run{Index: i, Judge: one.Model, First: one.Row, Second: -1, Trial: 1}
			if diff := cmp.Diff(want, p.Run(i)); diff != "" {
				t.Fatalf("run %d (-want +got):\n%s", i, diff)
			}
		}
	}
}

func TestNewRefusesPrompts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*eval.Evaluation)
		want   string
	}{
		"no prompts":    {func(e *eval.Evaluation) { e.Prompts.List = nil }, "no prompts are listed"},
		"no format":     {func(e *eval.Evaluation) { e.Prompts.Format = "" }, `the prompts' format is "": want experiment, batch or templates`},
		"id twice":      {func(e *eval.Evaluation) { e.Prompts.List[3].ID = "0" }, `two prompts have the id "0"`},
		"unknown model": {func(e *eval.Evaluation) { e.Prompts.List[3].Model = 3 }, `prompt "3" asks model 3 of 3`},
		"unknown row":   {func(e *eval.Evaluation) { e.Prompts.List[3].Row = 5 }, `prompt "3" is in row 5 of 5`},
		"negative row":  {func(e *eval.Evaluation) { e.Prompts.List[3].Row = -1 }, `prompt "3" is in row -1 of 5`},
		"unknown item":  {func(e *eval.Evaluation) { e.Items = nil }, `row "line 1" belongs to item 0 of 0`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := prompted(5)
			test.change(e)
			_, err := plan.New(e, 0, plan.Options{JudgeQueues: []string{"a", "b", "c"}})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("New: %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestAskedOfCountsJudges(t *testing.T) {
	t.Parallel()
	e := evaluation(3, 4)
	for limit := range 20 {
		o := queuesOf(e, "q")
		o.Limit = limit
		p := mustPlan(t, e, pairwise, o)
		want := make([]int, 3)
		for i := range p.Runs() {
			want[p.Run(i).Judge]++
		}
		asks := plan.Asks(e, pairwise, p.Runs())
		for judge := range want {
			if got := asks[judge]; got != want[judge] {
				t.Errorf("limit %d: judge %d is asked %d times, want %d", limit, judge, got, want[judge])
			}
		}
	}
}

func TestNewRefusesListedRuns(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*eval.Evaluation)
		want   string
	}{
		"no runs":       {func(e *eval.Evaluation) { e.Runs.List = nil }, "no runs are listed"},
		"id twice":      {func(e *eval.Evaluation) { e.Runs.List[3].ID = "run1" }, `two runs have the id "run1"`},
		"unknown model": {func(e *eval.Evaluation) { e.Runs.List[3].Model = 3 }, `run "run4" asks model 3 of 3`},
		"unknown file":  {func(e *eval.Evaluation) { e.Runs.List[3].FileB = 3 }, `run "run4" shows files 1 and 3 of 3`},
		"negative file": {func(e *eval.Evaluation) { e.Runs.List[3].FileA = -1 }, `run "run4" shows files -1 and 0 of 3`},
		"unknown item":  {func(e *eval.Evaluation) { e.Items = nil }, `file "0.txt" belongs to item 0 of 0`},
		"no queue":      {func(e *eval.Evaluation) { e.Runs.Models = e.Runs.Models[:2] }, "2 judges have 3 queues"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := listed(5)
			test.change(e)
			_, err := plan.New(e, 0, plan.Options{JudgeQueues: []string{"a", "b", "c"}})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("New: %v, want an error with %q", err, test.want)
			}
		})
	}
}

// Not parallel: what other tests allocate must not be measured.
func TestPlanOfListedRunsIsSmall(t *testing.T) {
	const runs = 100_000
	e := listed(runs)
	before := heap()
	p := mustPlan(t, e, 0, plan.Options{JudgeQueues: []string{"a", "b", "a"}})
	if kept := heap() - before; kept > 4*runs+16<<10 {
		t.Errorf("a plan of %d listed runs keeps %d bytes beside the list, want at most 4 a run and 16 KiB", runs, kept)
	}
	runtime.KeepAlive(p)
	runtime.KeepAlive(e)
}
