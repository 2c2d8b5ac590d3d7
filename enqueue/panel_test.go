package enqueue

import (
	"testing"

	"github.com/evalfleet/evalfleet/eval"
)

// asPanel turns a submission into a panel of two agents; the first is asked for all dimensions
// in one call.
func asPanel(s Submission, dimensions int) Submission {
	e := s.Evaluation
	e.Judges, e.Pairwise = nil, nil
	e.Panel = &eval.Panel{Scale: eval.Scale{Min: 1, Max: 5}}
	for _, name := range []string{"together", "singly"} {
		e.Panel.Agents = append(e.Panel.Agents, eval.Judge{Name: name, Provider: "p", Model: "m"})
	}
	for i := range dimensions {
		e.Panel.Dimensions = append(e.Panel.Dimensions, eval.Dimension{ID: string(rune('a' + i))})
	}
	s.Settings.Batching = []string{"together"}
	return s
}

// Of those that are asked in one call only the first is pushed; once it is recorded,
// the others are runs like any, and nothing is lost when its worker pushed none.
func TestOnlyTheFirstOfAGroupIsPushed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const documents, dimensions = 3, 4
	receipt := b.submit(asPanel(submission("panel", documents), dimensions))
	pulled := b.pull("p", 100)
	dims := map[string]int{}
	for _, task := range pulled {
		dims[task.Agent+" "+task.Dimension]++
	}
	if len(pulled) != documents*(1+dimensions) || dims["together a"] != documents || dims["singly d"] != documents {
		t.Errorf("pushed %v, want each document once for one agent and %d times for the other", dims, dimensions)
	}
	times := b.work(receipt.ID, receipt.Runs, 100)
	if len(times) != receipt.Runs-len(pulled) {
		t.Errorf("%d runs were carried out afterwards, want %d", len(times), receipt.Runs-len(pulled))
	}
	for index, n := range times {
		if n != 1 {
			t.Errorf("run %d was carried out %d times", index, n)
		}
	}
}

// The window counts tasks: those that carry out many runs are not fewer for it.
func TestWindowOfGroups(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := asPanel(submission("window", 2*firstWindow), 20)
	s.Evaluation.Panel.Agents = s.Evaluation.Panel.Agents[:1]
	b.submit(s)
	pending := func() int { return int(b.store.Client().LLen(t.Context(), "asynq:{p}:pending").Val()) }
	if got := pending(); got != firstWindow {
		t.Fatalf("%d tasks wait at first, want %d", got, firstWindow)
	}
	if err := b.store.Client().LPopCount(t.Context(), "asynq:{p}:pending", firstWindow/2).Err(); err != nil {
		t.Fatal(err)
	}
	// Those taken are active now, as far as anybody can see.
	for range firstWindow / 2 {
		b.store.Client().LPush(t.Context(), "asynq:{p}:active", "x")
	}
	if err := b.topUp(b.store).Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := pending(); got < firstWindow*9/10 || got > firstWindow*11/10 {
		t.Errorf("%d tasks wait while %d are under way, want %d", got, firstWindow/2, firstWindow)
	}
}
