package ratelimit

import (
	"cmp"
	"math/bits"
	"time"
)

// pace returns how a rate is kept, as parameters of the generic cell rate algorithm (GCRA): the least interval between
// two starts and how many starts may be saved up. In a closed span w it lets at most floor(w/interval)+burst calls
// start.
//
// A token bucket that refills at r per second is kept by interval = 1/r, at full rate, if it holds the burst and what a
// jitter J may bunch up: burst + rJ <= capacity. Limit.Burst is the capacity, so the burst is smaller by rJ, and at
// least 1. A bucket so small that all of its calls may bunch up can still refuse one. Without a Burst, the unknown
// capacity is taken to be large enough for the tenth of a second's worth that may be saved up.
//
// A provider that counts N in every window of W sees, because each call may be late by up to J, only calls that started
// within less than W+J of each other. More than N of them would need (N+1-burst) intervals in less than W+J, so
//
//	interval = (W+J) / (N-burst+1)
//
// never lets it count more than N. The cost of that certainty is the share W/(W+J) × (N-burst+1)/N of the rate: 98 % of
// 600 per 60 s with half a second of jitter, 67 % of 10 per second with the same jitter. A fixed window is kept as a
// sliding one, because the start of the provider's windows is unknown.
//
// The derivation and simulations against servers of each shape are in this project's study of limits ("which client
// algorithm gives zero 429s").
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
	// A window too short for a single call only means that calls start one at a time.
	window := max(l.Window.Length, roundUp(l.Period, l.Max))
	n := scaled(l.Max, window, l.Period)
	burst = min(burst, n)
	return roundUp(window+l.Jitter, n-burst+1), burst
}

// defaultBurst returns the burst of a limit that sets none: a tenth of a second's worth of calls, at least one. For a
// window it is at most two, because every call of the burst costs one call in each window.
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

// scaled returns floor(n × part / whole). The product does not overflow.
func scaled(n int64, part, whole time.Duration) int64 {
	high, low := bits.Mul64(uint64(n), uint64(part))
	quotient, _ := bits.Div64(high, low, uint64(whole))
	return int64(quotient)
}

// tightest returns the limit that satisfies all of several limits with one ID. For rates it takes the least burst and
// the greatest jitter, and then the limit with the longest interval. The result charges the reservation if any limit
// does, and adapts if any does. An account has one zone: if quotas name several, the first by name is used.
func tightest(limits []Limit) Limit {
	best := limits[0]
	if best.Kind == Concurrency || best.Kind == Cost || best.Kind == EnqueuedTokens || best.Resets != "" {
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
