package ratelimit

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

func TestSlotsOfADeadProcessReturn(t *testing.T) {
	timed(t, func(t testing.TB, connect func() *redis.Client) {
		register(t, connect(), "fleet", inFlight(Scope{}, 4))
		client, wire := faulty(connect())
		a, b := start(t, client, "a", short), start(t, connect(), "b")
		seen := &provider{most: 4}
		var calls sync.WaitGroup
		for range 4 {
			lease := mustAcquire(t, a, newID(), openai)
			calls.Go(func() { use(t, lease, time.Hour, seen) })
		}
		wire.set(func() { wire.cut = true })
		cutAt := time.Now()
		for range 4 {
			lease := mustAcquire(t, b, newID(), openai)
			calls.Go(func() { use(t, lease, 50*time.Millisecond, seen); mustRelease(t, lease) })
		}
		t.Logf("all slots back after %s with a lease of %s", time.Since(cutAt), shortLease)
		calls.Wait()
		seen.verify(t)
		if err := a.stop(); !errors.Is(err, ErrFenced) {
			t.Errorf("Run of the cut process = %v, want ErrFenced", err)
		}
	})
}

func TestFrozenProcessSendsNothingOnItsOldLeases(t *testing.T) {
	timed(t, func(t testing.TB, connect func() *redis.Client) {
		register(t, connect(), "fleet", inFlight(Scope{}, 1))
		client, wire := faulty(connect())
		a, b := start(t, client, "a", short), start(t, connect(), "b")
		lease := mustAcquire(t, a, "held", openai)
		if err := lease.Check(); err != nil {
			t.Fatalf("Check of a fresh lease: %v", err)
		}
		ctx, cancel := lease.Context(t.Context())
		defer cancel()
		waits := make(chan error, 1)
		go func() {
			_, err := a.Acquire(t.Context(), Request{ID: "waits", Call: openai})
			waits <- err
		}()
		wire.set(func() { wire.thaw = make(chan struct{}) })
		other := mustAcquire(t, b, "other", openai)
		if err := lease.Check(); !errors.Is(err, ErrLost) {
			t.Errorf("Check when the slot was given away = %v, want ErrLost", err)
		}
		<-a.Fenced()
		if !errors.Is(context.Cause(ctx), ErrLost) {
			t.Errorf("cause of the lease's context = %v, want ErrLost", context.Cause(ctx))
		}
		if err := <-waits; !errors.Is(err, ErrFenced) {
			t.Errorf("Acquire of a fenced process = %v, want ErrFenced", err)
		}
		wire.set(func() { close(wire.thaw); wire.thaw = nil })
		if err := a.stop(); !errors.Is(err, ErrFenced) {
			t.Errorf("Run = %v, want ErrFenced", err)
		}
		// Ending what was lost takes nothing from the one who has it now.
		mustRelease(t, lease)
		if usage, err := tools(b.client).Usage(t.Context()); err != nil || usage[0].InUse != 1 {
			t.Errorf("Usage = %+v, %v; want 1 in use", usage, err)
		}
		mustRelease(t, other)
	})
}

func TestLeasesAreRenewed(t *testing.T) {
	timed(t, func(t testing.TB, connect func() *redis.Client) {
		register(t, connect(), "fleet", inFlight(Scope{}, 1), inFlight(Scope{Provider: "openai"}, 1))
		a, b := start(t, connect(), "a", short), start(t, connect(), "b")
		lease := mustAcquire(t, a, "long", openai)
		ctx, cancel := context.WithTimeout(t.Context(), 3*shortLease/2)
		defer cancel()
		if _, err := b.Acquire(ctx, Request{ID: "other", Call: openai}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Acquire beside a renewed lease = %v, want %v", err, context.DeadlineExceeded)
		}
		if err := lease.Check(); err != nil {
			t.Errorf("Check of a renewed lease: %v", err)
		}
		mustRelease(t, lease)
	})
}

func TestLeaseThatRedisLostIsLostAlone(t *testing.T) {
	timed(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "fleet", inFlight(Scope{}, 2))
		p := start(t, client, "w")
		gone, kept := mustAcquire(t, p, "gone", openai), mustAcquire(t, p, "kept", openai)
		if n, err := client.ZRem(t.Context(), newKeys("ef").leases("fleet/concurrency"), "gone").Result(); n != 1 || err != nil {
			t.Fatalf("ZREM = %d, %v; want 1", n, err)
		}
		if err := p.renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		testrun.Eventually(t, "the lease is lost", func() bool { return errors.Is(gone.Check(), ErrLost) })
		if err := kept.Check(); err != nil {
			t.Errorf("Check of the other: %v", err)
		}
		mustRelease(t, gone)
		mustRelease(t, kept)
	})
}

func TestLeaseIsNotRenewedPastItsLatestEnd(t *testing.T) {
	timed(t, func(t testing.TB, connect func() *redis.Client) {
		register(t, connect(), "fleet", inFlight(Scope{}, 1))
		a, b := start(t, connect(), "a", short), start(t, connect(), "b")
		forgotten, err := a.Acquire(t.Context(), Request{ID: "forgotten", Call: openai, LatestEnd: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		mustRelease(t, mustAcquire(t, b, "next", openai))
		if err := forgotten.Check(); !errors.Is(err, ErrLost) {
			t.Errorf("Check past the latest end = %v, want ErrLost", err)
		}
	})
}

func TestContextEndsAtTheLatestEnd(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		register(t, connect(), "fleet", inFlight(Scope{}, 1))
		p := start(t, connect(), "a", func(c *Config) { c.Lease = time.Hour }) // no renewal loses the lease before
		lease, err := p.Acquire(t.Context(), Request{ID: "a", Call: openai, LatestEnd: 20 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := lease.Context(t.Context())
		defer cancel()
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, context.DeadlineExceeded) {
			t.Errorf("cause at the latest end = %v, want %v", cause, context.DeadlineExceeded)
		}
		mustRelease(t, lease)
	})
}

func TestGivenUpCallsKeepTheSlotThatLong(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		register(t, connect(), "fleet", inFlight(Scope{}, 1))
		a, b := start(t, connect(), "a"), start(t, connect(), "b")
		lease := mustAcquire(t, a, "given up", openai)
		got := make(chan time.Time)
		var next *Lease
		go func() {
			next = mustAcquire(t, b, "next", openai)
			got <- time.Now()
		}()
		testrun.Eventually(t, "b waits", func() bool { return waiting(t, a.Limiter) == 1 })
		const keep = 150 * time.Millisecond
		began := time.Now()
		lease.GiveUp(keep, false)
		if took := (<-got).Sub(began); took < keep {
			t.Errorf("the slot was given away after %s, want at least %s", took, keep)
		}
		mustRelease(t, lease)
		mustRelease(t, next)
	})
}

func TestScriptsSentTwiceCountOnce(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		// A burst that never refills within the test shows every charge.
		burst := Limit{Kind: Requests, Max: 1, Period: time.Hour, Burst: 500}
		register(t, client, "fleet", inFlight(Scope{}, 3), burst)
		seen := &provider{most: 3}
		var callers sync.WaitGroup
		for i := range 3 {
			doubled, wire := faulty(connect())
			wire.twice = true
			p := start(t, doubled, "w"+strconv.Itoa(i))
			for range 10 {
				callers.Go(func() {
					for range 5 {
						lease := mustAcquire(t, p, newID(), openai)
						use(t, lease, 2*time.Millisecond, seen)
						mustRelease(t, lease)
					}
				})
			}
		}
		callers.Wait()
		seen.verify(t)
		idle(t, client)
		if charged := charges(t, client, burst); charged != seen.calls {
			t.Errorf("the rate was charged for %d calls, want %d", charged, seen.calls)
		}
	})
}

// charges is how many calls a rate was charged for that refills next to nothing.
func charges(t testing.TB, client *redis.Client, limit Limit) int64 {
	t.Helper()
	k := newKeys("ef")
	r := newRule(k, limit.ID(), limit)
	tat, err := client.Get(t.Context(), r.state).Float64()
	if err != nil {
		t.Fatal(err)
	}
	now, err := client.Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	ahead := (tat+rateEpoch)*1e6 - float64(now.UnixMicro())
	return int64(ahead/float64(r.interval)) + 1
}

func TestLostAnswersLeakNothing(t *testing.T) {
	timed(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "fleet", inFlight(Scope{}, 3))
		seen := &provider{most: 3}
		var callers sync.WaitGroup
		for i := range 2 {
			lossy, wire := faulty(connect())
			wire.lost = 0.2
			// A long lease, so that no leak heals within the test.
			p := start(t, lossy, "w"+strconv.Itoa(i), func(c *Config) { c.Lease = time.Minute })
			for range 5 {
				callers.Go(func() {
					for range 5 {
						lease := mustAcquire(t, p, newID(), openai)
						use(t, lease, 5*time.Millisecond, seen)
						mustRelease(t, lease)
					}
				})
			}
		}
		callers.Wait()
		seen.verify(t)
		idle(t, client)
	})
}

func TestWithdrawnCallWhoseAnswerWasLostLeaksNothing(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "fleet", inFlight(Scope{}, 1))
		lossy, wire := faulty(connect())
		p := start(t, lossy, "w", func(c *Config) { c.Lease = time.Minute })
		<-p.beating
		wire.set(func() { wire.lost = 1 })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = p.Acquire(ctx, Request{ID: newID(), Call: openai})
		}()
		testrun.Eventually(t, "the script was done", func() bool {
			usage, err := tools(client).Usage(t.Context())
			return err == nil && usage[0].InUse == 1
		})
		cancel()
		<-done
		wire.set(func() { wire.lost = 0 })
		idle(t, client)
	})
}

func TestOneIDIsOneLease(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "fleet", inFlight(Scope{}, 2))
		p := start(t, client, "w")
		first, again := mustAcquire(t, p, "same", openai), mustAcquire(t, p, "same", openai)
		if first != again {
			t.Error("asking again gave another lease")
		}
		if usage, err := tools(p.client).Usage(t.Context()); err != nil || usage[0].InUse != 1 {
			t.Errorf("Usage = %+v, %v; want 1 in use", usage, err)
		}
		mustRelease(t, first)
		mustRelease(t, again)
		idle(t, client)
	})
}

func TestStopLeavesNothingBehind(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "fleet", inFlight(Scope{}, 1))
		a, b := start(t, client, "a"), start(t, connect(), "b")
		held := mustAcquire(t, a, "held", openai)
		waits := make(chan error, 1)
		go func() {
			_, err := b.Acquire(context.Background(), Request{ID: "waits", Call: openai})
			waits <- err
		}()
		testrun.Eventually(t, "b waits", func() bool { return waiting(t, a.Limiter) == 1 })
		if err := b.stop(); err != nil {
			t.Fatalf("Run = %v, want nil", err)
		}
		if err := <-waits; !errors.Is(err, ErrStopped) {
			t.Errorf("Acquire of a stopped limiter = %v, want ErrStopped", err)
		}
		if n := waiting(t, a.Limiter); n != 0 {
			t.Errorf("%d workers wait, want 0", n)
		}
		if alive, err := tools(a.client).Alive(t.Context()); err != nil || len(alive) != 1 || !alive["a"] {
			t.Errorf("Alive = %v, %v; want only a", alive, err)
		}
		if err := a.stop(); err != nil {
			t.Fatalf("Run = %v, want nil", err)
		}
		if err := held.Check(); !errors.Is(err, ErrLost) {
			t.Errorf("Check after Run = %v, want ErrLost", err)
		}
	})
}

func TestReleaseAfterTheEndOfRun(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	client := server.Client()
	register(t, client, "fleet", inFlight(Scope{}, 1))
	p := start(t, client, "w", func(c *Config) { c.Lease = time.Minute })
	lease := mustAcquire(t, p, "held", openai)
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	mustRelease(t, lease)
	idle(t, client)
}

func TestForgetRemovesOnlyTheDead(t *testing.T) {
	timed(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "fleet", inFlight(Scope{}, 1))
		broken, wire := faulty(connect())
		a, b := start(t, connect(), "a"), start(t, broken, "b", short)
		held := mustAcquire(t, a, "held", openai)
		go func() { _, _ = b.Acquire(context.Background(), Request{ID: "waits", Call: openai}) }()
		testrun.Eventually(t, "b waits", func() bool { return waiting(t, a.Limiter) == 1 })
		line := newKeys("ef").waiters("fleet/concurrency")
		queued := func() bool {
			_, err := client.ZScore(t.Context(), line, "b").Result()
			return err == nil
		}
		if err := tools(a.client).Forget(t.Context(), "b"); err != nil || !queued() {
			t.Fatalf("Forget of a live worker = %v, still in line %v; want nil, true", err, queued())
		}
		wire.set(func() { wire.cut = true })
		testrun.Eventually(t, "b is dead", func() bool {
			alive, err := tools(a.client).Alive(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return !alive["b"]
		})
		if err := tools(a.client).Forget(t.Context(), "b"); err != nil || queued() {
			t.Errorf("Forget of a dead worker = %v, still in line %v; want nil, false", err, queued())
		}
		mustRelease(t, held)
	})
}

// A call whose connection broke may continue at its provider: with Hold its lease counts until the call has ended by
// itself, without Hold only a moment longer.
func TestAbandonedCallsCountUntilTheirLatestEnd(t *testing.T) {
	timed(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "fleet", inFlight(Scope{}, 1))
		a := start(t, client, "a")
		const latest, moment = 3 * time.Second, 500 * time.Millisecond
		for hold, least := range map[bool]time.Duration{true: latest, false: moment} {
			began := time.Now() // the latest end counts from the admission
			lease, err := a.Acquire(t.Context(), Request{ID: newID(), Call: openai, LatestEnd: latest, Hold: hold})
			if err != nil {
				t.Fatal(err)
			}
			if !hold {
				began = time.Now() // the moment counts from the cut
			}
			lease.GiveUp(moment, true)
			mustRelease(t, mustAcquire(t, a, newID(), openai))
			if took := time.Since(began); took < least-50*time.Millisecond || exact(t) && took > least+time.Second {
				t.Errorf("with hold %t the slot came back after %s, want about %s", hold, took, least)
			}
		}
	})
}
