package ratelimit

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// Admin reads and changes what all Limiters of a namespace share: the registry of limits and
// its closures, what limits have counted, heartbeats, and leases that no Limiter holds. It has
// no heartbeat and admits nothing. Its methods may be used by any number of goroutines.
type Admin struct {
	access

	mu     sync.Mutex // guards the fields below
	clock  clock
	unsure instant // until when heartbeats are not known
}

// NewAdmin returns an Admin that uses client, which stays the caller's to close. Config.Worker
// is not used.
func NewAdmin(client redis.UniversalClient, cfg Config) *Admin {
	return &Admin{access: newAccess(client, cfg)}
}

// access is how a Limiter and an Admin reach Redis.
type access struct {
	client redis.UniversalClient
	cfg    Config
	keys   keys
	known  *atomic.Pointer[registry] // as it was read last
	own    ownClock
}

// now returns the time on this process's own clock.
func (a access) now() instant { return a.own() }

func newAccess(client redis.UniversalClient, cfg Config) access {
	cfg.Namespace = cmp.Or(cfg.Namespace, "ef")
	cfg.Lease = cmp.Or(cfg.Lease, DefaultLease)
	a := access{client: client, cfg: cfg, keys: newKeys(cfg.Namespace), known: &atomic.Pointer[registry]{}, own: newOwnClock()}
	a.known.Store(&registry{})
	return a
}

// Start registers limits under the name of the service that calls are made for, in place of
// those it registered before, and returns a Limiter that runs until ctx ends. Ended tells when
// it has stopped.
func Start(ctx context.Context, client redis.UniversalClient, service string, limits ...Limit) (*Limiter, error) {
	if err := NewAdmin(client, Config{}).Register(ctx, service, limits); err != nil {
		return nil, err
	}
	l := New(client, Config{})
	go func() { _ = l.Run(ctx) }() // Wait and Acquire return its error
	return l, nil
}
