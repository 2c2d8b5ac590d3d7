package ratelimit

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
)

func TestQuotaOfADay(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		limit := Limit{Scope: Scope{Provider: "openai"}, Kind: Requests, Max: 3, Resets: "UTC"}
		client := connect()
		register(t, client, "fleet", limit)
		a, b := start(t, connect(), "a"), start(t, connect(), "b")
		for _, p := range []*process{a, b, a} {
			mustRelease(t, mustAcquire(t, p, newID(), openai))
		}
		for _, p := range []*process{a, b} {
			_, err := p.Acquire(t.Context(), Request{ID: newID(), Call: openai, MaxWait: time.Second})
			refused := refusal(err)
			now := time.Now()
			_, midnight, _ := resets(now, time.UTC)
			if refused == nil || refused.Limit != "provider/openai/requests/day" || (refused.Wait-midnight.Sub(now)).Abs() > time.Minute {
				t.Errorf("fourth call of a day = %v, want to wait until midnight, for %s", err, midnight.Sub(now))
			}
		}
		usage, err := tools(client).Usage(t.Context())
		if err != nil || len(usage) != 1 || usage[0].InUse != 3 {
			t.Errorf("Usage = %+v, %v; want 3 in use", usage, err)
		}
		// Yesterday's calls count no more.
		key := newKeys("ef").quota(limit.ID())
		if err := client.HSet(t.Context(), key, "reset", time.Now().Add(-time.Second).UnixMicro()).Err(); err != nil {
			t.Fatal(err)
		}
		mustRelease(t, mustAcquire(t, a, newID(), openai))
	})
}

// A quota that is closed because Redis does not know today's calls is said to be, once;
// one that is used up is not.
func TestClosedQuotaIsSaidOnce(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		if err := client.Del(t.Context(), "{ef}:limits").Err(); err != nil {
			t.Fatal(err)
		}
		if err := tools(client).Begin(t.Context(), time.Millisecond); err != nil {
			t.Fatal(err)
		}
		limit := Limit{Scope: Scope{Provider: "openai"}, Kind: Requests, Max: 3, Resets: "UTC"}
		register(t, client, "fleet", limit)
		for _, told := range []bool{false, true} {
			var log bytes.Buffer
			p := start(t, connect(), fmt.Sprintf("w-%t", told), func(c *Config) { c.Log = zerolog.New(&log) })
			if told {
				if err := tools(client).Seed(t.Context(), "ev-a", limit, 3); err != nil {
					t.Fatal(err)
				}
			}
			for range 3 {
				if _, err := p.Acquire(t.Context(), Request{ID: newID(), Call: openai, MaxWait: time.Millisecond}); refusal(err) == nil {
					t.Errorf("Acquire under a quota that is closed or used up: %v", err)
				}
			}
			if err := p.stop(); err != nil {
				t.Fatal(err)
			}
			want := 1
			if told {
				want = 0
			}
			if n := strings.Count(log.String(), "does not know today's calls"); n != want {
				t.Errorf("told %t: said %d times that the quota is closed, want %d:\n%s", told, n, want, &log)
			}
		}
	})
}

// A call that was in flight when Redis lost its memory counts under a daily quota once,
// whether Redis hears of it by a renewal or by its end, before or after the quota is seeded,
// and however often its end arrives.
func TestQuotaCountsCallsThatEndAfterALoss(t *testing.T) {
	const before = 2
	ends := map[string]struct {
		end  func(testing.TB, *process, *Lease)
		used int
	}{
		"ended": {func(t testing.TB, _ *process, l *Lease) { mustRelease(t, l) }, 1},
		"renewed": {func(t testing.TB, p *process, l *Lease) {
			for range 2 {
				if err := p.renew(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			mustRelease(t, l)
		}, 1},
		"given up":   {func(_ testing.TB, _ *process, l *Lease) { l.GiveUp(time.Minute, false) }, 1},
		"never sent": {func(t testing.TB, _ *process, l *Lease) { l.abandon(); mustRelease(t, l) }, 0},
	}
	for name, end := range ends {
		for _, seeded := range []string{"before", "after"} {
			t.Run(name+", seeded "+seeded, func(t *testing.T) {
				everywhere(t, func(t testing.TB, connect func() *redis.Client) {
					client := connect()
					quota := Limit{Scope: Scope{Provider: "openai"}, Kind: Requests, Max: 100, Resets: "UTC"}
					register(t, client, "fleet", quota)
					p := start(t, connect(), "a")
					lease := mustAcquire(t, p, newID(), openai)
					if err := client.Del(t.Context(), client.Keys(t.Context(), "{ef}:*").Val()...).Err(); err != nil {
						t.Fatal(err)
					}
					register(t, client, "fleet", quota)
					now := time.Now().UnixMicro()
					if err := client.HSet(t.Context(), "{ef}:limits", "epoch", "another", "since", now, "blind", now+time.Minute.Microseconds()).Err(); err != nil {
						t.Fatal(err)
					}
					seed := func(want int) {
						err := tools(client).Reseed(t.Context(), "ev-a", "", func(_ Scope, _, _ time.Time, without []string) (int64, bool, error) {
							if len(without) != want || want == 1 && without[0] != lease.ID() {
								t.Errorf("the quota counts the calls %v, want %d of %s", without, want, lease.ID())
							}
							return before, true, nil
						})
						if err != nil {
							t.Fatal(err)
						}
					}
					if seeded == "before" {
						seed(0)
					}
					end.end(t, p, lease)
					mustRelease(t, lease)
					var again batch
					again.end([]*release{lease.release})
					mustAdmit(t, p.Limiter, &again) // its first answer may be lost
					if seeded == "after" {
						seed(end.used)
					}
					usage, err := tools(client).Usage(t.Context())
					if err != nil || len(usage) != 1 || usage[0].InUse != before+end.used {
						t.Errorf("Usage = %+v, %v; want %d used", usage, err, before+end.used)
					}
				})
			})
		}
	}
}

// Redis comes back with its memory, or with an older one. The quota is closed until a results
// store tells what it has of today, which counts where it is more than Redis remembers, and never
// beside it. Calls in flight are in no store yet.
func TestQuotaThatRedisRemembersInPart(t *testing.T) {
	for name, test := range map[string]struct{ lost, stored, want int64 }{
		"nothing is lost":                         {0, 5, 7},
		"the last writes are lost":                {2, 5, 7},
		"other evaluations' stores have not told": {0, 3, 7},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(t testing.TB, connect func() *redis.Client) {
				client := connect()
				quota := Limit{Scope: Scope{Provider: "openai"}, Kind: Requests, Max: 100, Resets: "UTC"}
				limits := tools(client)
				rule := newRule(limits.keys, quota.ID(), quota)
				begin := func(server string) {
					if err := limits.beginWith(t.Context(), client, laterEpoch, server, 0, 500*time.Millisecond, "", rule); err != nil {
						t.Fatal(err)
					}
				}
				seed := func(n int64) {
					if err := limits.Seed(t.Context(), "ev-a", quota, n); err != nil {
						t.Fatal(err)
					}
				}
				p := start(t, connect(), "a", short)
				register(t, client, "fleet", quota)
				begin("first")
				seed(2)
				for range 3 {
					mustRelease(t, mustAcquire(t, p, newID(), openai))
				}
				flying := mustAcquire(t, p, newID(), openai)
				if err := client.HIncrBy(t.Context(), "{ef}:q:"+quota.ID(), "used", -test.lost).Err(); err != nil {
					t.Fatal(err)
				}
				for _, server := range []string{"second", "third"} {
					begin(server)
					if err := p.renew(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if usage, err := limits.Usage(t.Context()); err != nil || usage[0].InUse != 100 {
					t.Errorf("Usage = %+v, %v; want it closed", usage, err)
				}
				for range 2 {
					seed(test.stored)
				}
				mustRelease(t, flying)
				mustRelease(t, mustAcquire(t, p, newID(), openai))
				usage, err := limits.Usage(t.Context())
				if err != nil || len(usage) != 1 || int64(usage[0].InUse) != test.want {
					t.Errorf("Usage = %+v, %v; want %d used", usage, err, test.want)
				}
			})
		})
	}
}

// Midnight is what the zone says, on days of 23, 24 and 25 hours.
func TestResets(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		zone, now, last, next string
		length                time.Duration
	}{
		{"UTC", "2026-11-21T12:00:00Z", "2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z", 24 * time.Hour},
		{"America/Los_Angeles", "2026-03-08T20:00:00Z", "2026-03-08T08:00:00Z", "2026-03-09T07:00:00Z", 23 * time.Hour},
		{"America/Los_Angeles", "2026-11-01T20:00:00Z", "2026-11-01T07:00:00Z", "2026-11-02T08:00:00Z", 25 * time.Hour},
		{"Europe/Berlin", "2026-03-28T23:30:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z", 23 * time.Hour},
		{"Asia/Kolkata", "2026-06-30T18:29:59Z", "2026-06-29T18:30:00Z", "2026-06-30T18:30:00Z", 24 * time.Hour},
	} {
		zone, err := time.LoadLocation(test.zone)
		if err != nil {
			t.Fatal(err)
		}
		now, err := time.Parse(time.RFC3339, test.now)
		if err != nil {
			t.Fatal(err)
		}
		last, next, after := resets(now, zone)
		if got := last.UTC().Format(time.RFC3339); got != test.last {
			t.Errorf("%s at %s: last reset %s, want %s", test.zone, test.now, got, test.last)
		}
		if got := next.UTC().Format(time.RFC3339); got != test.next || next.Sub(last) != test.length {
			t.Errorf("%s at %s: next reset %s after %s, want %s after %s", test.zone, test.now, got, next.Sub(last), test.next, test.length)
		}
		if !after.After(next) {
			t.Errorf("%s at %s: the reset after %s is %s", test.zone, test.now, next, after)
		}
	}
}
