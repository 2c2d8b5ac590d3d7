package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/outage"
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/internal/store"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/results"
)

// errCancelled is how waiting for an evaluation ends that was cancelled.
var errCancelled = errors.New("the evaluation was cancelled")

// errStopped is how waiting for an evaluation ends that the fleet has stopped
// itself.
var errStopped = errors.New("the evaluation has stopped")

// isEnding reports whether err is how an evaluation ended before all its runs had.
func isEnding(err error) bool { return errors.Is(err, errCancelled) || errors.Is(err, errStopped) }

// ending says when nothing more comes of an evaluation.
type ending struct {
	store     *store.Store
	id        eval.ID
	watch     *progress
	asked     time.Time
	stops     bool // also when the fleet has stopped it
	cancelled bool
	stopped   string // record.Evaluation.Stopped, once all that ended before is in the sink
}

// askEvery is how often Redis is asked while results are missing.
const askEvery = time.Second

// reached reports whether every run is in the sink and none is being made again,
// or the evaluation was cancelled.
func (e *ending) reached(ctx context.Context) (bool, error) {
	complete, err := e.watch.complete(ctx)
	if err != nil {
		return false, err
	}
	if !complete && time.Since(e.asked) < askEvery {
		return false, nil
	}
	e.asked = time.Now()
	standings, err := e.store.Standings(ctx, []eval.ID{e.id})
	if outage.Is(err) {
		return false, nil // the collector meets it as well, and waits
	}
	if err != nil {
		return false, err
	}
	standing := standings[e.id]
	e.cancelled = standing.Status == record.StatusCancelled
	if e.stops && standing.Status == record.StatusPaused && standing.Waiting == 0 {
		r, err := e.store.Evaluation(ctx, e.id)
		if err != nil {
			return false, err
		}
		e.stopped = r.Stopped
	}
	// A run that is made again has a row of its failure in the sink, and none in
	// Redis's counts.
	ended := standing.Total(eval.StateSucceeded) + standing.Total(eval.StateFailed)
	return e.cancelled || e.stopped != "" || complete && ended >= e.watch.total, nil
}

// outOfBudget is the error that an evaluation ends with whose budget leaves no room
// for another call; goOn is the command that submits it.
func (e *ending) outOfBudget(ctx context.Context, s record.Settings, sink results.Reader, goOn string) error {
	spent, err := spentBefore(ctx, e.id, s, sink)
	if err != nil {
		return err
	}
	return withCode(exitRunsFailed, fmt.Errorf("%w: its budget of %s leaves no room for another call: %s is spent, %d of %d runs are recorded; raise budget in the evaluation file and go on with: %s",
		errStopped, ratelimit.Dollars(s.Budget()), ratelimit.Dollars(spent), e.watch.ended(), e.watch.total, goOn))
}

// cancellation is the error that a cancelled evaluation ends with; nil when it
// was not cancelled.
func (e *ending) cancellation(goOn string) error {
	if !e.cancelled {
		return nil
	}
	return withCode(exitRunsFailed, fmt.Errorf("%w: %d of %d runs are recorded; %s", errCancelled, e.watch.ended(), e.watch.total, goOn))
}
