package worker

import (
	"context"
	"strings"
	"time"
)

// holderPrefix marks, in the registry of limits, those that a worker's own
// configuration pins.
const holderPrefix = "worker/"

// PinnedBy is the id of the worker that pinned limits as holder; ok is false for
// an evaluation's.
func PinnedBy(holder string) (worker string, ok bool) { return strings.CutPrefix(holder, holderPrefix) }

// unpinTime bounds the last command of a session, whose Redis may be away.
const unpinTime = 2 * time.Second

// pin pins the limits of the worker's configuration. Pinned already they change
// nothing: it is done again for a Redis that has lost them.
func (s *session) pin(ctx context.Context) error {
	if len(s.cfg.Limits) == 0 {
		return nil
	}
	return s.limiter.Register(ctx, holderPrefix+s.id, s.cfg.Limits)
}

// unpin is the end of what pin began. Where it fails, another worker does it once
// this one's heartbeat has lapsed.
func (s *session) unpin(ctx context.Context) {
	if len(s.cfg.Limits) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unpinTime)
	defer cancel()
	if err := s.limiter.Unregister(ctx, holderPrefix+s.id); err != nil {
		s.log.Warn().Err(err).Msg("the limits of this worker's configuration stay pinned until another worker sees that it has ended")
	}
}

// sweep takes limits out of force that workers pinned which have ended: what
// buryDead has no heartbeat to find by.
func (s *session) sweep(ctx context.Context) error {
	usage, err := s.limiter.Usage(ctx)
	if err != nil {
		return err
	}
	pinned := map[string]string{} // holders by worker
	for _, u := range usage {
		for _, holder := range u.Holders {
			if worker, ok := PinnedBy(holder); ok {
				pinned[worker] = holder
			}
		}
	}
	alive, err := s.limiter.Alive(ctx) // after the holders: who pins, beats
	if err != nil {
		return err
	}
	for worker, holder := range pinned {
		if alive[worker] {
			continue
		}
		if err := s.limiter.Unregister(ctx, holder); err != nil {
			return err
		}
	}
	return nil
}

// buryDead takes the limits of dead workers' configurations out of force, and
// with them all else that is known of those workers.
func (s *session) buryDead(ctx context.Context) error {
	workers, err := s.limiter.Alive(ctx)
	if err != nil {
		return err
	}
	for worker, alive := range workers {
		if alive {
			continue
		}
		// The heartbeat goes last: by it the worker is found.
		if err := s.limiter.Unregister(ctx, holderPrefix+worker); err != nil {
			return err
		}
		if err := s.limiter.Forget(ctx, worker); err != nil {
			return err
		}
	}
	return nil
}
