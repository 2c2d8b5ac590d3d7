package ratelimit

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A background call keeps its slot when the process that began it is gone, gives
// it back once when any process ends it, and at its latest end by itself.
func TestBackgroundCallsKeepTheirSlots(t *testing.T) {
	timed(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		second, window := 3*shortLease, time.Minute // the latest end of the second call
		if !exact(t) {
			second, window = 90*time.Second, time.Hour // no machine stands still for that long
		}
		register(t, client, "fleet", inFlight(Scope{}, 2), tokens(1000, window, 0))
		a, b := start(t, connect(), "a", short), start(t, connect(), "b", short)
		begin := func(call string, latest time.Duration) {
			lease, err := a.Acquire(t.Context(), Request{ID: newID(), Call: openai, Input: 200})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := lease.Background(t.Context(), call, latest); err != nil && !errors.Is(err, ErrLost) {
					t.Fatal(err)
				}
			}
			if err := lease.Check(); !errors.Is(err, ErrLost) {
				t.Errorf("Check of a lease that was handed over = %v, want ErrLost", err)
			}
		}
		used := func() (leases, tokens int) {
			usage, err := tools(client).Usage(t.Context())
			if err != nil || len(usage) != 2 {
				t.Fatalf("Usage = %v, %v", usage, err)
			}
			return usage[0].InUse, usage[1].InUse
		}
		begin("resp_1", time.Hour)
		begin("resp_2", second)
		if err := a.stop(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(shortLease + shortLease/2)
		if leases, tokens := used(); leases != 2 || tokens != 400 {
			t.Errorf("%d leases and %d tokens in use a while after the process ended, want 2 and 400", leases, tokens)
		}
		for range 2 {
			if err := tools(b.client).EndBackground(t.Context(), "resp_1", &Used{Input: 40, Output: 10}); err != nil {
				t.Fatal(err)
			}
		}
		if leases, tokens := used(); leases != 1 || tokens != 250 {
			t.Errorf("%d leases and %d tokens in use after one call ended with 50, want 1 and 250", leases, tokens)
		}
		one, asked := mustAcquire(t, b, newID(), openai), time.Now()
		two := mustAcquire(t, b, newID(), openai)
		if waited := time.Since(asked); exact(t) && waited > 2*shortLease {
			t.Errorf("the slot of a call past its latest end came back after %s", waited)
		}
		mustRelease(t, one)
		mustRelease(t, two)
	})
}

// Whoever knows of a background call makes Redis count it again after a loss, once,
// and its end gives everything back.
func TestBackgroundCallsAreAsserted(t *testing.T) {
	timed(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		budget := Limit{Scope: Scope{Evaluation: "ev-a"}, Kind: Cost, Max: Dollar}
		limits := []Limit{inFlight(Scope{}, 2), budget}
		call := openai
		call.Evaluation = "ev-a"
		begin := func() *process { // after a loss as before it
			register(t, client, "fleet", limits...)
			if err := tools(client).TellSpent(t.Context(), "ev-a", "", 0); err != nil {
				t.Fatal(err)
			}
			return start(t, connect(), newID())
		}
		a := begin()
		lease, err := a.Acquire(t.Context(), Request{ID: newID(), Call: call, Cost: Dollar / 4})
		if err != nil {
			t.Fatal(err)
		}
		known := lease.Known()
		if err := lease.Background(t.Context(), "resp_1", time.Hour); err != nil {
			t.Fatal(err)
		}
		want := func(what string, leases int, nano int64) {
			t.Helper()
			usage, err := tools(client).Usage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range usage {
				if u.Limit.Kind == Concurrency && u.InUse != leases || u.Limit.Kind == Cost && u.Spent != nano {
					t.Errorf("%s: %d leases and %d nano-USD of %s, want %d and %d", what, u.InUse, u.Spent, u.Limit.ID(), leases, nano)
				}
			}
		}
		want("begun", 1, Dollar/4)
		for range 2 {
			if err := tools(a.client).AssertBackground(t.Context(), "resp_1", known, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		want("asserted while Redis knows it", 1, Dollar/4)
		if err := a.stop(); err != nil {
			t.Fatal(err)
		}
		client.FlushAll(t.Context())
		b := begin()
		for range 2 {
			if err := tools(b.client).AssertBackground(t.Context(), "resp_1", known, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		want("asserted after a loss", 1, Dollar/4)
		if err := tools(b.client).EndBackground(t.Context(), "resp_1", &Used{Cost: Dollar / 8}); err != nil {
			t.Fatal(err)
		}
		want("ended", 0, Dollar/8)

		// A process that does not know yet that it has ended asserts it, and another one hands its lease over late.
		if err := tools(b.client).AssertBackground(t.Context(), "resp_1", known, time.Hour); err != nil {
			t.Fatal(err)
		}
		want("asserted after its end", 0, Dollar/8)
		late, err := b.Acquire(t.Context(), Request{ID: newID(), Call: call, Cost: Dollar / 8})
		if err != nil {
			t.Fatal(err)
		}
		if err := late.Background(t.Context(), "resp_1", time.Hour); !errors.Is(err, ErrLost) {
			t.Errorf("handed over after its end: got %v, want ErrLost", err)
		}
		if err := late.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
