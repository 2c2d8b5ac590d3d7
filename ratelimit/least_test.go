package ratelimit_test

import (
	"math"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/ratelimit"
)

func TestLeastTime(t *testing.T) {
	t.Parallel()
	bucket := ratelimit.Limit{Kind: ratelimit.Requests, Max: 15, Period: time.Second, Burst: 6}
	sliding := ratelimit.Limit{
		Kind: ratelimit.Requests, Max: 60, Period: time.Minute, Burst: 1, Jitter: 500 * time.Millisecond,
		Window: ratelimit.Window{Shape: ratelimit.Sliding, Length: time.Minute},
	}
	daily := ratelimit.Limit{Kind: ratelimit.Requests, Max: 1, Period: 24 * time.Hour, Burst: 1}
	for _, test := range []struct {
		name  string
		limit ratelimit.Limit
		calls int64
		want  time.Duration
	}{
		{"none", bucket, 0, 0},
		{"within the burst", bucket, 6, 0},
		{"a bucket", bucket, 156, 150 * 66667 * time.Microsecond},
		{"a window, trimmed by jitter", sliding, 121, 120 * 1008334 * time.Microsecond},
		{"longer than can be said", daily, 1 << 40, math.MaxInt64},
		{"no rate", ratelimit.Limit{Kind: ratelimit.Concurrency, Max: 1}, 100, 0},
	} {
		if got := test.limit.LeastTime(test.calls); got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}
