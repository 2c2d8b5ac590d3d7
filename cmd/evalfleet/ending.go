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
)

// errCancelled is how waiting for an evaluation ends that was cancelled.
var errCancelled = errors.New("the evaluation was cancelled")

// ending says when nothing more comes of an evaluation.
type ending struct {
	store     *store.Store
	id        eval.ID
	watch     *progress
	asked     time.Time
	cancelled bool
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
	// A run that is made again has a row of its failure in the sink, and none in
	// Redis's counts.
	ended := standing.Total(eval.StateSucceeded) + standing.Total(eval.StateFailed)
	return e.cancelled || complete && ended >= e.watch.total, nil
}

// cancellation is the error that a cancelled evaluation ends with; nil when it
// was not cancelled.
func (e *ending) cancellation(goOn string) error {
	if !e.cancelled {
		return nil
	}
	return withCode(exitRunsFailed, fmt.Errorf("%w: %d of %d runs are recorded; %s", errCancelled, e.watch.ended(), e.watch.total, goOn))
}
