package ratelimit

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

func TestCooldownHoldsBackEveryProcess(t *testing.T) {
	timed(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "fleet", inFlight(Scope{Provider: "openai"}, 10))
		a, b := start(t, connect(), "a"), start(t, connect(), "b")
		const wait = 700 * time.Millisecond
		var held time.Time
		testrun.Eventually(t, "a call is asked for during a cooldown", func() bool {
			held = time.Now()
			if err := a.Cool(t.Context(), openai, wait); err != nil {
				t.Fatal(err)
			}
			lease, err := b.Acquire(t.Context(), Request{ID: newID(), Call: openai, MaxWait: time.Millisecond})
			if err == nil {
				mustRelease(t, lease)
				if time.Since(held) >= wait {
					return false // the machine stood still
				}
			}
			refused := refusal(err)
			if refused == nil || refused.Limit != "provider/openai/model/gpt-5/cooldown" || refused.Wait > wait {
				t.Errorf("Acquire during a cooldown = %v, want a refusal of at most %s", err, wait)
			}
			return true
		})
		// The other model of the provider is unaffected.
		mini := Scope{Provider: "openai", Model: "mini", Evaluation: "ev-a"}
		mustRelease(t, mustAcquire(t, b, newID(), mini))
		if exact(t) && time.Since(held) >= wait {
			t.Fatal("the other model was held back")
		}
		var mu sync.Mutex
		var starts []time.Duration
		var calls sync.WaitGroup
		for i := range 10 {
			p := a
			if i%2 == 0 {
				p = b
			}
			calls.Go(func() {
				lease := mustAcquire(t, p, newID(), openai)
				mu.Lock()
				starts = append(starts, time.Since(held))
				mu.Unlock()
				mustRelease(t, lease)
			})
		}
		calls.Wait()
		slices.Sort(starts)
		if starts[0] < wait || exact(t) && starts[0] > wait+time.Second {
			t.Errorf("first call after %s, want right after %s", starts[0], wait)
		}
		if gap := starts[1] - starts[0]; exact(t) && gap < 900*time.Millisecond {
			t.Errorf("second call %s after the first, want a second: the first is alone", gap)
		}
		if spread := starts[9] - starts[1]; exact(t) && spread > time.Second {
			t.Errorf("the other calls took %s to start", spread)
		}
		left, err := tools(client).Cooldowns(t.Context())
		if err != nil || len(left) != 0 {
			t.Errorf("Cooldowns = %v, %v; want none", left, err)
		}
	})
}

// Without a hint a cooldown is a second, and longer when the call after it is
// refused too; with one it is that, and never shorter than one before.
func TestCooldownsGrowAndNeverShrink(t *testing.T) {
	t.Parallel()
	embedded(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		l := start(t, connect(), "w")
		wait := func() time.Duration {
			cooldowns, err := tools(client).Cooldowns(t.Context())
			if err != nil || len(cooldowns) != 1 {
				t.Fatalf("Cooldowns = %v, %v; want one", cooldowns, err)
			}
			return cooldowns[0].Wait.Round(time.Second)
		}
		hold := func(d time.Duration) {
			if err := l.Cool(t.Context(), openai, d); err != nil {
				t.Fatal(err)
			}
		}
		hold(0)
		hold(0) // of the same burst of refusals
		if got := wait(); got != time.Second {
			t.Errorf("cooldown of %s, want 1s", got)
		}
		mustRelease(t, mustAcquire(t, l, newID(), openai))
		hold(0)
		if got := wait(); got != 2*time.Second {
			t.Errorf("cooldown of %s after the call after it was refused, want 2s", got)
		}
		hold(time.Minute)
		hold(time.Second)
		if got := wait(); got != time.Minute {
			t.Errorf("cooldown of %s, want the longest, 1m0s", got)
		}
		parked := func() bool {
			cooldowns, err := tools(client).Cooldowns(t.Context())
			if err != nil || len(cooldowns) != 1 {
				t.Fatalf("Cooldowns = %v, %v; want one", cooldowns, err)
			}
			return cooldowns[0].Parked
		}
		for _, c := range []struct {
			park, hold time.Duration
			want       bool
		}{{time.Second, 0, false}, {time.Hour, time.Minute, true}, {0, 2 * time.Hour, false}} {
			if c.park > 0 {
				if err := l.Park(t.Context(), openai, c.park); err != nil {
					t.Fatal(err)
				}
			}
			hold(c.hold)
			if got := parked(); got != c.want {
				t.Errorf("parked for %s and held back for %s: parked = %t, want %t", c.park, c.hold, got, c.want)
			}
		}
		if err := l.Cool(context.Background(), Scope{Evaluation: "ev-a"}, 0); err == nil {
			t.Error("Cool of an evaluation = nil, want an error")
		}
	})
}

// A caller may wait long for limits and not for a cooldown.
func TestMaxCooldownIsOfCooldownsAlone(t *testing.T) {
	t.Parallel()
	embedded(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "fleet", inFlight(Scope{Provider: "openai"}, 1))
		l := start(t, connect(), "w")
		first := mustAcquire(t, l, newID(), openai)
		admitted := make(chan error, 1)
		request := Request{ID: newID(), Call: openai, MaxWait: time.Hour, MaxCooldown: time.Millisecond}
		go func() {
			lease, err := l.Acquire(t.Context(), request)
			if err == nil {
				err = lease.Release(t.Context())
			}
			admitted <- err
		}()
		testrun.Eventually(t, "it waits for the limit", func() bool { return l.Waiting() == 1 })
		mustRelease(t, first)
		if err := <-admitted; err != nil {
			t.Errorf("Acquire = %v, want a lease after the wait for the limit", err)
		}
		if err := l.Cool(t.Context(), openai, time.Minute); err != nil {
			t.Fatal(err)
		}
		request.ID = newID()
		if _, err := l.Acquire(t.Context(), request); refusal(err) == nil || !refusal(err).Cooldown {
			t.Errorf("Acquire in a cooldown = %v, want a refusal", err)
		}
	})
}

// A refusal with a short hint costs its time and no more; one after another is probed.
func TestCallsResumeAtTheirPace(t *testing.T) {
	t.Parallel()
	embedded(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "fleet", rate(50, time.Second, 20))
		l := start(t, connect(), "w")
		refused := mustAcquire(t, l, newID(), openai)
		resumes := func(calls int) (starts []time.Duration) {
			began := time.Now()
			if err := refused.Cool(t.Context(), Requests, 300*time.Millisecond); err != nil {
				t.Fatal(err)
			}
			for range calls {
				mustAcquire(t, l, newID(), openai).End()
				starts = append(starts, time.Since(began).Round(time.Millisecond))
			}
			return starts
		}
		starts := resumes(10)
		if first := starts[0]; exact(t) && (first < 300*time.Millisecond || first > 310*time.Millisecond) {
			t.Errorf("the first call starts after %s, want 300ms", first)
		}
		for i := range starts[1:] {
			if gap := starts[i+1] - starts[i]; exact(t) && (gap < 19*time.Millisecond || gap > 30*time.Millisecond) {
				t.Errorf("call %d starts %s after the one before, want an interval of 20ms", i+2, gap)
			}
		}
		starts = resumes(2)
		if gap := starts[1] - starts[0]; exact(t) && gap < 900*time.Millisecond {
			t.Errorf("after a second refusal, the second call starts %s after the first, want a second: the first is alone", gap)
		}
	})
}

// While no call starts because Redis may not know all that are in flight, this is listed beside
// the cooldowns, and not afterwards.
func TestMemoryIsAmongTheCooldowns(t *testing.T) {
	t.Parallel()
	client := redistest.New(t).Client()
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	admin := NewAdmin(client, Config{})
	listed := func() []Cooldown {
		t.Helper()
		all, err := admin.Cooldowns(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if got := listed(); len(got) > 0 {
		t.Errorf("before the first process: got %v, want nothing", got)
	}
	register(t, client, "fleet", inFlight(Scope{}, 2))
	p := start(t, client, "w")
	ctx, giveUp := context.WithCancel(t.Context())
	var asks sync.WaitGroup
	asks.Go(func() {
		if lease, err := p.Acquire(ctx, Request{ID: newID(), Call: openai}); err == nil { // the test was frozen for a lease
			mustRelease(t, lease)
		}
	})
	var held []Cooldown
	testrun.Eventually(t, "calls are held back", func() bool { held = listed(); return len(held) > 0 })
	if c := held[0]; len(held) != 1 || c.ID != MemoryID || c.Wait <= 0 || c.Wait > time.Minute ||
		!strings.Contains(c.Why(), "does not know") {
		t.Errorf("got %+v, want %s for at most %s", held, MemoryID, time.Minute)
	}
	giveUp()
	asks.Wait()
	client.HSet(t.Context(), "{ef}:limits", "blind", time.Now().Add(-time.Second).UnixMicro()) // it is over
	if got := listed(); len(got) > 0 {
		t.Errorf("afterwards: got %v, want nothing", got)
	}
}
