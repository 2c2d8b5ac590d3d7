package ratelimit

import (
	"context"
	"fmt"
	"time"
)

// awaitLapsed waits before the first heartbeat for workers whose heartbeats have ended on Redis's clock although they
// are connected to Redis. Redis's clock may have been set forward, which a worker that has not seen it before cannot
// notice: calls whose leases seem to have ended may be in flight. The others notice at their next renewal, and move
// what is stored. After one lease, those that have not renewed have given up their calls.
//
// A worker that died or ended is not connected, so it delays nobody, unless its machine or network failed. Redis's clock
// must have been looked at before, because only a change since the last look is noticed.
func (l *Limiter) awaitLapsed(ctx context.Context) error {
	limit := l.now().add(l.cfg.Lease)
	for {
		lapsed, err := l.connectedLapsed(ctx)
		if err != nil {
			return err
		}
		if !lapsed || l.now().reached(limit) {
			return nil
		}
		select {
		case <-time.After(min(l.cfg.Lease/20, pauses.Longest)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// connectedLapsed reports whether a worker is connected whose heartbeat has ended, or is about to: many leases are
// renewed in several steps, each with the heartbeat, and the first of them end before it. A message to the worker tells
// that it is connected: Redis counts who receives it.
func (l *Limiter) connectedLapsed(ctx context.Context) (bool, error) {
	now, ends, err := l.heartbeats(ctx)
	if err != nil {
		return false, fmt.Errorf("read heartbeats: %w", err)
	}
	ended := now + float64(l.cfg.tolerance().Microseconds())
	for worker, end := range ends {
		if end > ended || worker == l.cfg.Worker {
			continue
		}
		receivers, err := l.client.Publish(ctx, l.keys.wake(worker), "limits").Result()
		if err != nil {
			return false, fmt.Errorf("look for worker %s: %w", worker, err)
		}
		if receivers > 0 {
			return true, nil
		}
	}
	return false, nil
}
