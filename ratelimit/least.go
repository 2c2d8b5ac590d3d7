package ratelimit

import (
	"math"
	"time"
)

// LeastTime returns the shortest time that an unused limit needs between the starts of the first and the last of calls.
// The first starts at now; tokens is the total of all calls. LeastTime returns 0 for calls that may start at once, for
// limits on calls in flight or on batches and for budgets, and at most the longest time.Duration.
//
// Requests begin with the burst; then one starts in each interval to which the limit's window and jitter trim the rate.
// Tokens, of which all calls use equally many, fill a window at once, and again whenever it has passed; from a bucket
// they come at its rate. A quota resets at midnight in its zone.
func (l Limit) LeastTime(now time.Time, calls, tokens int64) time.Duration {
	if l.Kind == Concurrency || l.Kind == Cost || l.Kind == EnqueuedTokens || calls < 1 || l.Max < 1 {
		return 0
	}

	r := newRule(keys{}, "", l)
	each := int64(1)
	if l.Kind.tokens() {
		each = max(1, (tokens+calls-1)/calls)
	}
	switch r.way {
	case byQuota:
		year, month, day := now.In(r.zone).Date()
		days := (calls - 1) / l.Max
		if days > int64(math.MaxInt64/(24*time.Hour)) {
			return math.MaxInt64
		}
		if days == 0 {
			return 0
		}
		return time.Date(year, month, day+int(days), 0, 0, 0, 0, r.zone).Sub(now)
	case byWindow:
		fit := max(1, r.most/each) // one that is larger has the window to itself
		return times((calls-1)/fit, float64(r.span+r.slot))
	default:
		// The last waits until the bucket holds it, or is full.
		spent := float64(calls-1)*float64(each) + float64(min(each, r.burst)-r.burst)
		return times(1, max(0, spent)*r.interval)
	}
}

// times returns n × micros microseconds, at most the longest time.Duration.
func times(n int64, micros float64) time.Duration {
	if d := float64(n) * micros * 1e3; d < math.MaxInt64 {
		return time.Duration(d)
	}
	return math.MaxInt64
}
