package controller

import (
	"context"
	"errors"
	"time"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/internal/queue/rescue"
	"github.com/evalfleet/evalfleet/internal/redisx/outage"
)

// sweepEvery is how often the controller looks for what killed processes left.
const sweepEvery = 30 * time.Second

// sweep removes what killed processes left, unless another controller does.
func (c *Controller) sweep(ctx context.Context) {
	spell := outage.Spell{
		Log: c.log, Fails: "cannot list leftovers of evaluations; retrying",
		Works: "listing leftovers of evaluations works again", Elsewhere: true,
	}
	sweeps := c.newSweeps()
	for {
		spell.Note(ctx, sweeps.step(ctx))
		if outage.Pause(ctx, c.sweepEvery) != nil {
			return
		}
	}
}

// sweeps are those of one controller. If two sweep at once, because one was suspended, this costs
// Redis twice as much and does no harm.
type sweeps struct {
	*Controller
	lock    *store.Lock
	rescuer *rescue.Rescuer
	sweeper *enqueue.Sweeper // nil: another controller swept last
}

func (c *Controller) newSweeps() *sweeps {
	return &sweeps{
		Controller: c, lock: c.store.NewLock(c.store.Keys().SweepLock(), 2*sweepEvery),
		rescuer: rescue.New(c.store, c.limiter, c.log),
	}
}

// step sweeps once, unless another controller does. It first returns tasks held by dead workers,
// including those in queues without an active evaluation.
func (s *sweeps) step(ctx context.Context) error {
	held, err := s.lock.Hold(ctx)
	if err != nil || !held {
		s.sweeper = nil // its last view may be outdated at the next sweep
		return err
	}
	if s.sweeper == nil {
		s.sweeper = enqueue.NewSweeper(s.store, s.limiter, s.log)
	}
	queues, err := s.store.Queues(ctx)
	if err != nil {
		return err
	}
	return errors.Join(s.rescuer.Once(ctx, queues, func(queue string) { s.filled(ctx, queue) }), s.sweeper.Sweep(ctx))
}
