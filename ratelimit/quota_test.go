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
