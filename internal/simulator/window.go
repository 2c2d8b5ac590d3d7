package simulator

import (
	"sort"
	"time"
)

// window enforces a Rate. Times given to it never go back.
type window interface {
	// wait is how long until a request would be admitted; 0: now.
	wait(now time.Time) time.Duration
	// take counts a request that is admitted now.
	take(now time.Time)
	// left is how many would be admitted now, one after the other.
	left(now time.Time) int
}

func newWindow(r Rate) window {
	switch {
	case r == Rate{}:
		return nil
	case r.Shape == Fixed:
		return &fixedWindow{n: r.N, length: r.Window}
	case r.Shape == Bucket:
		capacity := r.Burst
		if capacity == 0 {
			capacity = r.N
		}
		return &bucket{capacity: float64(capacity), perNano: float64(r.N) / float64(r.Window), tokens: float64(capacity)}
	}
	return &slidingWindow{admitted: make([]time.Time, r.N), length: r.Window}
}

// slidingWindow keeps the times of the last n admissions in a ring.
type slidingWindow struct {
	admitted []time.Time // the zero time: never
	next     int         // the oldest
	length   time.Duration
}

func (w *slidingWindow) wait(now time.Time) time.Duration {
	oldest := w.admitted[w.next]
	if oldest.IsZero() {
		return 0
	}
	return max(0, w.length-now.Sub(oldest))
}

func (w *slidingWindow) take(now time.Time) {
	w.admitted[w.next] = now
	w.next = (w.next + 1) % len(w.admitted)
}

func (w *slidingWindow) left(now time.Time) int {
	return sort.Search(len(w.admitted), func(i int) bool { // the oldest first
		at := w.admitted[(w.next+i)%len(w.admitted)]
		return !at.IsZero() && now.Sub(at) < w.length
	})
}

// fixedWindow counts in stretches that begin at multiples of length on the
// clock.
type fixedWindow struct {
	n      int
	length time.Duration
	start  time.Time
	count  int
}

func (w *fixedWindow) turn(now time.Time) {
	if start := now.Truncate(w.length); !start.Equal(w.start) {
		w.start, w.count = start, 0
	}
}

func (w *fixedWindow) wait(now time.Time) time.Duration {
	w.turn(now)
	if w.count < w.n {
		return 0
	}
	return w.start.Add(w.length).Sub(now.Round(0)) // by the wall clock, as start is
}

func (w *fixedWindow) take(now time.Time) {
	w.turn(now)
	w.count++
}

func (w *fixedWindow) left(now time.Time) int {
	w.turn(now)
	return w.n - w.count
}

// bucket holds tokens that flow in evenly.
type bucket struct {
	capacity, perNano, tokens float64
	filled                    time.Time
}

// grain forgives what floating point loses: a request that comes in the very
// nanosecond of its token.
const grain = 1e-6

func (b *bucket) fill(now time.Time) {
	if !b.filled.IsZero() {
		b.tokens = min(b.capacity, b.tokens+float64(now.Sub(b.filled))*b.perNano)
	}
	b.filled = now
}

func (b *bucket) wait(now time.Time) time.Duration {
	b.fill(now)
	if b.tokens >= 1-grain {
		return 0
	}
	return time.Duration((1-b.tokens)/b.perNano) + 1
}

func (b *bucket) take(now time.Time) {
	b.fill(now)
	b.tokens--
}

func (b *bucket) left(now time.Time) int {
	b.fill(now)
	return int(b.tokens + grain)
}

// busiest finds the most arrivals in any one window: of the fixed ones, or of
// any stretch of the length.
type busiest struct {
	fixed   bool
	length  time.Duration
	arrived []time.Time
	most    int
}

func (b *busiest) note(now time.Time) {
	out := 0
	for out < len(b.arrived) && b.past(b.arrived[out], now) {
		out++
	}
	b.arrived = append(b.arrived[out:], now)
	b.most = max(b.most, len(b.arrived))
}

func (b *busiest) past(at, now time.Time) bool {
	if b.fixed {
		return !at.Truncate(b.length).Equal(now.Truncate(b.length))
	}
	return now.Sub(at) >= b.length
}
