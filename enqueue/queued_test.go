package enqueue

import (
	"sync"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
)

// The process that puts a run into its queue says so, once for each run, also where several
// push the same range; and the time is before anybody can have pulled it.
func TestQueuedRunsAreToldOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var mu sync.Mutex // guards told
	told := map[string]int{}
	queued := func(task record.Task, at time.Time) {
		mu.Lock()
		defer mu.Unlock()
		told[task.Shown()]++
		if age := time.Since(at); age < 0 {
			t.Errorf("run %s was queued %s from now", task.Shown(), -age)
		}
	}
	enqueuer := b.enqueuer(b.store)
	enqueuer.Queued = queued
	receipt, err := enqueuer.Submit(t.Context(), submission("told", 40)) // 1,560 runs, more than a window
	if err != nil {
		t.Fatal(err)
	}
	if n := len(told); n == 0 || n >= receipt.Runs {
		t.Fatalf("a submission told of %d runs, want the first window of %d", n, receipt.Runs)
	}
	for len(b.pull("p", 400)) > 0 {
		var both sync.WaitGroup
		for range 2 {
			topUp := b.topUp(b.store)
			topUp.Queued = queued
			both.Go(func() {
				if err := topUp.Tick(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
	}
	if len(told) != receipt.Runs {
		t.Errorf("told of %d runs, want %d", len(told), receipt.Runs)
	}
	for run, times := range told {
		if times != 1 {
			t.Errorf("told %d times of run %s, want once", times, run)
		}
	}
}
