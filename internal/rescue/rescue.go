// Package rescue cleans up after dead workers: Rescuer.Once returns their tasks to the queues,
// and removes the limits that their configurations pinned and their places in wait queues.
// Workers do this for each other; where there are none, a controller does.
package rescue

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/internal/gate"
	"github.com/evalfleet/evalfleet/internal/quarantine"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/record"
	"github.com/evalfleet/evalfleet/store"
)

// Pinners names the holders of a limit, the first three evaluations and the number of workers:
// those pin the limits of their --config.
func Pinners(holders []string) string {
	const most = 3
	var names []string
	workers := 0
	for _, holder := range holders {
		if _, ok := ratelimit.PinnedBy(holder); ok {
			workers++
		} else {
			names = append(names, holder)
		}
	}
	if len(names) > most {
		names = append(names[:most], fmt.Sprintf("%d more", len(names)-most))
	}
	switch workers {
	case 0:
	case 1:
		names = append(names, "--config of 1 worker")
	default:
		names = append(names, fmt.Sprintf("--config of %d workers", workers))
	}
	return strings.Join(names, ", ")
}

// Rescuer looks for dead workers. It is for one goroutine; any number of processes
// may have one, since each thing that is left is taken over once.
type Rescuer struct {
	store   *store.Store
	limiter *ratelimit.Admin
	log     zerolog.Logger
	swept   time.Time            // when limits without a worker were looked for
	dead    map[string]time.Time // workers whose heartbeat lapsed, and when that was seen first
	missed  map[string]time.Time // likewise, those that hold tasks
}

// lastWords is how long after a worker that holds tasks was seen dead its tasks are returned. Redis may
// have been away: then its process lives, has answers in hand, and tries to record them every second.
const lastWords = 2 * time.Second

// pinsOutlive is how long after a worker was seen dead its limits stay in force. A worker that
// could not renew in time, because Redis was unreachable, continues under another ID and pins
// the same limits again.
const pinsOutlive = 4 * time.Second

// forgetMissed is how long a dead worker is remembered that holds no tasks any more.
const forgetMissed = 10 * time.Minute

// pinsSweep is the time between two looks for limits that no worker's heartbeat leads to. A worker
// of an earlier release makes such limits, if its registration arrives after it was buried.
const pinsSweep = 5 * time.Second

// New makes a Rescuer. The limiter need not run.
func New(s *store.Store, limiter *ratelimit.Admin, log zerolog.Logger) *Rescuer {
	return &Rescuer{store: s, limiter: limiter, log: log, dead: map[string]time.Time{}, missed: map[string]time.Time{}}
}

// Once returns the tasks that workers whose heartbeat lapsed hold in some queues,
// and tells filled of each queue that got any. Such workers have fenced their calls
// by then; asynq's own recovery takes up to two minutes and uses up a retry. Then
// all else that is known of those workers goes, and limits that they pinned are no
// longer in force. Within the limiter's grace period Once does nothing.
func (r *Rescuer) Once(ctx context.Context, queues []string, filled func(queue string)) error {
	// Which workers are alive is unknown while Redis may have forgotten some.
	if grace, err := r.limiter.Grace(ctx); err != nil || grace > 0 {
		return err
	}
	var errs []error
	for _, queue := range queues {
		err := r.returnTasks(ctx, queue, filled)
		switch {
		case err == nil:
		case quarantine.Concerns(err): // this queue alone
			errs = append(errs, err)
		default:
			return err
		}
	}
	if err := r.bury(ctx); err != nil {
		return err
	}
	maps.DeleteFunc(r.missed, func(_ string, since time.Time) bool { return time.Since(since) > forgetMissed })
	if time.Since(r.swept) >= pinsSweep {
		if err := r.sweep(ctx); err != nil {
			return err
		}
		r.swept = time.Now()
	}
	return errors.Join(errs...)
}

func (r *Rescuer) returnTasks(ctx context.Context, queue string, filled func(string)) error {
	var dead []string
	returned, err := gate.Recover(ctx, r.store.Client(), queue, func(ctx context.Context, owners []string) (map[string]bool, error) {
		alive, err := r.limiter.Alive(ctx)
		if err != nil {
			return nil, err
		}
		for _, owner := range owners {
			if !r.isDead(owner, alive[owner]) {
				alive[owner] = true
				continue
			}
			dead = append(dead, owner)
		}
		return alive, nil
	})
	if len(returned) > 0 {
		filled(queue)
	}
	if err := errors.Join(err, r.countDeaths(ctx, returned)); err != nil {
		return err
	}
	if len(returned) > 0 {
		r.log.Warn().Str("queue", queue).Strs("workers", dead).Int("tasks", len(returned)).Msg("returned the tasks of dead workers")
	}
	return nil
}

// isDead reports whether a worker that holds tasks has been dead for long enough. beats: its heartbeat
// is valid.
func (r *Rescuer) isDead(worker string, beats bool) bool {
	since, seen := r.missed[worker]
	switch {
	case beats:
		delete(r.missed, worker)
	case !seen:
		r.missed[worker] = time.Now()
	default:
		return time.Since(since) >= lastWords
	}
	return false
}

// countDeaths counts the deaths of the workers that held tasks, which are given with their owners. A
// worker whose process lives on under another ID has not died: Redis was away for too long.
func (r *Rescuer) countDeaths(ctx context.Context, held map[string]string) error {
	told, err := r.store.Told(ctx, slices.Compact(slices.Sorted(maps.Values(held))))
	for task, owner := range held {
		if !told[owner].LivesOn {
			err = errors.Join(err, r.countDeath(ctx, task))
		}
	}
	return err
}

// countDeath notes that a worker died holding a task's run. The process that returned the task
// counts it, under a token that makes a repeated command count once.
func (r *Rescuer) countDeath(ctx context.Context, task string) error {
	id, generation, err := record.ParseTaskID(task)
	if err != nil {
		return nil // not one of ours: the queue may be shared
	}
	_, err = r.store.Died(ctx, id, generation, rand.Text())
	return err
}

// bury takes the limits of dead workers' configurations out of force, and with them
// all else that is known of those workers.
func (r *Rescuer) bury(ctx context.Context) error {
	workers, err := r.limiter.Alive(ctx)
	if err != nil {
		return err
	}
	maps.DeleteFunc(r.dead, func(worker string, _ time.Time) bool {
		alive, known := workers[worker]
		return alive || !known
	})
	for worker, alive := range workers {
		if alive {
			continue
		}
		since, seen := r.dead[worker]
		if !seen {
			since = time.Now()
			r.dead[worker] = since
		}
		if time.Since(since) < pinsOutlive {
			continue
		}
		if err := r.limiter.Forget(ctx, worker); err != nil {
			return err
		}
	}
	return nil
}

// sweep takes limits out of force that workers pinned which have ended: what bury
// has no heartbeat to find by.
func (r *Rescuer) sweep(ctx context.Context) error {
	holders, err := r.limiter.Holders(ctx)
	if err != nil {
		return err
	}
	pinned := map[string]string{} // holders by worker
	for _, holder := range holders {
		if worker, ok := ratelimit.PinnedBy(holder); ok {
			pinned[worker] = holder
		}
	}
	if len(pinned) == 0 {
		return nil
	}
	alive, err := r.limiter.Alive(ctx) // after the holders: a worker beats before it pins
	if err != nil {
		return err
	}
	for worker, holder := range pinned {
		if _, known := alive[worker]; known { // bury finds it
			continue
		}
		if err := r.limiter.Unregister(ctx, holder); err != nil {
			return err
		}
	}
	return nil
}
