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
	tokens := sliding
	tokens.Kind, tokens.Max = ratelimit.Tokens, 1000
	filled := time.Minute + 500*time.Millisecond + time.Second // with jitter and a slot
	tokenBucket := ratelimit.Limit{Kind: ratelimit.OutputTokens, Max: 600, Period: time.Minute, Burst: 100}
	quota := ratelimit.Limit{Kind: ratelimit.Requests, Max: 10, Resets: "America/Los_Angeles"}
	// An hour before the day on which clocks go back there.
	now := time.Date(2026, 11, 1, 6, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		name          string
		limit         ratelimit.Limit
		calls, tokens int64
		want          time.Duration
	}{
		{"none", bucket, 0, 0, 0},
		{"within the burst", bucket, 6, 0, 0},
		{"a bucket", bucket, 156, 0, 150 * 66667 * time.Microsecond},
		{"a window, trimmed by jitter", sliding, 121, 0, 120 * 1008334 * time.Microsecond},
		{"longer than can be said", daily, 1 << 40, 0, math.MaxInt64},
		{"no rate", ratelimit.Limit{Kind: ratelimit.Concurrency, Max: 1}, 100, 0, 0},
		{"tokens within a window", tokens, 10, 1000, 0},
		{"tokens beyond a window", tokens, 11, 1100, filled},
		{"tokens of 4 windows, 3 calls in each", tokens, 12, 12 * 300, 3 * filled},
		{"calls larger than a window", tokens, 3, 9000, 2 * filled},
		{"longer than windows can say", tokens, 1 << 40, 1 << 50, math.MaxInt64},
		{"tokens within a bucket", tokenBucket, 10, 100, 0},
		{"tokens beyond a bucket", tokenBucket, 10, 300, 20 * time.Second},
		{"calls larger than a bucket", tokenBucket, 3, 600, 40 * time.Second},
		{"a quota within a day", quota, 10, 0, 0},
		{"a quota until tomorrow", quota, 11, 0, time.Hour},
		{"a quota for days", quota, 31, 0, (1 + 25 + 24) * time.Hour},
		{"a quota for ever", quota, 1 << 60, 0, math.MaxInt64},
	} {
		if got := test.limit.LeastTime(now, test.calls, test.tokens); got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}
