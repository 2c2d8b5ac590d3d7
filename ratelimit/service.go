package ratelimit

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
)

// Service is a program whose processes share limits. Services with different names share nothing,
// not even limits of the same scope in the same Redis.
type Service struct {
	// Name is part of the service's keys in Redis: letters, digits, ".", "_" and "-".
	Name string
	// Limits are in force as long as a process that was started with them runs. Every process keeps the limits of all,
	// so the old configuration still applies while a new one is rolled out. A process that dies without ending takes
	// its limits along a lease later. After Redis has lost its memory, a daily quota admits nothing until the next day,
	// or until Admin.Seed sets how much of it was used.
	Limits []Limit
	// Log receives a message when calls have to wait because Redis may have forgotten some that are in flight, and one
	// about each outage of Redis. The zero Logger is silent.
	Log zerolog.Logger
}

var serviceName = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// Start returns a Limiter of a service, which runs until ctx ends; Ended tells when it has stopped. The limits are in
// force when Start returns. If Redis loses them, for example by FLUSHALL, they are registered again, and no call starts
// before that.
//
// The first calls wait for up to DefaultLease if Redis has just started, was flushed since, or was a replica before:
// calls that it does not remember may be in flight.
func Start(ctx context.Context, client redis.UniversalClient, s Service) (*Limiter, error) {
	return startService(ctx, client, s, DefaultLease)
}

func startService(ctx context.Context, client redis.UniversalClient, s Service, lease time.Duration) (*Limiter, error) {
	if !serviceName.MatchString(s.Name) {
		return nil, fmt.Errorf("start service %q: want a name of letters, digits, \".\", \"_\" and \"-\"", s.Name)
	}
	if err := validate(s.Limits); err != nil {
		return nil, fmt.Errorf("start service %s: %w", s.Name, err)
	}
	cfg := Config{Namespace: "service/" + s.Name, Lease: lease, Log: s.Log}
	admin := NewAdmin(client, cfg)
	if err := admin.Remember(ctx); err != nil {
		return nil, fmt.Errorf("start service %s: %w", s.Name, err)
	}

	l := New(client, cfg)
	l.holder = WorkerHolder(l.cfg.Worker)
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		_ = l.Run(ctx) // Wait and Acquire return its error
	}()
	if err := l.join(ctx, admin, s); err != nil {
		cancel()
		<-l.Ended()
		return nil, fmt.Errorf("start service %s: %w", s.Name, err)
	}
	go l.keep(ctx, admin, s.Limits)
	return l, nil
}

// join puts a service's limits into force once others know that this process is alive.
func (l *Limiter) join(ctx context.Context, admin *Admin, s Service) error {
	select {
	case <-l.Beating():
	case <-l.Ended():
		return ErrStopped
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	grace, err := l.keepOnce(ctx, admin, s.Limits)
	if err == nil && grace > 0 {
		s.Log.Warn().Str("service", s.Name).Dur("wait_ms", grace).
			Msg("Redis may have forgotten calls in flight; no call starts until they have ended")
	}
	return err
}

// keep keeps a service's limits in force until ctx ends, even if Redis loses its memory.
func (l *Limiter) keep(ctx context.Context, admin *Admin, limits []Limit) {
	ticker := time.NewTicker(l.cfg.Lease / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		_, _ = l.keepOnce(ctx, admin, limits) // the Limiter logs outages
	}
}

// keepOnce pins the limits and removes those of processes that have died. It returns what is left of the grace period,
// 0 or less if all calls in flight are known.
func (l *Limiter) keepOnce(ctx context.Context, admin *Admin, limits []Limit) (grace time.Duration, err error) {
	if _, err := l.Pin(ctx, limits); err != nil {
		return 0, err
	}
	// During the grace period, a process without a heartbeat may be alive.
	grace, err = admin.Grace(ctx)
	if err != nil || grace > 0 {
		return grace, err
	}

	processes, err := admin.Alive(ctx)
	if err != nil {
		return grace, err
	}
	for process, alive := range processes {
		if alive {
			continue
		}
		if err := admin.Forget(ctx, process); err != nil {
			return grace, err
		}
	}
	return grace, nil
}
