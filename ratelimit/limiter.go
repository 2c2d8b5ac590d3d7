// Package ratelimit admits calls under limits shared by all processes.
//
// A limit bounds the calls in flight or the calls started in a period. It applies to the whole fleet, a provider, a
// model, a group or an evaluation. Limits are kept in a registry in Redis. One script admits a call under every limit
// that matches its scope, or under none. The call holds a lease until it is released. Leases live on Redis's clock and
// are renewed together. A process that could not renew in time notices by its machine's clocks before any other process
// may use its leases, even if the machine was suspended.
//
// There is no polling. The calls of one process that wait under the same limits share one wait queue, for which one
// script asks. Across processes, a lease that ends wakes the process that has waited longest, and a process that waits
// for a rate learns the exact time at which it may continue.
//
// The package does not know providers, runs or queues. It keeps no limit of its own while Redis is unreachable (no call
// starts then), and never decides whether a failed call is retried.
package ratelimit

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
)

// DefaultLease is how long leases and heartbeats last unless they are renewed.
const DefaultLease = 10 * time.Second

// ErrFenced means that the heartbeat of this worker lapsed: others may use its leases. Nothing may be sent under them;
// a new Limiter with a new worker ID takes over.
var ErrFenced = errors.New("the worker's heartbeat lapsed")

// ErrStopped means that Run has ended, or was told to.
var ErrStopped = errors.New("the limiter has stopped")

// ErrLost means that a lease is no longer valid for the call: it was not renewed, or the call is too late for its
// granted start. The call may ask again, under a new ID.
var ErrLost = errors.New("the lease is lost")

// Config of a Limiter, and of an Admin. The zero Config is valid.
type Config struct {
	// Namespace is the hash tag of all keys. Default "ef".
	Namespace string
	// Worker identifies this incarnation of the process; no other may ever use the same name. Default: a random name.
	Worker string
	// Lease is how long leases and the heartbeat last unless renewed, which
	// happens every third of it. The process fences itself after four fifths.
	// Default DefaultLease.
	Lease time.Duration
	// Notes are what a new Limiter takes over from one that was fenced: see there. Default: Notes of its own.
	Notes *Notes
	// Log receives one message about each outage of Redis. The zero Logger is silent.
	Log zerolog.Logger
}

// Limiter admits the calls of one worker. Its methods may be used by any number
// of goroutines.
type Limiter struct {
	access
	holder string // whose limits must be in force for every call; "" for none

	kick     chan struct{} // there is mail, or a lease ended; holds one
	late     chan struct{} // a call was too late to be sent; holds one
	doubts   chan struct{} // leases are in doubt; holds one
	beating  chan struct{} // closed at the first heartbeat
	fenced   chan struct{} // closed when the heartbeat lapsed
	stopping chan struct{} // closed when Run was told to end
	ended    chan struct{} // closed when mail is no longer read

	mu      sync.Mutex // guards the fields below
	running bool
	mail    mail
	leases  map[string]*Lease
	held    map[string]int64  // leases by limit ID
	others  map[string]others // likewise those of other workers
	until   instant           // when the heartbeat counts as lapsed
	epoch   string            // of Redis's memory, in which it was last told of the leases
	waiting int
	spreads map[string]*spread // by provider
	health  Health
	clock   clock
	delays  delays

	disagreeing sync.Mutex // held while finding out whether Redis's clock was set
}

// mail is what other goroutines post to the pump.
type mail struct {
	calls     []*call
	withdrawn []*call
	releases  []*release
	wakes     []wake
}

// New returns a Limiter that uses client. The caller closes client.
func New(client redis.UniversalClient, cfg Config) *Limiter {
	return newLimiter(client, cfg)
}

// newLimiter returns a Limiter for a single admission: it can Run only if client is a redis.UniversalClient.
func newLimiter(client redis.Cmdable, cfg Config) *Limiter {
	cfg.Worker = cmp.Or(cfg.Worker, rand.Text())
	cfg.Notes = cmp.Or(cfg.Notes, &Notes{})
	return &Limiter{
		access: newAccess(client, cfg),
		kick:   make(chan struct{}, 1), late: make(chan struct{}, 1), doubts: make(chan struct{}, 1),
		beating: make(chan struct{}), fenced: make(chan struct{}),
		stopping: make(chan struct{}), ended: make(chan struct{}),
		leases: map[string]*Lease{}, held: map[string]int64{}, others: map[string]others{}, spreads: map[string]*spread{},
	}
}

// margin returns how long before its leases end in Redis a worker gives them up. It covers the drift of two clocks
// during a lease, and the time to stop.
func (c Config) margin() time.Duration { return c.Lease / 5 }

// Run keeps the heartbeat and the leases, and admits the calls that wait in Acquire. It runs once. When ctx ends, it
// writes pending releases, leaves all wait queues, removes the heartbeat and returns nil. Leases that are still held
// are then lost, so end the calls first. If the heartbeat lapses, it returns ErrFenced.
func (l *Limiter) Run(ctx context.Context) error {
	l.mu.Lock()
	if l.running {
		l.mu.Unlock()
		return errors.New("run limiter: it has run before")
	}
	l.running = true
	l.mu.Unlock()

	// The other parts outlive ctx, so that the heartbeat holds while the pump
	// writes down the last releases.
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { close(l.stopping) })
	defer stop()
	group, inner := errgroup.WithContext(inner)
	group.Go(func() error { return l.listen(inner) })
	group.Go(func() error { return l.renewals(inner) })
	group.Go(func() error { return l.watch(inner) })
	group.Go(func() error { return l.measure(inner) })
	group.Go(func() error {
		defer cancel()
		return newPump(l).run(inner)
	})
	err := group.Wait()
	if err == nil {
		l.bury(ctx)
	}

	l.mu.Lock()
	l.loseAll(cmp.Or(err, ErrStopped))
	close(l.ended)
	l.mu.Unlock()
	if err != nil {
		return fmt.Errorf("run limiter: %w", err)
	}
	return nil
}

// bury ends the heartbeat once nothing renews it any more.
func (l *Limiter) bury(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.cfg.Lease/2)
	defer cancel()
	if err := l.remove(ctx, l.cfg.Worker, true); err != nil {
		l.outage(ctx, err)
	}
}

// Fenced returns a channel that is closed when the worker's heartbeat has lapsed by its own clock, before other
// processes may use its leases. Every handler must then end, whether it waits or has a call in flight.
func (l *Limiter) Fenced() <-chan struct{} { return l.fenced }

// Beating returns a channel that is closed after the first heartbeat: from then on others know that the worker is
// alive. Take over no work of other workers before.
func (l *Limiter) Beating() <-chan struct{} { return l.beating }

// Ended returns a channel that is closed when Run has returned and has written its pending releases.
func (l *Limiter) Ended() <-chan struct{} { return l.ended }

// Waiting returns the number of calls that are in Acquire.
func (l *Limiter) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting
}

// Health describes the state of a Limiter and its history since it was created.
type Health struct {
	Away    bool // Redis did not answer when it was asked last
	Outages int  // how often it stopped answering
	Lost    int  // leases that ended before they were released
}

// Health returns the limiter's health. It may be called at any time.
func (l *Limiter) Health() Health {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.health
}

// wakePump tells the pump that there is something to do.
func (l *Limiter) wakePump() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// outage records that Redis does not answer; see Health.
func (l *Limiter) outage(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.health.Away {
		l.health.Away = true
		l.health.Outages++
		l.cfg.Log.Debug().Err(err).Msg("cannot reach the limits; no call starts")
	}
}

// answered records that Redis answers.
func (l *Limiter) answered() {
	l.mu.Lock()
	l.health.Away = false
	l.mu.Unlock()
}
