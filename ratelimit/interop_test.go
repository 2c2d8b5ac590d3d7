package ratelimit

import (
	"slices"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// Another program that takes what RedisRate says admits what we would, and no
// more, and both count each other's calls.
func TestRedisRateSharesTheLimit(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		limit := rate(60, time.Hour, 7)
		limit.Window, limit.Jitter = Window{Shape: Sliding, Length: time.Hour}, time.Second
		register(t, client, "fleet", limit)
		l := tools(client)
		key, theirs, ok := l.RedisRate(limit)
		if want := (redis_rate.Limit{Rate: 1, Burst: 7, Period: roundUp(time.Hour+time.Second, 54)}); !ok || theirs != want {
			t.Fatalf("got %v, %t, want %v", theirs, ok, want)
		}
		p := start(t, client, "w")
		for range 3 {
			mustAcquire(t, p, newID(), openai)
		}
		r, err := redis_rate.NewLimiter(client).AllowAtMost(t.Context(), key, theirs, 10)
		if err != nil || r.Allowed != 4 && r.Allowed != 3 { // the fourth by a hair, in floating point
			t.Fatalf("redis_rate allowed %+v, %v; want the remaining 4", r, err)
		}
		usage, err := l.Usage(t.Context())
		if err != nil || len(usage) != 1 || usage[0].Wait > theirs.Period || r.Allowed == 4 && usage[0].Wait < theirs.Period-time.Minute {
			t.Errorf("after seven calls we wait %+v, %v; want about %s", usage, err, theirs.Period)
		}
	})
}

func TestRedisRateOfWhatIsNoRate(t *testing.T) {
	t.Parallel()
	for _, limit := range []Limit{inFlight(Scope{}, 1), enqueued(Scope{}, 1)} {
		if key, _, ok := NewAdmin(nil, Config{}).RedisRate(limit); ok || key != "" {
			t.Errorf("%s: got key %q, %t; want none", limit, key, ok)
		}
	}
}

func TestUsageNamesHolders(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		account, minute := Scope{Provider: "openai"}, rate(60, time.Minute, 1)
		register(t, client, "fleet", inFlight(account, 16), minute)
		register(t, client, "ev-a", inFlight(account, 8))
		usage, err := tools(client).Usage(t.Context())
		if err != nil || len(usage) != 2 {
			t.Fatalf("got %+v, %v", usage, err)
		}
		for i, want := range [][]string{{"ev-a", "fleet"}, {"fleet"}} {
			if !slices.Equal(usage[i].Holders, want) {
				t.Errorf("%s is pinned by %v, want %v", usage[i].Limit, usage[i].Holders, want)
			}
		}
	})
}

func TestBinds(t *testing.T) {
	t.Parallel()
	slots, pace := inFlight(Scope{}, 4), rate(60, time.Minute, 1)
	for _, c := range []struct {
		usage Usage
		want  bool
	}{
		{Usage{Limit: slots, InUse: 4, Waiting: 1}, true},
		{Usage{Limit: slots, InUse: 5, Waiting: 1}, true}, // the limit was lowered
		{Usage{Limit: slots, InUse: 4}, false},
		{Usage{Limit: slots, InUse: 3, Waiting: 1}, false},
		{Usage{Limit: pace, Wait: time.Second, Waiting: 1}, true},
		{Usage{Limit: pace, Wait: time.Second}, false},
		{Usage{Limit: pace, Waiting: 1}, false},
		{Usage{Limit: enqueued(Scope{}, 4), InUse: 3, Waiting: 1}, true}, // a batch of 2 waits
		{Usage{Limit: enqueued(Scope{}, 4), InUse: 4}, false},
	} {
		if got := c.usage.Binds(); got != c.want {
			t.Errorf("%+v binds: %t, want %t", c.usage, got, c.want)
		}
	}
}
