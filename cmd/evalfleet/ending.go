package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/gate"
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
	phases    []record.Phase // of its record
	due       bool           // a phase is to be chosen, once all that ended before is in the sink
	asked     time.Time
	news      *news // nil: nobody brings any
	stops     bool  // also when the fleet has stopped it
	cancelled bool
	// Once all that ended before is in the sink: record.Evaluation.Stopped, and the
	// paused providers when nothing but their runs is left.
	stopped string
	paused  map[string]record.Pause
	asks    *eval.Evaluation // see plan
}

// reachedEarly reports whether it ended before all its runs had.
func (e *ending) reachedEarly() bool { return e.stopped != "" || len(e.paused) > 0 }

// How often Redis is asked while results are missing: of one evaluation, and of each
// of many, which are watched together.
const (
	askEvery     = time.Second
	askEveryMany = 30 * time.Second
)

// reached reports whether every run is in the sink and none is being made again,
// or the evaluation was cancelled; or whether that is so of the phases before one that
// is open, which is due then.
func (e *ending) reached(ctx context.Context) (bool, error) {
	goal, open := e.goal()
	complete, err := e.watch.complete(ctx, goal)
	if err != nil {
		return false, err
	}
	every, moved := askEvery, false
	if e.news != nil {
		every, moved = askEveryMany, e.news.moved.Swap(false)
	}
	if !complete && !moved && time.Since(e.asked) < every {
		return false, nil
	}
	e.asked = time.Now()
	ended, err := e.look(ctx)
	if outage.Is(err) {
		return false, nil // the collector meets it as well, and waits
	}
	if err != nil || e.cancelled || e.reachedEarly() {
		return err == nil, err
	}
	e.due = open && complete && ended >= goal
	return complete && ended >= goal, nil
}

// look asks Redis how the evaluation stands, and returns how many of its runs have
// ended.
func (e *ending) look(ctx context.Context) (ended int, err error) {
	standings, err := e.store.Standings(ctx, []eval.ID{e.id})
	if err != nil {
		return 0, err
	}
	standing := standings[e.id]
	if standing.Unreadable != nil {
		return 0, standing.Unreadable
	}
	e.cancelled = standing.Status == record.StatusCancelled
	if e.stops && standing.Waiting == 0 {
		if err := e.lookStopped(ctx, standing); err != nil {
			return 0, err
		}
	}
	// A run that is made again has a row of its failure in the sink, and none in
	// Redis's counts.
	return standing.Total(eval.StateSucceeded) + standing.Total(eval.StateFailed), e.lookParked(ctx)
}

// lookStopped notes why nothing more comes of an evaluation that is not complete.
func (e *ending) lookStopped(ctx context.Context, standing store.Standing) error {
	switch {
	case standing.Status == record.StatusPaused:
		r, err := e.store.Evaluation(ctx, e.id)
		if err != nil {
			return err
		}
		e.stopped = r.Stopped
	case standing.Status == record.StatusActive && len(standing.Paused) > 0:
		only, err := e.onlyPaused(ctx, standing)
		if err != nil || !only {
			return err
		}
		e.paused = standing.Paused
	}
	return nil
}

// onlyPaused reports whether every run that has not ended is of a paused provider,
// no worker holds one of those any more, and what the last ones came to is in the
// sink.
func (e *ending) onlyPaused(ctx context.Context, standing store.Standing) (bool, error) {
	asks, err := e.plan(ctx)
	if err != nil {
		return false, err
	}
	r, err := e.store.WithChoices(ctx, e.id)
	if err != nil {
		return false, err
	}
	left := false
	for i, phase := range r.Phases {
		for queue, runs := range phase.Queues {
			if phase.Open || standing.Ended(i, queue) >= runs {
				continue
			}
			left = true
			only, err := enqueue.OnlyPaused(ctx, e.store, r, asks, i, queue, standing.Ended(i, queue), standing.Paused)
			if err != nil || !only {
				return false, err
			}
			if n, err := gate.ActiveOf(ctx, e.store.Client(), queue, string(e.id)+"."); err != nil || n > 0 {
				return false, err
			}
		}
	}
	if !left {
		return false, nil
	}
	standings, err := e.store.Standings(ctx, []eval.ID{e.id}) // they may have ended since
	return err == nil && standings[e.id].Waiting == 0, err
}

// plan is what the evaluation asks.
func (e *ending) plan(ctx context.Context) (*eval.Evaluation, error) {
	var err error
	if e.asks == nil {
		e.asks, err = e.store.Plan(ctx, e.id)
	}
	return e.asks, err
}

// lookParked has the progress line say which of the evaluation's providers have
// used up a day's quota.
func (e *ending) lookParked(ctx context.Context) error {
	limits := ratelimit.New(e.store.Client(), ratelimit.Config{Namespace: e.store.Keys().Namespace})
	cooldowns, err := limits.Cooldowns(ctx)
	if err != nil {
		return err
	}
	cooldowns = slices.DeleteFunc(cooldowns, func(c ratelimit.Cooldown) bool { return !c.Parked })
	var words []string
	if len(cooldowns) > 0 {
		asks, err := e.plan(ctx)
		if err != nil {
			return err
		}
		for _, c := range cooldownViews(cooldowns, keptBy(asks.Everyone(), e.id)) {
			words = append(words, c.text(time.Now()))
		}
	}
	e.watch.parkedBy(strings.Join(words, "; "))
	return nil
}

// stop is the error that an evaluation ends with which reachedEarly. sink has its
// results; raised is the command that submits it with a higher budget, goOn the one
// that goes on with it.
func (e *ending) stop(ctx context.Context, s record.Settings, sink results.Reader, raised, goOn string) error {
	if e.stopped != "" {
		return e.outOfBudget(ctx, s, sink, raised)
	}
	var why []string
	for _, provider := range slices.Sorted(maps.Keys(e.paused)) {
		p := e.paused[provider]
		why = append(why, fmt.Sprintf("provider %s is paused, %s; %s", provider, p, p.Remedy()))
	}
	return withCode(exitRunsFailed, fmt.Errorf("%w: %s; %d of %d runs are recorded; resume with: %s",
		errStopped, strings.Join(why, "; "), e.watch.ended(), e.watch.planned(), goOn))
}

// outOfBudget is the error that an evaluation ends with whose budget leaves no room
// for another call; goOn is the command that submits it.
func (e *ending) outOfBudget(ctx context.Context, s record.Settings, sink results.Reader, goOn string) error {
	spent, err := spentBefore(ctx, e.id, s, sink)
	if err != nil {
		return err
	}
	return withCode(exitRunsFailed, fmt.Errorf("%w: its budget of %s leaves no room for another call: %s is spent, %d of %d runs are recorded; raise budget in the evaluation file and resume with: %s",
		errStopped, ratelimit.Dollars(s.Budget()), ratelimit.Dollars(spent), e.watch.ended(), e.watch.planned(), goOn))
}

// cancellation is the error that a cancelled evaluation ends with; nil when it
// was not cancelled.
func (e *ending) cancellation(goOn string) error {
	if !e.cancelled {
		return nil
	}
	return withCode(exitRunsFailed, fmt.Errorf("%w: %d of %d runs are recorded; %s", errCancelled, e.watch.ended(), e.watch.planned(), goOn))
}
