package ratelimit

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

func rate(calls int64, period time.Duration, burst int64) Limit {
	return Limit{Scope: Scope{Provider: "openai"}, Kind: Requests, Max: calls, Period: period, Burst: burst}
}

// windowServer refuses a request when it took n in the window before it. It
// knows nothing of the limiter.
type windowServer struct {
	n      int
	window time.Duration

	mu       sync.Mutex
	arrivals []time.Time // accepted
	refused  int
}

// request counts a request, and returns how many have arrived.
func (s *windowServer) request() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	recent := 0
	for i := len(s.arrivals) - 1; i >= 0 && now.Sub(s.arrivals[i]) < s.window; i-- {
		recent++
	}
	if recent >= s.n {
		s.refused++
	} else {
		s.arrivals = append(s.arrivals, now)
	}
	return s.refused + len(s.arrivals)
}

func TestStrictSlidingWindowRefusesNothing(t *testing.T) {
	timed(t, func(t testing.TB, connect func() *redis.Client) {
		limit := rate(40, time.Second, 0)
		limit.Window = Window{Shape: Sliding, Length: time.Second}
		limit.Jitter = 300 * time.Millisecond
		register(t, connect(), "fleet", limit)
		server := &windowServer{n: 40, window: time.Second}
		// Until more than one window's requests have arrived, and two windows and a half have passed.
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		began := time.Now()
		var callers sync.WaitGroup
		for i := range 3 {
			p := start(t, connect(), "w"+strconv.Itoa(i))
			for range 20 {
				callers.Go(func() {
					for {
						lease, err := p.Acquire(ctx, Request{ID: newID(), Call: openai})
						if err != nil {
							return
						}
						if lease.Check() == nil && server.request() > 40 && time.Since(began) > 2500*time.Millisecond {
							cancel()
						}
						mustRelease(t, lease)
					}
				})
			}
		}
		callers.Wait()
		interval, burst := limit.pace()
		possible := float64(burst) + time.Since(began).Seconds()/interval.Seconds()
		t.Logf("%d arrivals, %.1f %% of what this window and jitter allow", len(server.arrivals),
			100*float64(len(server.arrivals))/possible)
		if server.refused > 0 {
			t.Errorf("%d arrivals, %d refused; want none refused", len(server.arrivals), server.refused)
		}
	})
}

func TestStartsAreExactlyOneIntervalApart(t *testing.T) {
	timed(t, func(t testing.TB, connect func() *redis.Client) {
		const interval = 150 * time.Millisecond
		register(t, connect(), "fleet", rate(1, interval, 1))
		a, b := start(t, connect(), "a"), start(t, connect(), "b")
		var mu sync.Mutex
		var starts []int64
		var first time.Time
		var callers sync.WaitGroup
		for i := range 6 {
			p := []*process{a, b}[i%2]
			callers.Go(func() {
				lease := mustAcquire(t, p, newID(), openai)
				now := time.Now()
				mu.Lock()
				defer mu.Unlock()
				starts = append(starts, lease.startMicros)
				if first.IsZero() {
					first = now
				}
				mustRelease(t, lease)
			})
		}
		callers.Wait()
		slices.Sort(starts) // callers are told in any order
		for i := 1; i < len(starts); i++ {
			if gap := starts[i] - starts[i-1]; gap < interval.Microseconds() {
				t.Errorf("start %d came %d µs after the one before, want at least %d", i, gap, interval.Microseconds())
			}
		}
		t.Logf("six calls took %s, five intervals are %s", time.Since(first), 5*interval)
	})
}

func TestKnownWaitIsRefusedExactly(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		limit := rate(1, time.Hour, 1)
		register(t, client, "fleet", limit)
		p := start(t, client, "w")
		began := time.Now()
		mustRelease(t, mustAcquire(t, p, newID(), openai))
		ask := func(want time.Duration) {
			t.Helper()
			_, err := p.Acquire(t.Context(), Request{ID: newID(), Call: openai, MaxWait: time.Second})
			var refusal *Refusal
			if !errors.As(err, &refusal) {
				t.Fatalf("Acquire = %v, want a Refusal", err)
			}
			least := want - time.Since(began)
			if refusal.Limit != limit.ID() || refusal.Wait > want || refusal.Wait < least {
				t.Errorf("refused for %s by %q, want %s to %s by %q",
					refusal.Wait, refusal.Limit, least, want, limit.ID())
			}
		}
		ask(time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		var waits sync.WaitGroup
		waits.Go(func() { _, _ = p.Acquire(ctx, Request{ID: newID(), Call: openai}) })
		testrun.Eventually(t, "one call waits", func() bool { return waiting(t, p.Limiter) == 1 })
		ask(2 * time.Hour)
		cancel()
		waits.Wait()
		idle(t, client)
	})
}

func TestGrantThatWasNeverUsedIsGivenBackWhenSafe(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		limit := rate(1, 24*time.Millisecond, 1)
		register(t, client, "fleet", limit)
		l := New(client, Config{Worker: "w"})
		registry, err := l.load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		rules := registry.rules
		arrival := func() float64 {
			tat, err := client.Get(t.Context(), rules[0].state).Float64()
			if err != nil {
				t.Fatal(err)
			}
			return tat
		}
		// admit asks for calls and returns their starts on Redis's clock.
		admit := func(ids ...string) (starts []int64) {
			b := &batch{version: registry.version}
			var calls []*call
			for _, id := range ids {
				calls = append(calls, &call{Request: Request{ID: id}})
			}
			b.ask(newQueue(rules), calls)
			o := mustAdmit(t, l, b)
			for _, g := range o.groups[0].grants {
				starts = append(starts, o.now+g.start.Microseconds())
			}
			return starts
		}
		giveBack := func(id string, start int64) (inTime bool) {
			b := &batch{}
			b.end([]*release{{id: id, rules: rules, unused: true, start: start}})
			o := mustAdmit(t, l, b)
			return o.now < start
		}
		const interval = 0.024
		moved := func(f func()) float64 {
			before := arrival()
			f()
			return before - arrival()
		}
		begun := newID()
		start := admit(begun)[0]
		if by := moved(func() { giveBack(begun, start) }); by != 0 {
			t.Errorf("giving back a call that could begin moved the arrival time by %g s", by)
		}
		for { // until we are quick enough
			if err := client.Del(t.Context(), rules[0].state).Err(); err != nil {
				t.Fatal(err)
			}
			older, newest := newID(), newID()
			starts := admit(newID(), older, newest)
			if len(starts) != 3 {
				continue
			}
			if by := moved(func() { giveBack(older, starts[1]) }); by != 0 {
				t.Errorf("giving back an older grant moved the arrival time by %g s", by)
			}
			inTime := false
			by := moved(func() { inTime = giveBack(newest, starts[2]) })
			if !inTime {
				continue
			}
			if by < interval-1e-4 || by > interval+1e-4 {
				t.Errorf("giving back the newest grant moved the arrival time back by %g s, want %g", by, interval)
			}
			if by := moved(func() { giveBack(newest, starts[2]) }); by != 0 {
				t.Errorf("giving back twice moved the arrival time by %g s", by)
			}
			return
		}
	})
}

func TestLateCallMustAskAgain(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		limit := rate(1, 100*time.Millisecond, 1)
		limit.Jitter = 50 * time.Millisecond
		register(t, client, "fleet", limit)
		p := start(t, client, "w")
		lease := mustAcquire(t, p, newID(), openai)
		testrun.Eventually(t, "the lease is too old to send on", func() bool { return errors.Is(lease.Check(), ErrLost) })
		if late := p.now().sub(lease.start); exact(t) && late > limit.Jitter+time.Second {
			t.Errorf("Check let the call pass for %s, want %s", late, limit.Jitter)
		}
		mustRelease(t, lease)
	})
}

func TestInteropOursAfterTheirs(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		limit := rate(10, time.Hour, 10)
		register(t, client, "fleet", limit)
		theirs := redis_rate.NewLimiter(client)
		key, their := "{ef}:"+limit.ID(), redis_rate.Limit{Rate: 10, Burst: 10, Period: time.Hour}
		if r, err := theirs.AllowN(t.Context(), key, their, 6); err != nil || r.Allowed != 6 {
			t.Fatalf("redis_rate allowed %+v, %v; want 6", r, err)
		}
		p := start(t, client, "w")
		arrival := func() float64 {
			tat, err := client.Get(t.Context(), "rate:"+key).Float64()
			if err != nil {
				t.Fatal(err)
			}
			return tat
		}
		before := arrival()
		for range 4 {
			mustAcquire(t, p, newID(), openai)
		}
		if moved := arrival() - before; moved < 4*360-1e-6 || moved > 4*360+1e-6 {
			t.Errorf("four calls moved redis_rate's arrival time by %.7f s, want %d", moved, 4*360)
		}
		_, err := p.Acquire(t.Context(), Request{ID: newID(), Call: openai, MaxWait: time.Millisecond})
		var ours *Refusal
		if !errors.As(err, &ours) {
			t.Fatalf("the eleventh call: %v, want a Refusal", err)
		}
		r, err := theirs.Allow(t.Context(), key, their)
		if err != nil || r.Allowed != 0 {
			t.Fatalf("redis_rate allowed %+v, %v; want 0", r, err)
		}
		if differ := (ours.Wait - r.RetryAfter).Abs(); differ > time.Minute {
			t.Errorf("we say %s, redis_rate says %s", ours.Wait, r.RetryAfter)
		}
	})
}

func TestInteropTheirsAfterOurs(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		limit := rate(7, time.Hour, 10) // an interval that is no whole number of microseconds
		register(t, client, "fleet", limit)
		p := start(t, client, "w")
		for range 6 {
			mustAcquire(t, p, newID(), openai)
		}
		theirs := redis_rate.NewLimiter(client)
		key, their := "{ef}:"+limit.ID(), redis_rate.Limit{Rate: 7, Burst: 10, Period: time.Hour}
		r, err := theirs.AllowAtMost(t.Context(), key, their, 10)
		if err != nil || r.Allowed != 4 && r.Allowed != 3 {
			t.Fatalf("redis_rate allowed %+v, %v; want the remaining 4", r, err)
		}
		usage, err := tools(p.client).Usage(t.Context())
		if err != nil || usage[0].Wait <= 0 || usage[0].Wait > time.Hour/7+time.Second {
			t.Errorf("Usage = %+v, %v; want a wait of about %s", usage, err, time.Hour/7)
		}
	})
}

func TestManyLightProcessesOnOneRate(t *testing.T) {
	t.Parallel()
	embedded(t, func(t testing.TB, connect func() *redis.Client) {
		connect, sentBy := counted(connect)
		client := connect()
		register(t, client, "fleet", rate(10, time.Second, 1))
		const processes, calls = 25, 2
		var all []*process
		for i := range processes {
			all = append(all, start(t, connect(), "w"+strconv.Itoa(i)))
		}
		for _, p := range all {
			<-p.beating
		}
		before := sentBy.scripts.Load()
		began := time.Now()
		var callers sync.WaitGroup
		for _, p := range all {
			callers.Go(func() {
				for range calls {
					mustRelease(t, mustAcquire(t, p, newID(), openai))
				}
			})
		}
		callers.Wait()
		took := time.Since(began)
		perCall := float64(sentBy.scripts.Load()-before) / (processes * calls)
		t.Logf("%d calls in %s, at best %s; %.2f scripts a call, including the one that releases it",
			processes*calls, took.Round(time.Millisecond), (processes*calls-1)*100*time.Millisecond, perCall)
		if perCall > 5 { // polling makes it dozens
			t.Errorf("%.2f scripts a call, want at most 4 and the release", perCall)
		}
	})
}

func TestRateIsUsedUp(t *testing.T) {
	timed(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "fleet", rate(200, time.Second, 0))
		var callers sync.WaitGroup
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		seen := &provider{most: 1 << 30}
		began := time.Now()
		for i := range 4 {
			callers.Go(func() { load(ctx, t, start(t, connect(), "w"+strconv.Itoa(i)), 20, openai, exactly(0), seen).Wait() })
		}
		callers.Wait()
		took := time.Since(began).Seconds()
		t.Logf("%d calls in %.2f s: %.1f %% of the rate", seen.calls, took, 100*float64(seen.calls)/(200*took+20))
		if most := int64(200*took) + 21; seen.calls > most {
			t.Errorf("%d calls, the rate allows %d", seen.calls, most)
		}
	})
}
