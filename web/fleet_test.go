package web

import (
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/ratelimit"
)

func TestUsed(t *testing.T) {
	t.Parallel()
	minute := ratelimit.Window{Shape: ratelimit.Sliding, Length: time.Minute}
	for _, c := range []struct {
		usage ratelimit.Usage
		words string
		share int
	}{
		{ratelimit.Usage{Limit: ratelimit.Limit{Kind: ratelimit.Concurrency, Max: 8}, InUse: 6, Allowed: 8}, "6 of 8", 75},
		{ratelimit.Usage{Limit: ratelimit.Limit{Kind: ratelimit.Concurrency}, InUse: 2}, "2 in flight", 100},
		{ratelimit.Usage{Limit: ratelimit.Limit{Kind: ratelimit.Requests, Max: 60, Period: time.Minute, Window: minute}}, "free", 0},
		{ratelimit.Usage{Limit: ratelimit.Limit{Kind: ratelimit.Requests, Max: 60, Period: time.Minute}, Wait: 1500 * time.Millisecond}, "next in 1.5s", 100},
		{ratelimit.Usage{Limit: ratelimit.Limit{Kind: ratelimit.Requests, Max: 1000, Resets: "UTC"}, InUse: 10, Allowed: 1000, Wait: 8 * time.Hour}, "10 of 1000", 1},
		{ratelimit.Usage{Limit: ratelimit.Limit{Kind: ratelimit.Tokens, Max: 1000, Period: time.Hour, Window: minute}, InUse: 20, Allowed: 16}, "20 of 16 in 1m0s", 100},
		{ratelimit.Usage{Limit: ratelimit.Limit{Kind: ratelimit.Tokens, Max: 1000, Period: time.Minute}, Wait: time.Second}, "next in 1s", 100},
	} {
		if words, share := used(c.usage); words != c.words || share != c.share {
			t.Errorf("%s: got %q and %d %%, want %q and %d %%", c.usage.Limit, words, share, c.words, c.share)
		}
	}
}
