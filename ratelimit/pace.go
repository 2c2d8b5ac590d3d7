package ratelimit

import (
	"cmp"
	"math/bits"
	"time"
)

// pace returns how a rate is kept: the least interval between two starts and
// how many starts may be saved up, as the generic cell rate algorithm (GCRA)
// takes them. In a closed span w it lets at most floor(w/interval)+burst calls
// start.
//
// A token bucket that refills r a second is kept by interval = 1/r, at full
// rate, as long as it holds the burst and what a jitter J may bunch up:
// burst + rJ <= capacity. Limit.Burst is the capacity, so that the burst is smaller by rJ,
// and at least 1: a bucket of so few that they all may bunch up can refuse one. Without a Burst the
// capacity is not known, and taken for larger than the tenth of a second's worth that is
// saved up then.
//
// A provider that counts N in every window of W sees, because each call may be
// late by up to J, only calls that started within less than W+J of each other.
// More than N of them would need (N+1-burst) intervals in less than W+J, so
//
//	interval = (W+J) / (N-burst+1)
//
// never lets it count more than N. The cost of that certainty is the share
// W/(W+J) × (N-burst+1)/N of the rate: 98 % of 600 per 60 s with half a second
// of jitter, 67 % of 10 per second with the same jitter. A fixed window is kept
// as a sliding one: where it begins is the provider's secret.
//
// The derivation and simulations against servers of each shape are in this
// project's study of limits ("which client algorithm gives zero 429s").
func (l Limit) pace() (interval time.Duration, burst int64) {
	burst = cmp.Or(l.Burst, l.defaultBurst())
	if l.Jitter == Measured {
		l.Jitter = spare(0, 0).Total()
	}
	if l.Window.Shape == "" || l.Window.Shape == Bucket {
		interval = roundUp(l.Period, l.Max)
		if l.Burst > 0 {
			burst = max(1, burst-int64((l.Jitter+interval-1)/interval))
		}
		return interval, burst
	}
	// A window too short for a single call says no more than that calls are
	// one at a time.
	window := max(l.Window.Length, roundUp(l.Period, l.Max))
	n := scaled(l.Max, window, l.Period)
	burst = min(burst, n)
	return roundUp(window+l.Jitter, n-burst+1), burst
}

// defaultBurst is a tenth of a second's worth of calls, at least one. Of a window it is at most
// two, because each costs a call of every window.
func (l Limit) defaultBurst() int64 {
	n := l.tenth()
	if l.Window.Shape == Sliding || l.Window.Shape == Fixed {
		return min(n, 2)
	}
	return n
}

func (l Limit) tenth() int64 {
	tenth := 100 * time.Millisecond
	if l.Period <= 0 {
		return 1
	}
	n := scaled(l.Max, tenth, l.Period)
	if n*int64(l.Period) < l.Max*int64(tenth) {
		n++
	}
	return max(1, n)
}

// roundUp divides d by n, up to the next microsecond.
func roundUp(d time.Duration, n int64) time.Duration {
	micros := int64((d + time.Microsecond - 1) / time.Microsecond)
	return time.Duration((micros+n-1)/n) * time.Microsecond
}

// scaled is floor(n × part / whole), in full width.
func scaled(n int64, part, whole time.Duration) int64 {
	high, low := bits.Mul64(uint64(n), uint64(part))
	quotient, _ := bits.Div64(high, low, uint64(whole))
	return int64(quotient)
}

// tightest is the limit that satisfies all of several limits with one ID. For rates it takes
// the least burst and the greatest jitter, and then the limit with the longest interval; it
// charges the reservation if any does, and adapts if any does. Quotas whose days end in several
// zones, which an account cannot have, get the first by name.
func tightest(limits []Limit) Limit {
	best := limits[0]
	if best.Kind == Concurrency || best.Kind == Cost || best.Resets != "" {
		for _, l := range limits[1:] {
			best.Max, best.Resets = min(best.Max, l.Max), min(best.Resets, l.Resets)
			best.Adaptive = best.Adaptive || l.Adaptive
		}
		return best
	}
	charged := false
	for _, l := range limits {
		charged = charged || l.Charged
	}
	least, jitter := best, best.Jitter // the first with the least burst, which may be a default
	for _, l := range limits[1:] {
		if cmp.Or(l.Burst, l.defaultBurst()) < cmp.Or(least.Burst, least.defaultBurst()) {
			least = l
		}
		jitter = max(jitter, l.Jitter)
	}
	var longest time.Duration
	for _, l := range limits {
		l.Burst, l.Jitter = least.Burst, jitter
		if interval, _ := l.pace(); interval > longest {
			best, longest = l, interval
		}
	}
	best.Charged = charged
	return best
}
