package ratelimit

import (
	"cmp"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// Admin reads and changes what all Limiters of a namespace share: the registry of limits and its closures, what limits
// have counted, heartbeats, and leases that no Limiter holds. It has no heartbeat and admits nothing. It is safe for
// concurrent use.
type Admin struct {
	access

	mu     sync.Mutex // guards the fields below
	clock  clock
	unsure instant // until when heartbeats are unknown
}

// NewAdmin returns an Admin that uses client. The caller closes client. Config.Worker is not used.
func NewAdmin(client redis.Cmdable, cfg Config) *Admin {
	return &Admin{access: newAccess(client, cfg)}
}

// access holds what a Limiter and an Admin need to use Redis.
type access struct {
	client redis.Cmdable
	cfg    Config
	keys   keys
	known  *atomic.Pointer[registry] // as last read
	own    ownClock
}

// now returns the time on this process's own clock.
func (a access) now() instant { return a.own() }

func newAccess(client redis.Cmdable, cfg Config) access {
	cfg.Namespace = cmp.Or(cfg.Namespace, "ef")
	cfg.Lease = cmp.Or(cfg.Lease, DefaultLease)
	a := access{client: client, cfg: cfg, keys: newKeys(cfg.Namespace), known: &atomic.Pointer[registry]{}, own: newOwnClock()}
	a.known.Store(&registry{})
	return a
}
