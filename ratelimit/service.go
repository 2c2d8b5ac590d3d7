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
	// Limits are in force as long as a process that was started with them runs. Every process
	// keeps the limits of all, so that while a new configuration is rolled out the old one holds
	// as well. A process that dies without ending takes its limits along a lease later. After Redis
	// has lost its memory, a daily quota admits nothing until the next day, or until Admin.Seed tells
	// how much of it was used.
	Limits []Limit
	// Log hears when calls have to wait because Redis may have forgotten some that are in flight,
	// and once about each outage of Redis. The zero Logger is silent.
	Log zerolog.Logger
}

var serviceName = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// Start returns a Limiter of a service, which runs until ctx ends; Ended tells when it has
// stopped. The limits are in force when Start returns. A Redis that loses them, by FLUSHALL for
// example, is told them again, and until then no call starts.
//
// The first calls wait for up to DefaultLease where Redis has just started, was flushed since, or
// was a replica before: calls that it does not remember may be in flight.
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

// join puts a service's limits into force, once others know that this process lives.
func (l *Limiter) join(ctx context.Context, admin *Admin, s Service) error {
	select {
	case <-l.Beating():
	case <-l.Ended():
		return ErrStopped
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := l.keepOnce(ctx, admin, s.Limits); err != nil {
		return err
	}
	grace, err := admin.Grace(ctx)
	if err == nil && grace > 0 {
		s.Log.Warn().Str("service", s.Name).Dur("wait_ms", grace).Msg("Redis may have forgotten calls in flight; until they have surely ended, no call starts")
	}
	return err
}

// keep keeps a service's limits in force until ctx ends, in a Redis that loses its memory as well.
func (l *Limiter) keep(ctx context.Context, admin *Admin, limits []Limit) {
	ticker := time.NewTicker(l.cfg.Lease / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		_ = l.keepOnce(ctx, admin, limits) // the Limiter tells of outages
	}
}

// keepOnce pins the limits and takes those of processes out of force that have died.
func (l *Limiter) keepOnce(ctx context.Context, admin *Admin, limits []Limit) error {
	if _, err := l.Pin(ctx, limits); err != nil {
		return err
	}
	// As long as calls may be unknown, a process without a heartbeat may be alive.
	grace, err := admin.Grace(ctx)
	if err != nil || grace > 0 {
		return err
	}
	processes, err := admin.Alive(ctx)
	if err != nil {
		return err
	}
	for process, alive := range processes {
		if !alive {
			err = admin.Forget(ctx, process)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
