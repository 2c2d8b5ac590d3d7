package ratelimit

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// slowWay delays every second command.
type slowWay struct {
	redis.Hook
	by       time.Duration
	commands *atomic.Int64
}

func (s slowWay) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s slowWay) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (s slowWay) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if s.commands.Add(1)%2 == 0 {
			time.Sleep(s.by)
		}
		return next(ctx, cmd)
	}
}

// A lease that is too short for the way to Redis is refused, and the error names the least that works. It is
// checked on the exact clock only: a real Redis is as slow as the machine.
func TestCheckLease(t *testing.T) {
	t.Parallel()
	embedded(t, func(t testing.TB, connect func() *redis.Client) {
		slow := connect()
		slow.AddHook(slowWay{by: 300 * time.Millisecond, commands: &atomic.Int64{}})
		err := NewAdmin(slow, Config{Lease: time.Second}).CheckLease(t.Context())
		var tooShort *LeaseError
		if !errors.As(err, &tooShort) || tooShort.Least < 2*time.Second || tooShort.Least > 20*time.Second {
			t.Errorf("with round trips of up to 300 ms: %v, want an error that names a lease of some seconds", err)
		}
		if err := NewAdmin(slow, Config{Lease: 10 * time.Second}).CheckLease(t.Context()); err != nil {
			t.Errorf("a lease of 10 s: %v", err)
		}
		away := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
		defer away.Close()
		if err := NewAdmin(away, Config{Lease: time.Second}).CheckLease(t.Context()); err != nil {
			t.Errorf("a Redis that is away: %v", err)
		}
	})
}

func TestLeaseForRoundTrips(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	even := func(from, to time.Duration) (trips []time.Duration) {
		for i := range 20 {
			trips = append(trips, from+(to-from)*time.Duration(i)/19)
		}
		return trips
	}
	for name, test := range map[string]struct {
		lease time.Duration
		trips []time.Duration
		least time.Duration // 0: the lease works
	}{
		"a network of its own":              {time.Second, even(0, ms), 0},
		"far away, always alike":            {time.Second, even(150*ms, 160*ms), 0},
		"farther than the lease outlives":   {time.Second, even(250*ms, 260*ms), 2 * time.Second},
		"up to 300 ms":                      {time.Second, even(0, 300*ms), 6 * time.Second},
		"up to 300 ms, with a lease for it": {6 * time.Second, even(0, 300*ms), 0},
		"some slow ones among many":         {time.Second, slices.Concat(even(0, ms), even(200*ms, 300*ms)[:5]), 0},
		"far away, and always otherwise":    {10 * time.Second, even(0, 8*time.Second), 22 * time.Second},
	} {
		err := checkLease(Config{Lease: test.lease}, test.trips)
		var tooShort *LeaseError
		switch {
		case test.least == 0 && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.least > 0 && (!errors.As(err, &tooShort) || tooShort.Least != test.least):
			t.Errorf("%s: %v, want that %s is the least", name, err, test.least)
		}
	}
}
