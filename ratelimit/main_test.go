package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

func TestMain(m *testing.M) {
	testrun.Parallel(16)
	machineClock = func() time.Duration { return 0 } // the time of a bubble is not the machine's
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(redistest.Dialler))
}

// shortLease makes tests of what happens without renewal short. A process that
// the machine does not run for 5 s keeps it.
const shortLease = 10 * time.Second

func short(c *Config) { c.Lease = shortLease }

// everywhere runs a test on a real Redis and on the embedded one.
func everywhere(t *testing.T, test func(t testing.TB, connect func() *redis.Client)) {
	t.Parallel()
	on(t, func(testing.TB) {}, test)
}

// timed is everywhere for a test that waits for time to pass: with -short it
// runs on the embedded Redis only.
func timed(t *testing.T, test func(t testing.TB, connect func() *redis.Client)) {
	t.Parallel()
	on(t, testrun.Slow, test)
}

func on(t *testing.T, level func(testing.TB), test func(t testing.TB, connect func() *redis.Client)) {
	t.Run("redis", func(t *testing.T) {
		level(t)
		t.Parallel()
		server := redistest.New(t)
		test(t, func() *redis.Client { return server.Client() })
	})
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		embedded(t, test)
	})
}

// process is a Limiter that runs as one process of a fleet would.
type process struct {
	*Limiter
	t      testing.TB
	cancel context.CancelFunc
	done   chan error
}

// start runs a limiter until the test ends. On a real Redis its lease outlasts a
// machine that stands still. change, if any, alters its Config.
func start(t testing.TB, client redis.UniversalClient, worker string, change ...func(*Config)) *process {
	t.Helper()
	cfg := Config{Worker: worker}
	if !exact(t) {
		cfg.Lease = time.Minute
	}
	for _, f := range change {
		f(&cfg)
	}
	return run(t, New(client, cfg))
}

// run runs a limiter until the test ends.
func run(t testing.TB, l *Limiter) *process {
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{Limiter: l, t: t, cancel: cancel, done: make(chan error, 1)}
	go func() { p.done <- p.Run(ctx) }()
	t.Cleanup(func() {
		if err := p.stop(); err != nil && !errors.Is(err, ErrFenced) {
			t.Errorf("Run of %s: %v", l.cfg.Worker, err)
		}
	})
	return p
}

// stop ends Run and returns what it returned.
func (p *process) stop() error {
	p.cancel()
	err := <-p.done
	p.done <- err
	return err
}

func tools(client redis.Cmdable) *Admin { return NewAdmin(client, Config{}) }

func register(t testing.TB, client redis.Cmdable, holder string, limits ...Limit) {
	t.Helper()
	if err := tools(client).Register(t.Context(), holder, limits); err != nil {
		t.Fatal(err)
	}
}

func mustAcquire(t testing.TB, l *process, id string, scope Scope) *Lease {
	t.Helper()
	ctx, cancel := context.WithDeadline(t.Context(), testrun.Deadline(t))
	defer cancel()
	lease, err := l.Acquire(ctx, Request{ID: id, Call: scope})
	if err != nil {
		t.Fatalf("Acquire(%s): %v", id, err)
	}
	return lease
}

func mustRelease(t testing.TB, lease *Lease) {
	t.Helper()
	ctx, cancel := context.WithDeadline(context.Background(), testrun.Deadline(t))
	defer cancel()
	if err := lease.Release(ctx); err != nil {
		t.Errorf("Release(%s): %v", lease.ID(), err)
	}
}

func inFlight(scope Scope, most int64) Limit {
	return Limit{Scope: scope, Kind: Concurrency, Max: most}
}

// provider counts the calls in flight, as a provider would. It knows nothing of
// the limiter.
type provider struct {
	most int64 // refuses beyond

	mu      sync.Mutex
	now     int64
	peak    int64
	over    int64
	calls   int64
	busy    time.Duration // slots times time
	changed time.Time
}

// reached reports whether so many calls were in flight at once.
func (p *provider) reached(calls int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.peak >= calls
}

// made reports whether so many calls were made.
func (p *provider) made(calls int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls >= calls
}

func (p *provider) enter() { p.change(1) }
func (p *provider) leave() { p.change(-1) }

func (p *provider) change(by int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := time.Now()
	if p.now > 0 {
		p.busy += time.Duration(p.now) * t.Sub(p.changed)
	}
	p.changed = t
	p.now += by
	p.peak = max(p.peak, p.now)
	if by > 0 {
		p.calls++
		if p.now > p.most {
			p.over++
		}
	}
}

func (p *provider) verify(t testing.TB) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over > 0 {
		t.Errorf("provider saw %d calls over its limit of %d (peak %d)", p.over, p.most, p.peak)
	}
}

// refusal is err as a Refusal; nil when it is none.
func refusal(err error) *Refusal {
	var r *Refusal
	if !errors.As(err, &r) {
		return nil
	}
	return r
}

var ids atomic.Int64

func newID() string { return fmt.Sprintf("call-%d", ids.Add(1)) }

// load makes callers that call one after the other until ctx ends: each waits
// for admission, uses its lease as long as hold says, and releases it.
func load(ctx context.Context, t testing.TB, l *process, callers int, scope Scope, hold func() time.Duration, seen ...*provider) *sync.WaitGroup {
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for ctx.Err() == nil {
				lease, err := l.Acquire(ctx, Request{ID: newID(), Call: scope})
				if err != nil {
					if ctx.Err() == nil {
						t.Errorf("Acquire: %v", err)
					}
					return
				}
				use(t, lease, hold(), seen...)
				if err := lease.Release(context.WithoutCancel(ctx)); err != nil {
					t.Errorf("Release: %v", err)
				}
			}
		})
	}
	return &group
}

// use uses a lease as a worker does: nothing is sent on one that is lost.
func use(t testing.TB, lease *Lease, hold time.Duration, seen ...*provider) {
	ctx, cancel := lease.Context(t.Context())
	defer cancel()
	if lease.Check() != nil {
		return
	}
	for _, p := range seen {
		p.enter()
		defer p.leave()
	}
	sleep(ctx, hold)
}
