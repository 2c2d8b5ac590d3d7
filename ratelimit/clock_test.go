package ratelimit

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// settable runs a test against an embedded Redis with a running clock that can be set.
func settable(t *testing.T, test func(t testing.TB, connect func() *redis.Client, set func(by time.Duration))) {
	onServer(t, func(t testing.TB, server *miniredis.Miniredis, connect func() *redis.Client) {
		var ahead atomic.Int64
		ended, stopped := make(chan struct{}), make(chan struct{})
		t.Cleanup(func() { close(ended); <-stopped })
		tick := func() { server.SetTime(time.Now().Add(time.Duration(ahead.Load()))) }
		tick()
		go func() {
			defer close(stopped)
			for {
				select {
				case <-time.After(10 * time.Millisecond):
					tick()
				case <-ended:
					return
				}
			}
		}()
		test(t, connect, func(by time.Duration) { ahead.Add(int64(by)); tick() })
	})
}

// logLines is a log that several processes write.
type logLines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logLines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *logLines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// Redis's clock is set while calls are in flight: they continue, no limit is exceeded, and calls under a limit, a rate
// and a cooldown soon start again, now and when the clock is corrected.
func TestClockIsSet(t *testing.T) {
	t.Parallel()
	for what, by := range map[string]time.Duration{"forward": 10 * time.Minute, "back": -10 * time.Minute, "back by a day": -24 * time.Hour} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			settable(t, func(t testing.TB, connect func() *redis.Client, set func(time.Duration)) {
				clockIsSetBy(t, connect, set, by)
			})
		})
	}
}

func clockIsSetBy(t testing.TB, connect func() *redis.Client, set func(time.Duration), by time.Duration) {
	client := connect()
	paced := Scope{Provider: "paced"}
	pace := rate(5, time.Second, 1)
	pace.Scope = paced
	register(t, client, "fleet", inFlight(Scope{}, 4), pace)
	if err := tools(client).Begin(t.Context(), longAgo); err != nil {
		t.Fatal(err)
	}
	said := &logLines{}
	logged := func(c *Config) { c.Log = zerolog.New(said) }
	a, b := start(t, connect(), "a", short, logged), start(t, connect(), "b", short, logged)
	seen := &provider{most: 4}
	for _, by := range []time.Duration{by, -by} {
		var held, late sync.WaitGroup
		done := make(chan struct{})
		var leases []*Lease
		for range 2 {
			for _, p := range []*process{a, b} {
				lease := mustAcquire(t, p, newID(), openai)
				leases = append(leases, lease)
				seen.enter()
				held.Go(func() { <-done; seen.leave(); mustRelease(t, lease) })
			}
		}
		if err := a.Cool(t.Context(), Scope{Provider: "cooled"}, shortLease); err != nil {
			t.Fatal(err)
		}
		set(by)
		for _, scope := range []Scope{openai, paced, {Provider: "cooled"}} {
			for _, p := range []*process{a, b} {
				late.Go(func() {
					lease := mustAcquire(t, p, newID(), scope)
					seen.enter()
					seen.leave()
					mustRelease(t, lease)
				})
			}
		}
		time.Sleep(3 * shortLease / 2)
		for _, lease := range leases {
			if err := lease.Check(); err != nil {
				t.Errorf("a call in flight lost its lease: %v", err)
			}
		}
		close(done)
		held.Wait()
		late.Wait()
	}
	seen.verify(t)
	if n := said.count("clock was set"); n != 2 {
		t.Errorf("the log says %d times that the clock was set twice:\n%s", n, said.text.String())
	}
	idle(t, client)
}

// A worker dies with a call under limits of an evaluation, which are taken out of force, and then Redis's clock is set
// back by hours. When the evaluation is submitted again, its calls wait no longer than if the clock had not been set.
func TestFormerLimitsWhenTheClockIsSet(t *testing.T) {
	t.Parallel()
	settable(t, func(t testing.TB, connect func() *redis.Client, set func(time.Duration)) {
		const by = -16 * time.Hour
		client := connect()
		pace := rate(5, time.Second, 1)
		pace.Scope = Scope{Evaluation: "ev-a"}
		own := []Limit{inFlight(Scope{Evaluation: "ev-a"}, 1), pace}
		register(t, client, "ev-a", own...)
		if err := tools(client).Begin(t.Context(), longAgo); err != nil {
			t.Fatal(err)
		}

		dying, wire := faulty(connect())
		a, b := start(t, dying, "a", short), start(t, connect(), "b", short)
		mustAcquire(t, a, newID(), evaluated)
		wire.set(func() { wire.cut = true })
		if err := tools(client).Unregister(t.Context(), "ev-a"); err != nil {
			t.Fatal(err)
		}

		set(by)
		mustRelease(t, mustAcquire(t, b, newID(), openai)) // it notices
		register(t, client, "ev-a", own...)
		mustRelease(t, mustAcquire(t, b, newID(), evaluated))
	})
}

// TestNewcomerAfterTheClockWasSet: a worker starts after Redis's clock was set forward and before the others notice. Its
// calls wait for theirs, whose leases seem to have ended. A worker that has died meanwhile delays no newcomer.
func TestNewcomerAfterTheClockWasSet(t *testing.T) {
	t.Parallel()
	settable(t, func(t testing.TB, connect func() *redis.Client, set func(time.Duration)) {
		client := connect()
		register(t, client, "fleet", inFlight(Scope{}, 2))
		if err := tools(client).Begin(t.Context(), longAgo); err != nil {
			t.Fatal(err)
		}
		if err := client.ZAdd(t.Context(), "{ef}:alive", redis.Z{Score: 1, Member: "dead"}).Err(); err != nil {
			t.Fatal(err)
		}
		old := start(t, connect(), "old", short)
		began := time.Now()
		seen := &provider{most: 2}
		var held sync.WaitGroup
		done := make(chan struct{})
		for range 2 {
			lease := mustAcquire(t, old, newID(), openai)
			seen.enter()
			held.Go(func() { <-done; seen.leave(); mustRelease(t, lease) })
		}
		if waited := time.Since(began); waited >= shortLease {
			t.Errorf("calls waited %s for a worker that has died", waited)
		}

		set(10 * time.Minute)
		newcomer := start(t, connect(), "newcomer", short)
		for range 2 {
			held.Go(func() {
				lease := mustAcquire(t, newcomer, newID(), openai)
				seen.enter()
				seen.leave()
				mustRelease(t, lease)
			})
		}
		time.Sleep(3 * shortLease / 2)
		close(done)
		held.Wait()
		seen.verify(t)
		idle(t, client)
	})
}

// A worker's own clock that stood still, as of a machine that slept, is not taken for
// Redis's: what others hold stays as it is.
func TestWorkerThatSlept(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "fleet", inFlight(Scope{}, 2))
		awake := start(t, connect(), "awake")
		lease := mustAcquire(t, awake, newID(), openai)
		slept := New(connect(), Config{Worker: "slept", Lease: awake.cfg.Lease})
		if err := slept.renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		epoch := client.HGet(t.Context(), "{ef}:limits", "epoch").Val()
		slept.mu.Lock() // ten minutes ago, on its clock it is a moment
		slept.clock.least -= 10 * time.Minute
		slept.clock.most -= 10 * time.Minute
		slept.mu.Unlock()
		if err := slept.renew(t.Context()); err == nil {
			t.Error("it renewed its heartbeat, want it to fence itself")
		}
		if now := client.HGet(t.Context(), "{ef}:limits", "epoch").Val(); now != epoch {
			t.Error("an epoch began, want only the worker to begin anew")
		}
		mustRelease(t, lease)
	})
}

// While a Redis with a changed clock may show earlier heartbeats, no worker is dead.
func TestHeartbeatsWhenTheClockIsSet(t *testing.T) {
	t.Parallel()
	settable(t, heartbeatsWhenTheClockIsSet)
}

func heartbeatsWhenTheClockIsSet(t testing.TB, connect func() *redis.Client, set func(time.Duration)) {
	client := connect()
	register(t, client, "fleet", inFlight(Scope{}, 1))
	watcher := NewAdmin(connect(), Config{Lease: shortLease}) // as a controller's
	if _, err := watcher.Alive(t.Context()); err != nil {
		t.Fatal(err)
	}
	start(t, connect(), "a", short)
	testrun.Eventually(t, "the heartbeat is seen", func() bool {
		alive, err := watcher.Alive(t.Context())
		return err == nil && alive["a"]
	})
	set(10 * time.Minute)
	unknown := false
	testrun.Eventually(t, "heartbeats are known again", func() bool {
		alive, err := watcher.Alive(t.Context())
		if err == nil && !alive["a"] {
			t.Error("a living worker is said to be dead")
		}
		unknown = unknown || err != nil
		return err == nil && unknown
	})
}

// refusing answers the first scripts that admit calls as a Redis does whose clock shows an unexpected time.
type refusing struct{ asked *atomic.Int64 }

func (refusing) DialHook(next redis.DialHook) redis.DialHook { return next }

func (refusing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (r refusing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		answer, isScript := cmd.(*redis.Cmd)
		if !isScript || cmd.Args()[1] != admitScript.Hash() || r.asked.Add(1) > 100 {
			return next(ctx, cmd)
		}
		answer.SetVal([]any{int64(-2)})
		return nil
	}
}

// A process whose clock stays wrong asks at growing intervals, says that it admits nothing, and can be stopped.
func TestClockThatStaysUnexpected(t *testing.T) {
	t.Parallel()
	embedded(t, func(t testing.TB, connect func() *redis.Client) {
		client, hook := connect(), refusing{&atomic.Int64{}}
		register(t, client, "fleet", inFlight(Scope{}, 1))
		client.AddHook(hook)
		p := start(t, client, "w")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := p.Acquire(ctx, Request{ID: newID(), Call: openai}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Acquire = %v, want %v", err, context.DeadlineExceeded)
		}
		if asked := hook.asked.Load(); asked < 10 || asked > 20 {
			t.Errorf("Redis was asked %d times in 10 s, want 10 to 20", asked)
		}
		if !p.Health().Away {
			t.Error("the limits are said to be reached")
		}
		if err := p.stop(); err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}
