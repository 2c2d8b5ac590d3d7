// Package backoff computes how long to wait between tries of something that fails, or that has nothing new.
//
// It does not wait, and does not know what is tried.
package backoff

import (
	"math"
	"time"
)

// Waits is a series of waits, each Factor times as long as the one before.
type Waits struct {
	First   time.Duration // 0 or less: every wait is 0
	Longest time.Duration // of each wait, also of the first
	Factor  float64       // 2: each wait is twice as long as the one before; 1: all are First
}

// After returns the wait that follows n earlier ones: First·Factorⁿ, rounded to a nanosecond, at most Longest. n is 0
// before the first wait.
func (w Waits) After(n int) time.Duration {
	if w.First <= 0 {
		return 0
	}
	wait := math.Round(float64(w.First) * math.Pow(w.Factor, float64(n)))
	if wait >= float64(w.Longest) {
		return w.Longest
	}
	return time.Duration(wait)
}

// Shorten returns a wait less a random part of it, so that many who wait do not come back together. share is the
// largest such part, from 0 (none) to 1 (all); random is in [0, 1), and 0 shortens most.
func Shorten(wait time.Duration, share, random float64) time.Duration {
	return time.Duration((1 - share + share*random) * float64(wait))
}
