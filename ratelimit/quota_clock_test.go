package ratelimit

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// noon returns how far the clock is from noon, so that no test of a day reaches its end by itself.
func noon() time.Duration {
	now := time.Now().UTC()
	return now.Truncate(24 * time.Hour).Add(12 * time.Hour).Sub(now)
}

// A quota's day is that of Redis's clock, wherever a worker's own clock is.
func TestQuotaDayIsRedissClock(t *testing.T) {
	t.Parallel()
	for what, ahead := range map[string]time.Duration{
		"three days ahead": 72 * time.Hour, "two days ahead": 48 * time.Hour, "three days behind": -72 * time.Hour, "a year ahead": 365 * 24 * time.Hour,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			settable(t, func(t testing.TB, connect func() *redis.Client, set func(time.Duration)) {
				set(noon() + ahead)
				quota := Limit{Scope: Scope{Provider: "openai"}, Kind: Requests, Max: 3, Resets: "UTC"}
				register(t, connect(), "fleet", quota)
				a, b := start(t, connect(), "a"), start(t, connect(), "b")
				// A process that takes another day for Redis's is refused, and asks again at once.
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				for _, p := range []*process{a, b, a} {
					lease, err := p.Acquire(ctx, Request{ID: newID(), Call: openai})
					if err != nil {
						t.Fatalf("a call under the quota: %v", err)
					}
					mustRelease(t, lease)
				}
				for _, p := range []*process{a, b, a, b} {
					quotaIsUsed(t, p)
				}
			})
		})
	}
}

// quotaIsUsed checks that a process is refused until the next reset, on Redis's clock.
func quotaIsUsed(t testing.TB, p *process) {
	t.Helper()
	_, err := p.Acquire(t.Context(), Request{ID: newID(), Call: openai, MaxWait: time.Millisecond})
	refused := refusal(err)
	if refused == nil || refused.Limit != "provider/openai/requests/day" || refused.Wait <= 0 || refused.Wait > 25*time.Hour {
		t.Errorf("a call under a quota that is used up = %v, want a wait of at most a day", err)
	}
}

// A script that comes with the resets of another day changes nothing.
func TestResetsOfAnotherDayAreStale(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		quota := Limit{Scope: Scope{Provider: "openai"}, Kind: Requests, Max: 1, Resets: "UTC"}
		register(t, client, "fleet", quota)
		p := start(t, connect(), "a")
		lease := mustAcquire(t, p, newID(), openai)
		for _, ahead := range []time.Duration{-72 * time.Hour, 72 * time.Hour, 10 * 365 * 24 * time.Hour} {
			b := &batch{version: p.known.Load().version}
			b.ask(newQueue(lease.rules), []*call{{Request: Request{ID: newID(), Call: openai}}})
			asked := b.request(p.Limiter, p.now())
			for i := range asked.Limits[0].Resets {
				asked.Limits[0].Resets[i] += ahead.Microseconds()
			}
			reply, err := integers(admitScript.Run(t.Context(), client, b.keys(p.Limiter), asked.encode()).Slice())
			if err != nil || len(reply) != 1 || reply[0] != -2 {
				t.Errorf("resets of %s ahead are answered %v, %v; want that nothing is done", ahead, reply, err)
			}
		}
		quotaIsUsed(t, p)
	})
}

// Redis's clock is set by days, forward or back, while a quota is used up: it is not renewed, and
// its next reset is at most a day away.
func TestQuotaIsNotRenewedByAClockThatIsSet(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	for what, by := range map[string]time.Duration{
		"forward by three days": 72 * time.Hour, "forward past midnight": 13 * time.Hour, "back by three days": -72 * time.Hour,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			settable(t, func(t testing.TB, connect func() *redis.Client, set func(time.Duration)) {
				set(noon())
				client := connect()
				quota := Limit{Scope: Scope{Provider: "openai"}, Kind: Requests, Max: 3, Resets: "UTC"}
				register(t, client, "fleet", quota)
				if err := tools(client).Begin(t.Context(), longAgo); err != nil {
					t.Fatal(err)
				}
				a, b := start(t, connect(), "a", short), start(t, connect(), "b", short)
				for _, p := range []*process{a, b, b} {
					mustRelease(t, mustAcquire(t, p, newID(), openai))
				}

				for _, by := range []time.Duration{by, -by} {
					set(by)
					register(t, client, "ev-a", quota) // another submission
					err := tools(client).Reseed(t.Context(), "ev-a", "", func(Scope, time.Time, time.Time, []string) (int64, bool, error) { return 0, false, nil })
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(shortLease + shortLease/2) // the grace period that begins when the clock is noticed
					for _, p := range []*process{a, b} {
						quotaIsUsed(t, p)
					}
				}
			})
		})
	}
}

// Redis loses all that it knew of a quota, while processes live: they know what was used, and no
// results store without a call from before opens it. With their word alone it stays closed.
func TestQuotaOutlivesRedissMemory(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		knows      bool
		told, free int64 // calls that the store tells, and that are free afterwards
	}{
		"no store has told":              {false, 0, 0},
		"a store without calls has told": {true, 0, 1},
		"a store has all calls":          {true, 4, 1},
		"a store has more calls":         {true, 5, 0},
	} {
		t.Run(what, func(t *testing.T) {
			timed(t, func(t testing.TB, connect func() *redis.Client) {
				quotaAfterAFlush(t, connect, test.told, test.knows, test.free)
			})
		})
	}
}

// quotaAfterAFlush uses 4 of 5 calls, flushes Redis, has a results store tell what it knows, and
// checks how many more calls are free.
func quotaAfterAFlush(t testing.TB, connect func() *redis.Client, told int64, knows bool, free int64) {
	const lease = 2 * shortLease
	renews := func(c *Config) { c.Lease = lease }
	client := connect()
	quota := Limit{Scope: Scope{Provider: "openai"}, Kind: Requests, Max: 5, Resets: "UTC"}
	register(t, client, "fleet", quota)
	if err := tools(client).Begin(t.Context(), longAgo); err != nil {
		t.Fatal(err)
	}
	a, b := start(t, connect(), "a", renews), start(t, connect(), "b", renews)
	for _, p := range []*process{a, b, b, a} {
		mustRelease(t, mustAcquire(t, p, newID(), openai))
	}
	if err := a.stop(); err != nil { // the last call was its
		t.Fatal(err)
	}
	notes := a.cfg.Notes
	a = start(t, connect(), "a2", renews, func(c *Config) { c.Notes = notes })

	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	register(t, client, "fleet", quota)
	for _, p := range []*process{a, b} { // one begins an epoch, with a grace period
		if admitted, err := p.Acquire(t.Context(), Request{ID: newID(), Call: openai, MaxWait: lease}); err == nil {
			t.Error("a quota that Redis has lost admitted a call")
			mustRelease(t, admitted)
		}
	}
	testrun.Eventually(t, "the grace period is over", func() bool {
		memory, grace, err := tools(client).Memory(t.Context())
		return err == nil && memory != "" && grace <= 0
	})
	err := tools(client).Reseed(t.Context(), "store", "", func(Scope, time.Time, time.Time, []string) (int64, bool, error) { return told, knows, nil })
	if err != nil {
		t.Fatal(err)
	}

	for range free {
		mustRelease(t, mustAcquire(t, b, newID(), openai))
	}
	for _, p := range []*process{a, b} {
		quotaIsUsed(t, p)
	}
}

// A Redis that is new, and has lost nothing, opens a quota for an evaluation without results.
func TestQuotaOfANewRedis(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		if err := client.Del(t.Context(), "{ef}:limits").Err(); err != nil {
			t.Fatal(err)
		}
		if err := tools(client).Begin(t.Context(), time.Millisecond); err != nil {
			t.Fatal(err)
		}
		register(t, client, "fleet", Limit{Scope: Scope{Provider: "openai"}, Kind: Requests, Max: 1, Resets: "UTC"})
		err := tools(client).Reseed(t.Context(), "ev-a", "", func(Scope, time.Time, time.Time, []string) (int64, bool, error) { return 0, false, nil })
		if err != nil {
			t.Fatal(err)
		}
		p := start(t, connect(), "a")
		mustRelease(t, mustAcquire(t, p, newID(), openai))
		quotaIsUsed(t, p)
	})
}
