package web

import (
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/view"
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
		{ratelimit.Usage{Limit: ratelimit.Limit{Kind: ratelimit.EnqueuedTokens, Max: 2_000_000}, InUse: 1_200_000, Allowed: 2_000_000}, "1.20 M of 2 M", 60},
		{ratelimit.Usage{Limit: ratelimit.Limit{Kind: ratelimit.Requests, Max: 60, Period: time.Minute, Window: minute}}, "free", 0},
		{ratelimit.Usage{Limit: ratelimit.Limit{Kind: ratelimit.Requests, Max: 60, Period: time.Minute}, Wait: 1500 * time.Millisecond}, "next in 1.5s", 100},
		{ratelimit.Usage{Limit: ratelimit.Limit{Kind: ratelimit.Requests, Max: 1000, Resets: "UTC"}, InUse: 10, Allowed: 1000, Wait: 8 * time.Hour}, "10 of 1,000", 1},
		{ratelimit.Usage{Limit: ratelimit.Limit{Kind: ratelimit.Tokens, Max: 1000, Period: time.Hour, Window: minute}, InUse: 20, Allowed: 16}, "20 of 16/min", 100},
		{ratelimit.Usage{Limit: ratelimit.Limit{Kind: ratelimit.Tokens, Max: 1000, Period: time.Minute}, Wait: time.Second}, "next in 1s", 100},
	} {
		if words, share := used(c.usage); words != c.words || share != c.share {
			t.Errorf("%s: got %q and %d %%, want %q and %d %%", c.usage.Limit, words, share, c.words, c.share)
		}
	}
}

func TestShownPace(t *testing.T) {
	t.Parallel()
	pairs := func(ended int, rate, left float64) view.Phase {
		return view.Phase{Kind: eval.KindPairwise, Runs: 1000, Succeeded: ended, RatePerS: &rate, LeftS: &left}
	}
	for _, test := range []struct {
		phases     []view.Phase
		pace, left string
	}{
		{nil, "", ""},
		{[]view.Phase{{Kind: eval.KindSingle, Runs: 10}}, "", ""},
		{[]view.Phase{pairs(100, 10, 90)}, "10.0/s", "1:30"},
		{[]view.Phase{pairs(100, 0.25, 3600)}, "15.0/min", "1:00:00"},
		{[]view.Phase{{Kind: eval.KindSingle, Runs: 1000}, pairs(200, 10, 80)}, "10.0/s", "3:00"},
	} {
		got := shown(view.Evaluation{Phases: test.phases}).Shown
		if got.Pace != test.pace || got.Left != test.left {
			t.Errorf("%+v: %q, %q left; want %q, %q", test.phases, got.Pace, got.Left, test.pace, test.left)
		}
	}
}
