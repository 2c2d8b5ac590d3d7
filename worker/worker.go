// Package worker executes runs: it pulls tasks, takes a lease under every limit, calls the
// provider, reads the verdict, and records the outcome once.
//
// It decides what happens to a run. Package ratelimit decides what a limit allows, providers
// what an answer means, and enqueue which runs exist. docs/architecture.md describes the
// packages below worker/internal.
package worker

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// Cache looks up earlier answers; a results.Reader is one. It must be safe for concurrent use.
type Cache interface {
	// Answered returns the call with that record.Call.Key whose answer was usable.
	Answered(ctx context.Context, key string) (call record.Call, found bool, err error)
}

// Config configures a worker. Client and Endpoints are required. A Client of a Namespace that is not the default needs
// the hook gate.Prefixed.
type Config struct {
	Client    redis.UniversalClient
	Namespace string // default record.DefaultNamespace
	// Version is the program's version, shown in the fleet's status.
	Version string
	// Slots is how many calls this process has in flight at once. Default 100.
	Slots int
	// MaxAnswer is the maximum size of one answer, in bytes. Default providers.DefaultAnswer.
	MaxAnswer int
	// Queues are the only queues served. Empty: all that Endpoints can serve.
	Queues []string
	// Endpoints are the providers that can be called, by name. Queues of other providers are not served.
	Endpoints map[string]providers.Endpoint
	// Grace is how long calls in flight may continue after a stop. Default: the longest call timeout seen, plus 15 s.
	Grace time.Duration
	// Limits are the limits in this worker's configuration, on the accounts behind the endpoints or on the whole fleet.
	// The calls of every worker keep them while this worker lives.
	Limits []ratelimit.Limit
	// Lease is how long a call's slots remain taken after this process dies. Default 10 s.
	Lease time.Duration
	// Cache answers repeated calls of evaluations that allow it in their settings. nil: such
	// calls are made, and a warning is logged once.
	Cache Cache
	Log   zerolog.Logger
	// Observer receives what happens to runs. The zero value receives nothing.
	Observer observe.Observer
	// Probe reads the state of the running worker. nil: no probe.
	Probe *Probe
	// AtOnce, if closed after ctx has ended, ends the calls in flight at once. nil: they have their grace period.
	AtOnce <-chan struct{}

	beat time.Duration // of the watchdog; shorter in tests
}

func (c Config) withDefaults() Config {
	c.Slots = cmp.Or(c.Slots, 100)
	c.MaxAnswer = cmp.Or(c.MaxAnswer, providers.DefaultAnswer)
	c.Observer = c.Observer.Complete()
	c.Probe = cmp.Or(c.Probe, &Probe{})
	c.beat = cmp.Or(c.beat, beat)
	return c
}

// Validate returns an error that lists everything wrong with the configuration.
func (c Config) Validate() error {
	var problems []error
	if c.Client == nil {
		problems = append(problems, errors.New("worker: no Redis client"))
	}
	if len(c.Endpoints) == 0 {
		problems = append(problems, errors.New("worker: no provider can be called: set a key or configure one"))
	}
	if c.Slots < 0 {
		problems = append(problems, fmt.Errorf("worker: slots must be at least 1, got %d", c.Slots))
	}
	for _, limit := range c.Limits {
		if err := limit.Validate(); err != nil {
			problems = append(problems, fmt.Errorf("worker: %w", err))
		}
	}
	return errors.Join(problems...)
}

// Run executes runs until ctx ends. It then lets calls in flight finish for Grace, returns the other tasks to their
// queues and returns nil. While Redis is unreachable it waits and keeps its answers; what Redis loses before a
// collector has it is recorded again.
//
// A process that could not renew its leases in time, because it was frozen or cut off, ends everything it had and
// continues under another worker ID. All of its goroutines have ended when Run returns, unless the error is ErrStuck: a
// call or a write did not return long after its deadline, or after the grace period. The process must then end, so that
// other workers take over.
func Run(ctx context.Context, cfg Config) (err error) {
	if err := cfg.Validate(); err != nil {
		return err
	}
	cfg = cfg.withDefaults()
	defer context.AfterFunc(ctx, cfg.Probe.stop)()
	life, grace := newLife(cfg), cfg.Grace
	go life.watch(ctx)
	go life.guard(cfg.beat)
	var stopped atomic.Pointer[time.Time]
	defer context.AfterFunc(ctx, func() { now := time.Now(); stopped.Store(&now) })()
	defer func() {
		if at := stopped.Load(); at != nil { // the last session has used some of it
			grace = max(0, grace-time.Since(*at))
		}
		if left := life.end(grace, cfg.AtOnce); left != nil && !errors.Is(err, ErrStuck) {
			err = errors.Join(err, left)
		}
	}()

	for ctx.Err() == nil {
		s := newSession(cfg, newID(), life)
		cfg.Probe.begin(s.worker.Limiter, s.troubles.Own, slices.Sorted(maps.Keys(s.cfg.Endpoints)))
		err := s.run(ctx)
		cfg.Probe.end()
		grace = s.grace()
		switch {
		case errors.Is(err, ratelimit.ErrFenced):
			life.previous = s.worker.ID
			cfg.Log.Warn().Str("worker", s.worker.ID).Msg("could not renew leases in time; aborted calls, continuing as a new worker")
		case err != nil:
			return err
		}
	}

	return nil
}

// Serves reports whether a worker whose Config has these Queues may serve a queue. A name also selects the separate
// parts that evaluations have of the queue, and the queues that older versions gave this name.
func Serves(queues []string, queue string) bool {
	shared := record.SharedQueue(queue)
	return len(queues) == 0 || slices.ContainsFunc(queues, func(only string) bool {
		return only == queue || only == shared || only == record.EarlierQueueName(shared)
	})
}

// newID returns a worker ID: 8 letters and digits.
func newID() string { return strings.ToLower(rand.Text()[:8]) }

// storeOf returns the store that a worker's parts share.
func storeOf(cfg Config) *store.Store { return store.NewBusy(cfg.Client, cfg.Namespace) }
