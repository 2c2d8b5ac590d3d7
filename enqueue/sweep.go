package enqueue

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/queue/gate"
	"github.com/evalfleet/evalfleet/internal/queue/quarantine"
	"github.com/evalfleet/evalfleet/internal/redisx/outage"
)

// SweptLimits is the part of the registry of limits that a Sweeper needs. *ratelimit.Admin
// implements it.
type SweptLimits interface {
	Limits
	Holders(ctx context.Context) ([]string, error)
}

// Sweeper removes what killed processes left in Redis. These are tasks of evaluations that have
// ended or have no record, and completed tasks of queues that have no worker. They are also queues
// that no evaluation uses, and list entries of evaluations whose record has expired. It removes
// nothing of an unfinished evaluation, and no task that a worker holds. A Sweeper must not be used
// by several goroutines at once; any number of processes may have one.
type Sweeper struct {
	store  *store.Store
	limits SweptLimits
	log    zerolog.Logger

	wait  time.Duration // how long something must be seen as a leftover before it is removed
	pause time.Duration // after each page of tasks

	gone   sightings[eval.ID] // without a record
	ended  sightings[eval.ID]
	given  map[eval.ID]bool // have ended, and were given an expiry
	clear  map[eval.ID]bool // were cancelled, and have no job at a provider
	unused sightings[string]
}

// sightings remembers since when something has been seen in every Sweep.
type sightings[K comparable] struct{ before, now map[K]time.Time }

// next begins another Sweep.
func (s *sightings[K]) next() { s.before, s.now = s.now, map[K]time.Time{} }

// last notes that something is seen, and returns for how long it has been seen.
func (s *sightings[K]) last(what K) time.Duration {
	at, known := s.before[what]
	if !known {
		at = time.Now()
	}
	if _, noted := s.now[what]; !noted {
		s.now[what] = at
	}
	return time.Since(s.now[what])
}

const (
	sweepWait  = time.Minute // a submission or deletion in progress takes less
	sweepPause = 10 * time.Millisecond
)

// NewSweeper returns a Sweeper; Sweep does the work.
func NewSweeper(s *store.Store, limits SweptLimits, log zerolog.Logger) *Sweeper {
	return &Sweeper{
		store: s, limits: limits, log: log, wait: sweepWait, pause: sweepPause,
		given: map[eval.ID]bool{}, clear: map[eval.ID]bool{},
	}
}

// Sweep checks everything once. It removes an evaluation without a record only after a minute
// without one, so the first Sweep removes little.
func (s *Sweeper) Sweep(ctx context.Context) error {
	s.gone.next()
	s.ended.next()
	s.unused.next()
	ids, err := s.evaluations(ctx)
	if err != nil {
		return err
	}

	uses, err := s.store.Uses(ctx, ids)
	if err != nil {
		return err
	}
	queues, err := s.queues(ctx, uses)
	if err != nil {
		return err
	}

	var errs []error
	for _, queue := range queues {
		switch err := s.sweepQueue(ctx, queue); {
		case err == nil:
		case quarantine.Concerns(err): // concerns this queue alone
			errs = append(errs, err)
		default:
			return err
		}
	}

	if err := s.sweepEvaluations(ctx, uses); err != nil {
		return err
	}
	if err := s.forgetUnused(ctx, queues, usedBy(uses)); err != nil {
		return err
	}
	return errors.Join(append(errs, gate.ForgetServers(ctx, s.store.Client()))...)
}

// evaluations returns all evaluations that are listed or have limits in force.
func (s *Sweeper) evaluations(ctx context.Context) ([]eval.ID, error) {
	ids, err := s.store.Evaluations(ctx)
	if err != nil {
		return nil, err
	}
	holders, err := s.limits.Holders(ctx)
	if err != nil {
		return nil, err
	}
	for _, holder := range holders {
		if strings.HasPrefix(holder, "ev-") { // otherwise it is a worker
			ids = append(ids, eval.ID(holder))
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// queues returns all queues that may have tasks: those to which runs were pushed, and those of
// records, to which a program of an earlier version may push.
func (s *Sweeper) queues(ctx context.Context, uses map[eval.ID]store.Use) ([]string, error) {
	queues, err := s.store.Queues(ctx)
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, use := range uses {
		for _, queue := range use.Queues {
			if use.Status != record.StatusCancelled && !slices.Contains(queues, queue) && !slices.Contains(missing, queue) {
				missing = append(missing, queue)
			}
		}
	}
	return append(queues, missing...), s.store.AddQueues(ctx, missing...)
}

// sweepQueue removes obsolete tasks from a queue.
func (s *Sweeper) sweepQueue(ctx context.Context, queue string) error {
	if err := gate.Expire(ctx, s.store.Client(), queue); err != nil {
		return err
	}
	useless := map[eval.ID]bool{}
	removed, err := gate.Discard(ctx, s.store.Client(), queue, gate.Unheld, func(
		ctx context.Context, state gate.State, tasks []string,
	) ([]string, error) {
		if err := outage.Pause(ctx, s.pause); err != nil {
			return nil, err
		}
		return s.useless(ctx, queue, state, tasks, useless)
	})
	if removed > 0 {
		s.log.Info().Str("queue", queue).Int("tasks", removed).Msg("removed tasks of inactive evaluations")
	}
	for id := range useless {
		err = errors.Join(err, s.store.PushAgain(ctx, id)) // it may have resumed since
	}
	return err
}

// useless returns the obsolete ones among a queue's tasks, and notes their evaluations in of. The
// uses that it reads are newer than the tasks, so they do not apply to a task pushed later.
func (s *Sweeper) useless(
	ctx context.Context, queue string, state gate.State, tasks []string, of map[eval.ID]bool,
) (chosen []string, err error) {
	byEvaluation := map[eval.ID][]eval.RunID{}
	names := map[eval.RunID][]string{}
	for _, task := range tasks {
		run, _, err := record.ParseTaskID(task)
		if err != nil {
			continue // not one of ours: the queue may be shared
		}
		if names[run] == nil {
			byEvaluation[run.Evaluation] = append(byEvaluation[run.Evaluation], run)
		}
		names[run] = append(names[run], task)
	}

	uses, err := s.store.Uses(ctx, slices.Collect(maps.Keys(byEvaluation)))
	if err != nil {
		return nil, err
	}

	for id, runs := range byEvaluation {
		if !s.over(id, uses[id], queue, state) {
			continue
		}
		jobs, err := s.store.WithJob(ctx, id)
		if err != nil {
			return nil, err
		}
		for _, run := range runs {
			if !jobs[run.Short()] {
				chosen, of[id] = append(chosen, names[run]...), true
			}
		}
	}

	return chosen, nil
}

// over reports whether an evaluation's tasks in a state are obsolete in a queue.
func (s *Sweeper) over(id eval.ID, use store.Use, queue string, state gate.State) bool {
	waiting := slices.Contains(gate.Unpulled, state)
	switch {
	case use.Unreadable:
		return false
	case use.Gone():
		return s.gone.last(id) >= s.wait
	case use.Status == record.StatusCancelled || !slices.Contains(use.Queues, queue):
		return true
	}
	return hasEnded(use) && waiting
}

// sweepEvaluations removes the list entries of evaluations without a record, sets the expiry of ended ones that have none,
// and lets workers cancel the jobs of cancelled ones.
func (s *Sweeper) sweepEvaluations(ctx context.Context, uses map[eval.ID]store.Use) error {
	over := func(id eval.ID, _ bool) bool { return !hasEnded(uses[id]) }
	maps.DeleteFunc(s.given, over)
	maps.DeleteFunc(s.clear, over)

	for id, use := range uses {
		if use.Status == record.StatusCancelled && !s.clear[id] {
			if err := s.recall(ctx, id); err != nil && !quarantine.Concerns(err) {
				return err
			}
		}
		switch {
		case use.Gone() && s.gone.last(id) >= s.wait:
			if err := s.vacate(ctx, id); err != nil {
				return err
			}
		case hasEnded(use) && s.ended.last(id) >= s.wait && !s.given[id]:
			ends, err := s.store.ExpireEnded(ctx, id)
			if err != nil && !quarantine.Concerns(err) {
				return err
			}
			s.given[id] = ends
		}
	}
	return nil
}

// recall pushes the runs of a cancelled evaluation that still have jobs, whose tasks may have been lost. A call that was in
// flight when the evaluation was cancelled may yet become a job.
func (s *Sweeper) recall(ctx context.Context, id eval.ID) error {
	left, err := (&Enqueuer{Store: s.store, Limits: s.limits, Log: s.log}).recall(ctx, id)
	s.clear[id] = err == nil && left == 0 && s.ended.last(id) >= s.wait
	return err
}

func hasEnded(use store.Use) bool { return record.HasEnded(use.Status, use.Stopped) }

// vacate removes the leftovers of an evaluation without a record.
func (s *Sweeper) vacate(ctx context.Context, id eval.ID) error {
	active, err := s.store.IsActive(ctx, id)
	if err != nil || active { // the process that tops up queues drops it
		return err
	}
	if done, err := s.limits.ForgetSpent(ctx, string(id)); err != nil || !done {
		return err
	}
	if err := unpin(ctx, s.store, s.limits, id); err != nil {
		return err
	}
	return s.store.Vacate(ctx, id)
}

// forgetUnused forgets queues that have been unused for a while.
func (s *Sweeper) forgetUnused(ctx context.Context, queues []string, used func(string) bool) error {
	var forget []string
	for _, queue := range queues {
		if !used(queue) && s.unused.last(queue) >= s.wait {
			forget = append(forget, queue)
		}
	}
	if len(forget) == 0 {
		return nil
	}
	return forgetQueues(ctx, s.store, forget, true)
}
