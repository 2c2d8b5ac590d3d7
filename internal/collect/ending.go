package collect

import (
	"context"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/queue/gate"
	"github.com/evalfleet/evalfleet/internal/redisx/outage"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// ending decides when an evaluation has ended.
type ending struct {
	store  *store.Store
	limits *ratelimit.Admin // only read
	id     eval.ID
	tally  *tally
	phases []record.Phase // of its record
	news   *news          // nil: none
	stops  bool           // when the fleet has stopped it, too
	plan   *eval.Evaluation
	until  *until    // nil: it does not end early
	asked  time.Time // when Redis was asked last
	near   bool      // it would have stopped but for calls in flight
	memory string    // of Redis, in which budget and quotas were last seen open
	listed string    // the memory of Redis in which the evaluation was among the active ones

	due       bool // a phase must be chosen; all earlier results are in the store
	forgotten bool // Redis must be told the used amounts of the budget or of daily quotas
	cancelled bool
	// stopped is record.Evaluation.Stopped, and budget the one in force then. paused holds the
	// paused providers if only their runs are left. All are set once everything that ended before
	// is in the results store.
	stopped string
	budget  int64
	paused  map[string]record.Pause
}

// How often to poll Redis while results are missing: for one evaluation, and for each of many that
// are followed together.
const (
	askEvery     = time.Second
	askEveryMany = 30 * time.Second
)

// reached reports whether the evaluation was cancelled, has stopped, or has all its runs in the
// results store with none being retried. It is also true when that holds for the phases before an
// open one (then e.due is set), and when e.forgotten is set.
func (e *ending) reached(ctx context.Context) (bool, error) {
	goal, open := e.goal()
	complete, err := e.tally.complete(ctx, goal)
	if err != nil {
		return false, err
	}
	if err := e.stopKnown(ctx); err != nil && !outage.Temporary(err) {
		return false, err
	}
	every, moved := askEvery, false
	if e.news != nil && !e.near { // no announcement says that a worker has released a run
		every, moved = askEveryMany, e.news.moved.Swap(false)
	}
	if !complete && !moved && time.Since(e.asked) < every {
		return false, nil
	}
	e.asked = time.Now()
	ended, err := e.countEnded(ctx)
	if outage.Temporary(err) {
		return false, nil // the collector meets it as well, and waits
	}
	if err != nil || e.cancelled || e.stopped != "" || len(e.paused) > 0 || e.forgotten {
		return err == nil, err
	}

	e.due = open && complete && ended >= goal
	return complete && ended >= goal, nil
}

// goal returns how many runs must end before anything else can happen: those of the phases before
// the open one, or all.
func (e *ending) goal() (runs int, open bool) {
	for _, phase := range e.phases {
		if phase.Open {
			return runs, true
		}
		runs += phase.Runs
	}
	return e.tally.now().Planned, false
}

// countEnded reads the evaluation's state from Redis, and returns how many of its runs have ended.
func (e *ending) countEnded(ctx context.Context) (ended int, err error) {
	standings, err := e.store.Standings(ctx, []eval.ID{e.id})
	if err != nil {
		return 0, err
	}
	standing := standings[e.id]
	if standing.Unreadable != nil {
		return 0, standing.Unreadable
	}
	if err := e.lookMemory(ctx); err != nil || e.forgotten {
		return 0, err
	}
	e.near = false
	e.cancelled = standing.Status == record.StatusCancelled
	if e.stops && standing.Waiting == 0 {
		if err := e.lookStopped(ctx, standing); err != nil {
			return 0, err
		}
	}
	// A retried run still has its failure in the results store, but is not in Redis's counts.
	return standing.Total(eval.StateSucceeded) + standing.Total(eval.StateFailed), e.lookHeld(ctx)
}

// lookMemory notes whether Redis has forgotten the used amount of the budget or of a quota, once
// that can be known.
func (e *ending) lookMemory(ctx context.Context) error {
	memory, grace, err := e.memoryNow(ctx)
	if err != nil || memory == e.memory || grace > 0 {
		return err
	}
	r, err := e.store.Evaluation(ctx, e.id)
	if err != nil {
		return err
	}
	if err := e.list(ctx, r, memory); err != nil {
		return err
	}
	closed, unsure, err := toRestore(ctx, e.limits, e.id, budgeted(r))
	if err != nil {
		return err
	}
	e.memory, e.forgotten = memory, closed || unsure
	return nil
}

// list activates the evaluation once more if another memory of Redis has begun: an older copy may
// have its record without what the submission wrote next. Workers register its limits and push its
// runs when it is among the active ones.
func (e *ending) list(ctx context.Context, r record.Evaluation, memory string) error {
	if e.listed != "" && e.listed != memory && r.Status == record.StatusActive {
		if err := e.store.Activate(ctx, e.id); err != nil {
			return err
		}
	}
	e.listed = memory
	return nil
}

// memoryNow returns ratelimit.Admin.Memory. Evaluations that are followed together get the memory
// from the goroutine that looks for all.
func (e *ending) memoryNow(ctx context.Context) (memory string, grace time.Duration, err error) {
	if e.news != nil {
		return e.news.memory(), 0, nil
	}
	return e.limits.Memory(ctx)
}

// lookStopped notes why an evaluation makes no progress although it is not complete.
func (e *ending) lookStopped(ctx context.Context, standing store.Standing) error {
	switch {
	case standing.Status == record.StatusPaused:
		r, err := e.store.Evaluation(ctx, e.id)
		if err != nil {
			return err
		}
		e.stopped, e.budget = r.Stopped, r.Settings.Budget()
	case standing.Status == record.StatusActive && len(standing.Paused) > 0:
		only, err := e.onlyPaused(ctx, standing)
		if err != nil || !only {
			return err
		}
		e.paused = standing.Paused
	}
	return nil
}

// onlyPaused reports whether every run that has not ended belongs to a paused provider. No worker
// may have one of those any more, and the outcomes of the last ones must be in the results store.
func (e *ending) onlyPaused(ctx context.Context, standing store.Standing) (bool, error) {
	asks, err := e.readPlan(ctx)
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
				e.near = err == nil
				return false, err
			}
		}
	}

	if !left {
		return false, nil
	}
	standings, err := e.store.Standings(ctx, []eval.ID{e.id}) // more may have ended since
	return err == nil && standings[e.id].Waiting == 0, err
}

// readPlan reads what the evaluation asks, once: it never changes.
func (e *ending) readPlan(ctx context.Context) (*eval.Evaluation, error) {
	var err error
	if e.plan == nil {
		e.plan, err = e.store.Questions(ctx, e.id)
	}
	return e.plan, err
}

// lookHeld tells the observer what holds back the evaluation's calls.
func (e *ending) lookHeld(ctx context.Context) error {
	if e.tally.observer == (unobserved{}) {
		return nil
	}
	parked, err := e.parked(ctx)
	if err != nil {
		return err
	}
	queues := record.Evaluation{Phases: e.phases}.QueueNames()
	paused, all, err := gate.HoldPaused(ctx, e.store.Client(), queues)
	if err != nil {
		return err
	}

	refusals := gate.Refusals(ctx, e.store.Client())
	e.tally.observer.Held(Hold{
		Cooldowns: parked,
		Others:    slices.Concat(refusals, paused),
		All:       all || len(refusals) > 0,
	})
	return nil
}

// parked returns which of the evaluation's providers are down or have used up a daily quota, and
// whether calls wait for Redis's memory.
func (e *ending) parked(ctx context.Context) ([]ratelimit.Cooldown, error) {
	parked, err := e.limits.Cooldowns(ctx)
	if err != nil {
		return nil, err
	}
	parked = slices.DeleteFunc(parked, func(c ratelimit.Cooldown) bool { return !c.Notable() })
	if len(parked) == 0 {
		return nil, nil
	}

	asks, err := e.readPlan(ctx)
	if err != nil {
		return nil, err
	}
	judges := asks.Everyone()
	return slices.DeleteFunc(parked, func(c ratelimit.Cooldown) bool {
		scope, ok := c.Scope()
		return c.ID != ratelimit.MemoryID && (!ok || !slices.ContainsFunc(judges, func(j eval.Judge) bool {
			return scope.Concerns(ratelimit.Scope{Provider: j.Provider, Model: j.Model, Evaluation: string(e.id), Tier: j.Tier()})
		}))
	}), nil
}
