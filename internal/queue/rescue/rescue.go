// Package rescue cleans up after dead workers: Rescuer.Once returns their tasks to the queues, and
// removes the limits that their configurations pinned and their places in wait queues. Workers do
// this for each other; if there are none, a controller does.
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

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/internal/queue/gate"
	"github.com/evalfleet/evalfleet/internal/queue/quarantine"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Pinners describes the holders of a limit: the first three evaluations, and the number of workers,
// which pin the limits of their --config.
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

// Rescuer cleans up after dead workers. It must not be used by several goroutines at once. Any
// number of processes may have one: each task, limit and place is taken over once.
type Rescuer struct {
	store   *store.Store
	limiter *ratelimit.Admin
	log     zerolog.Logger
	swept   time.Time            // when limits without a worker were last searched for
	dead    map[string]time.Time // workers without a valid heartbeat, with when that was first seen
}

// lastWords is how long after a worker was seen dead its tasks are returned. Redis may have been away:
// then its process lives, has answers in hand, and tries to record them every second.
const lastWords = 2 * time.Second

// forgetDead is how long a dead worker is remembered.
const forgetDead = 10 * time.Minute

// pinsOutlive is how long the limits of a worker stay in force after it was seen dead. A worker
// that could not renew in time, because Redis was unreachable, continues under another ID and pins
// the same limits again.
const pinsOutlive = 4 * time.Second

// pinsSweep is the time between two searches for limits without any heartbeat of a worker. A worker
// of an earlier release makes such limits if its registration arrives after it was buried.
const pinsSweep = 5 * time.Second

// New returns a Rescuer. The limiter need not run.
func New(s *store.Store, limiter *ratelimit.Admin, log zerolog.Logger) *Rescuer {
	return &Rescuer{store: s, limiter: limiter, log: log, dead: map[string]time.Time{}}
}

// Once returns the tasks of workers whose heartbeat lapsed to the given queues, and calls filled
// for each queue that got any. Such workers have ended their calls by then; asynq's own recovery
// takes up to two minutes and uses up a retry. Then Once removes everything else that is known of
// those workers, including the limits that they pinned. Within the limiter's grace period, Once
// does nothing.
func (r *Rescuer) Once(ctx context.Context, queues []string, filled func(queue string)) error {
	// While Redis may have forgotten workers, it is unknown which ones are alive.
	if grace, err := r.limiter.Grace(ctx); err != nil || grace > 0 {
		return err
	}
	var errs []error
	for _, queue := range queues {
		err := r.returnTasks(ctx, queue, filled)
		switch {
		case err == nil:
		case quarantine.Concerns(err): // concerns this queue alone
			errs = append(errs, err)
		default:
			return err
		}
	}

	if err := r.forgetDeadWorkers(ctx); err != nil {
		return err
	}
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
			if alive[owner] || r.deadFor(owner) < lastWords {
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

// deadFor returns how long ago a worker without a valid heartbeat was first seen dead: 0 if it is now.
func (r *Rescuer) deadFor(worker string) time.Duration {
	since, seen := r.dead[worker]
	if !seen {
		since = time.Now()
		r.dead[worker] = since
	}
	return time.Since(since)
}

// countDeaths counts the deaths of the workers that held tasks, given as owners by task. A worker
// whose process continues under another ID has not died: Redis was away for too long.
func (r *Rescuer) countDeaths(ctx context.Context, held map[string]string) error {
	told, err := r.store.Told(ctx, slices.Compact(slices.Sorted(maps.Values(held))))
	for task, owner := range held {
		if !told[owner].LivesOn {
			err = errors.Join(err, r.countDeath(ctx, task))
		}
	}
	return err
}

// countDeath counts that a worker died while it had a task's run. The process that returned the
// task counts it, under a token that makes a repeated command count once.
func (r *Rescuer) countDeath(ctx context.Context, task string) error {
	id, generation, err := record.ParseTaskID(task)
	if err != nil {
		return nil // not one of ours: the queue may be shared
	}
	_, err = r.store.Died(ctx, id, generation, rand.Text())
	return err
}

// forgetDeadWorkers removes the limits of dead workers' configurations, and everything else that is known of
// those workers.
func (r *Rescuer) forgetDeadWorkers(ctx context.Context) error {
	workers, err := r.limiter.Alive(ctx)
	if err != nil {
		return err
	}
	maps.DeleteFunc(r.dead, func(worker string, since time.Time) bool { return workers[worker] || time.Since(since) > forgetDead })

	for worker, alive := range workers {
		if alive || r.deadFor(worker) < pinsOutlive {
			continue
		}
		if err := r.limiter.Forget(ctx, worker); err != nil {
			return err
		}
	}

	return nil
}

// sweep removes the limits that dead workers have pinned and that forgetDeadWorkers does not find, because the
// workers have no heartbeat left.
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
	alive, err := r.limiter.Alive(ctx) // read after the holders: a worker beats before it pins
	if err != nil {
		return err
	}

	for worker, holder := range pinned {
		if _, known := alive[worker]; known { // forgetDeadWorkers handles it
			continue
		}
		if err := r.limiter.Unregister(ctx, holder); err != nil {
			return err
		}
	}

	return nil
}
