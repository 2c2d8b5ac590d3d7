package controller

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

var (
	evaluationsNow = gauge("evalfleet_evaluations_active", "Evaluations with runs that have not been pushed or have not ended.")
	unreadableNow  = gauge(
		"evalfleet_evaluations_unreadable",
		"Evaluations in Redis that this controller skips, because their records have another version or are invalid.",
	)
	undrained       = gauge("evalfleet_results_undrained", "Results in Redis that are not in a results store yet.")
	undrainedBytes  = gauge("evalfleet_results_undrained_bytes", "Memory that these results take in Redis, as far as Redis reports it.")
	undrainedOldest = gauge("evalfleet_results_oldest_undrained_seconds", "Age of the oldest of these results.")
	drainedTotal    = counter("evalfleet_results_drained_total", "Results that this process has written to results stores.")
	drainedLast     = gauge("evalfleet_results_last_drain_timestamp_seconds", "When this process last wrote a result to a results store.")
)

// gatherResults reports the results of all evaluations together. known are those known to be
// unreadable.
func (c *Controller) gatherResults(ctx context.Context, known []eval.ID, tell tell) error {
	ids, err := c.store.Evaluations(ctx)
	if err != nil {
		return err
	}
	standings, err := c.store.Standings(ctx, ids)
	if err != nil {
		return err
	}

	waiting, bytes, active, unreadable := int64(0), int64(0), 0, len(known)
	var oldest time.Time
	for id, standing := range standings {
		if standing.Status == record.StatusActive {
			active++
		}
		if standing.Unreadable != nil && !slices.Contains(known, id) {
			unreadable++
		}
		if standing.Waiting == 0 {
			continue
		}
		waiting += standing.Waiting
		backlog, err := c.store.Backlog(ctx, id)
		if err != nil {
			return err
		}
		bytes += backlog.Bytes
		oldest = older(oldest, backlog.Oldest)
	}

	tell(evaluationsNow, float64(active))
	tell(unreadableNow, float64(unreadable))
	tell(undrained, float64(waiting))
	tell(undrainedBytes, float64(bytes))
	tell(undrainedOldest, age(oldest))
	return nil
}

// drained counts what this process has drained.
type drained struct {
	mu   sync.Mutex // guards the fields below
	n    int
	last time.Time
}

func (d *drained) add(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.n += n
	d.last = time.Now()
}

func (d *drained) tell(tell tell) {
	d.mu.Lock()
	defer d.mu.Unlock()
	tell(drainedTotal, float64(d.n))
	if d.n > 0 {
		tell(drainedLast, seconds(d.last))
	}
}
