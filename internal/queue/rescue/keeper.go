package rescue

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/internal/queue/gate"
	"github.com/evalfleet/evalfleet/internal/queue/quarantine"
	"github.com/evalfleet/evalfleet/internal/redisx/outage"
	"github.com/evalfleet/evalfleet/ratelimit"
)

const (
	// dueEvery is how often delayed tasks are checked; their times are whole seconds.
	dueEvery = time.Second
	// dueTimeEach makes dueEvery longer with each queue, so that many queues do not
	// keep Redis busy.
	dueTimeEach = 10 * time.Millisecond
	// rescueEvery is how often dead workers are looked for.
	rescueEvery = 3 * time.Second
	// stepInEvery is how often the other processes check whether one keeps house.
	stepInEvery = 2 * time.Second
	// lockLife outlives the time between two looks, so that the holder keeps the lock.
	lockLife = 3 * time.Second
)

// Keeper keeps house for all queues of a fleet. It moves delayed tasks whose time has come into
// them, and announces queues with waiting tasks in case a worker missed that. It takes over what
// dead workers left. Any number of processes may have one. A short lock lets one of them work, so
// that the load of an idle fleet on Redis does not grow with its workers. If two work at once,
// nothing is done twice.
type Keeper struct {
	// Queues names the queues to look after: those of all active evaluations.
	Queues func(ctx context.Context) ([]string, error)
	// Note receives the result of each look.
	Note func(ctx context.Context, err error)

	store   *store.Store
	log     zerolog.Logger
	rescuer *Rescuer
	lock    *store.Lock

	forwarded, rescued time.Time
}

// NewKeeper returns a Keeper, which does nothing until Run. The limiter need not run.
func NewKeeper(s *store.Store, limiter *ratelimit.Admin, log zerolog.Logger) *Keeper {
	return &Keeper{store: s, log: log, rescuer: New(s, limiter, log), lock: s.NewLock(s.Keys().HouseLock(), lockLife), rescued: time.Now()}
}

// Run keeps house until ctx ends. It waits while Redis is unreachable.
func (k *Keeper) Run(ctx context.Context) {
	for {
		if outage.Pause(ctx, k.step(ctx, time.Now())) != nil {
			return
		}
	}
}

// step does the work that is due at now, and returns when more is due.
func (k *Keeper) step(ctx context.Context, now time.Time) (next time.Duration) {
	next = stepInEvery
	held, err := k.lock.Hold(ctx)
	if held {
		next, err = dueEvery, k.serveQueues(ctx, now)
	}
	k.Note(ctx, err)
	return next
}

// serveQueues looks after the queues.
func (k *Keeper) serveQueues(ctx context.Context, now time.Time) error {
	queues, err := k.Queues(ctx)
	if err != nil {
		return err
	}
	if now.Sub(k.forwarded) < time.Duration(len(queues))*dueTimeEach {
		return nil
	}

	k.forwarded = now
	forward := func(queue string) error {
		moved, err := gate.Forward(ctx, k.store.Client(), queue)
		if moved > 0 {
			k.filled(ctx, queue)
		}
		return err
	}
	problems := each(queues, forward)
	if now.Sub(k.rescued) < rescueEvery || outage.Is(problems) {
		return problems
	}
	k.rescued = now
	expired := each(queues, func(queue string) error { return gate.Expire(ctx, k.store.Client(), queue) })
	rescued := k.rescuer.Once(ctx, queues, func(queue string) { k.filled(ctx, queue) })
	waiting, err := gate.Waiting(ctx, k.store.Client(), queues)
	for _, queue := range waiting {
		k.filled(ctx, queue)
	}
	return errors.Join(problems, expired, rescued, err)
}

// each calls do for each queue. A failure that concerns one queue alone does not keep it from the
// others.
func each(queues []string, do func(queue string) error) error {
	var errs []error
	for _, queue := range queues {
		if err := do(queue); err != nil {
			errs = append(errs, err)
			if !quarantine.Concerns(err) {
				break
			}
		}
	}
	return errors.Join(errs...)
}

func (k *Keeper) filled(ctx context.Context, queue string) {
	if err := k.store.AnnounceFilled(ctx, queue); err != nil {
		k.log.Debug().Err(err).Str("queue", queue).Msg("cannot announce new tasks to workers; they will poll")
	}
}
