package ratelimit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// asked notes what a call's consent was sought for.
type asked struct {
	mu    sync.Mutex
	own   []time.Duration
	first []bool
}

func (a *asked) consent(longest time.Duration) func(time.Duration, bool) bool {
	return func(own time.Duration, first bool) bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.own, a.first = append(a.own, own), append(a.first, first)
		return own <= longest
	}
}

// A wait queue for a rate in two processes: no call is asked to accept more than one interval,
// however long the queue is.
func TestConsentIsNotSoughtForTheLine(t *testing.T) {
	timed(t, func(t testing.TB, connect func() *redis.Client) {
		const interval = 400 * time.Millisecond
		register(t, connect(), "fleet", rate(1, interval, 1))
		a, b := start(t, connect(), "a"), start(t, connect(), "b")
		mustRelease(t, mustAcquire(t, a, newID(), openai))
		ctx := testrun.Context(t)
		var callers sync.WaitGroup
		var seen asked
		for i := range 6 {
			callers.Go(func() {
				lease, err := []*process{a, b}[i%2].Acquire(ctx, Request{ID: newID(), Call: openai, Consent: seen.consent(interval + horizon)})
				if err != nil {
					t.Errorf("a call that may wait %s of its own: %v", interval, err)
					return
				}
				mustRelease(t, lease)
			})
		}
		callers.Wait()
		for _, own := range seen.own {
			if own <= horizon || own > interval+horizon {
				t.Errorf("asked to wait %s alone, want more than %s and at most %s", own, horizon, interval+horizon)
			}
		}
	})
}

// The first call of a process hears that another process is ahead of it, and not that it
// would have to wait for both.
func TestConsentSaysWhetherOthersStandBefore(t *testing.T) {
	timed(t, func(t testing.TB, connect func() *redis.Client) {
		const interval = time.Hour
		register(t, connect(), "fleet", rate(1, interval, 1))
		a, b := start(t, connect(), "a"), start(t, connect(), "b")
		mustRelease(t, mustAcquire(t, a, newID(), openai))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var callers sync.WaitGroup
		call := func(p *process, seen *asked) {
			callers.Go(func() {
				_, err := p.Acquire(ctx, Request{ID: newID(), Call: openai, Consent: seen.consent(interval + horizon)})
				if !errors.Is(err, context.Canceled) {
					t.Errorf("Acquire = %v, want that it waits", err)
				}
			})
		}
		var before, behind asked
		for _, next := range []struct {
			by   *process
			seen *asked
		}{{a, &before}, {b, &behind}} {
			call(next.by, next.seen)
			testrun.Eventually(t, "it was asked", func() bool {
				next.seen.mu.Lock()
				defer next.seen.mu.Unlock()
				return len(next.seen.own) > 0
			})
		}
		cancel()
		callers.Wait()
		if own := slices.Max(slices.Concat(before.own, behind.own)); own > interval+horizon {
			t.Errorf("asked to wait %s alone, want at most %s", own, interval+horizon)
		}
		if !before.first[0] || behind.first[0] {
			t.Errorf("told that they are first in the wait queue: %t and %t, want only the first", before.first[0], behind.first[0])
		}
	})
}

// A call that does not consent leaves at once, told exactly how long it would have
// waited; so does one behind a call that takes any wait.
func TestDeclinedCallLeavesAtOnce(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		const interval = time.Minute
		limit := rate(1, interval, 1)
		register(t, connect(), "fleet", limit)
		p := start(t, connect(), "a")
		began := time.Now()
		mustRelease(t, mustAcquire(t, p, newID(), openai))
		ctx, cancel := context.WithCancel(t.Context())
		var patient sync.WaitGroup
		patient.Go(func() {
			if _, err := p.Acquire(ctx, Request{ID: newID(), Call: openai}); err == nil {
				t.Error("a call was admitted before its time")
			}
		})
		defer patient.Wait()
		defer cancel()
		testrun.Eventually(t, "a call waits", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.waiting == 1
		})
		var seen asked
		_, err := p.Acquire(t.Context(), Request{ID: newID(), Call: openai, Consent: seen.consent(time.Second)})
		r := refusal(err)
		if r == nil || !r.Declined || r.Cooldown || r.Limit != limit.ID() {
			t.Fatalf("got %v, want a refusal that says it was declined", err)
		}
		if took := time.Since(began); exact(t) && took > time.Second || r.Wait > interval+horizon || r.Wait < interval-took-time.Second {
			t.Errorf("after %s told to wait %s of %s", took, r.Wait, interval)
		}
	})
}

// A cooldown is a wait of every call's own.
func TestConsentToACooldown(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		p := start(t, connect(), "a")
		if err := p.Cool(t.Context(), openai, time.Minute); err != nil {
			t.Fatal(err)
		}
		var seen asked
		_, err := p.Acquire(t.Context(), Request{ID: newID(), Call: openai, Consent: seen.consent(time.Second)})
		if r := refusal(err); r == nil || !r.Declined || !r.Cooldown || len(seen.own) != 1 || !seen.first[0] || seen.own[0] != r.Wait || r.Wait < 30*time.Second {
			t.Errorf("got %v after being asked %v; want a cooldown's refusal", err, seen.own)
		}
	})
}
