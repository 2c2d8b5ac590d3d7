package collect

import (
	"context"
	"sync"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Counts says how far an evaluation has come, in runs. Ended includes Failed.
type Counts struct{ Planned, Ended, Failed int }

// Observer receives an evaluation's progress, from one goroutine at a time. Its methods
// must not block for long: results wait for them.
type Observer interface {
	// Counted replaces all counts. They may be lower than before: failed runs may be retried, and
	// an entry may have been committed twice.
	Counted(Counts)
	// Committed receives the entries of a commit and the counts after it.
	Committed(entries []record.Entry, counts Counts)
	// Waiting receives the reason why nothing can be collected now: an error of Redis or
	// results.ErrBusy. nil: collecting continues.
	Waiting(why error)
	// Held receives what holds back the evaluation's calls.
	Held(Hold)
}

// Hold says what holds back an evaluation's calls.
type Hold struct {
	// Cooldowns are those of providers that are down or have used up a daily quota, and that of
	// ratelimit.MemoryID.
	Cooldowns []ratelimit.Cooldown
	Others    []string // in words: Redis if it accepts no writes, and paused queues
	All       bool     // no call starts because of Others
}

// unobserved is the Observer of an evaluation without one.
type unobserved struct{}

func (unobserved) Counted(Counts)                   {}
func (unobserved) Committed([]record.Entry, Counts) {}
func (unobserved) Waiting(error)                    {}
func (unobserved) Held(Hold)                        {}

// tally counts an evaluation's runs as they are committed. It is safe for concurrent use.
type tally struct {
	id       eval.ID
	reader   results.Reader
	observer Observer

	mu     sync.Mutex // guards counts
	counts Counts
}

func (t *tally) now() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts
}

// change applies a change and tells the observer.
func (t *tally) change(apply func(*Counts)) {
	t.mu.Lock()
	apply(&t.counts)
	now := t.counts
	t.mu.Unlock()
	t.observer.Counted(now)
}

// recount takes the counts from the results store: an entry may be committed twice, and a success
// may replace a failure.
func (t *tally) recount(ctx context.Context) error {
	phases, err := t.reader.Counts(ctx, t.id)
	if err != nil {
		return err
	}
	t.change(func(c *Counts) {
		c.Ended, c.Failed = 0, 0
		for _, phase := range phases {
			c.Ended += phase.Succeeded + phase.Failed + phase.Cancelled
			c.Failed += phase.Failed
		}
	})
	return nil
}

// without subtracts the failed runs that are being retried.
func (t *tally) without(ctx context.Context, retried func(enqueue.Recorded) bool) error {
	again := 0
	for run, err := range t.reader.Runs(ctx, t.id, eval.StateFailed) {
		if err != nil {
			return err
		}
		if retried(enqueue.Recorded{Phase: run.Phase, Index: run.Index, State: eval.StateFailed, Generation: run.Generation}) {
			again++
		}
	}
	t.change(func(c *Counts) {
		c.Ended -= again
		c.Failed -= again
	})
	return nil
}

func (t *tally) committed(entries []record.Entry) {
	t.mu.Lock()
	for _, e := range entries {
		if e.Run == nil {
			continue
		}
		t.counts.Ended++
		if e.Run.State == eval.StateFailed.String() {
			t.counts.Failed++
		}
	}
	now := t.counts
	t.mu.Unlock()
	t.observer.Committed(entries, now)
}

// complete reports whether that many runs are in the results store.
func (t *tally) complete(ctx context.Context, runs int) (bool, error) {
	if t.now().Ended < runs {
		return false, nil
	}
	err := t.recount(ctx)
	return t.now().Ended >= runs, err
}

// planned returns the maximum number of runs in all phases of a record.
func planned(r record.Evaluation) int {
	n := 0
	for _, phase := range r.Phases {
		n += phase.Runs
	}
	return n
}
