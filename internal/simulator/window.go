package simulator

import "time"

// window enforces a Rate. The times passed to it never go back, and no cost exceeds the rate's
// largest.
type window interface {
	// wait returns how long until a request of that cost would be admitted; 0: now.
	wait(now time.Time, cost int) time.Duration
	// take charges a request that is admitted now.
	take(now time.Time, cost int)
	// settle changes the charge of a request admitted earlier by an amount.
	settle(now, admitted time.Time, by int)
	// left returns the largest cost that would be admitted now.
	left(now time.Time) int
	// reset returns how long until no charge counts any more.
	reset(now time.Time) time.Duration
}

func newWindow(r Rate) window {
	switch r.Shape {
	case Fixed:
		return &fixedWindow{n: r.N, length: r.Window}
	case Bucket:
		capacity := float64(r.largest())
		return &bucket{capacity: capacity, perNano: float64(r.N) / float64(r.Window), tokens: capacity}
	}
	return &slidingWindow{n: r.N, length: r.Window}
}

// slidingWindow keeps the charges within the window's length.
type slidingWindow struct {
	ledger
	n      int
	length time.Duration
}

func (w *slidingWindow) pass(now time.Time) {
	w.expire(func(at time.Time) bool { return now.Sub(at) >= w.length })
}

func (w *slidingWindow) wait(now time.Time, cost int) time.Duration {
	w.pass(now)
	over := w.sum + cost - w.n
	if over <= 0 {
		return 0
	}
	for _, c := range w.charges {
		if over -= c.cost; over <= 0 {
			return w.length - now.Sub(c.at)
		}
	}
	return w.length
}

func (w *slidingWindow) take(now time.Time, cost int) {
	w.pass(now)
	w.add(now, cost)
}

func (w *slidingWindow) settle(_, admitted time.Time, by int) { w.change(admitted, by) }

func (w *slidingWindow) left(now time.Time) int {
	w.pass(now)
	return max(0, w.n-w.sum)
}

func (w *slidingWindow) reset(now time.Time) time.Duration {
	w.pass(now)
	if len(w.charges) == 0 {
		return 0
	}
	return w.length - now.Sub(w.charges[len(w.charges)-1].at)
}

// fixedWindow counts in intervals that begin at multiples of length on the clock.
type fixedWindow struct {
	n      int
	length time.Duration
	start  time.Time
	sum    int
}

func (w *fixedWindow) turn(now time.Time) {
	if start := now.Truncate(w.length); !start.Equal(w.start) {
		w.start, w.sum = start, 0
	}
}

func (w *fixedWindow) wait(now time.Time, cost int) time.Duration {
	w.turn(now)
	if w.sum+cost <= w.n {
		return 0
	}
	return w.rest(now)
}

func (w *fixedWindow) rest(now time.Time) time.Duration {
	return w.start.Add(w.length).Sub(now.Round(0)) // by the wall clock, as start is
}

func (w *fixedWindow) take(now time.Time, cost int) {
	w.turn(now)
	w.sum += cost
}

func (w *fixedWindow) settle(now, admitted time.Time, by int) {
	w.turn(now)
	if admitted.Truncate(w.length).Equal(w.start) {
		w.sum += by
	}
}

func (w *fixedWindow) left(now time.Time) int {
	w.turn(now)
	return max(0, w.n-w.sum)
}

func (w *fixedWindow) reset(now time.Time) time.Duration {
	w.turn(now)
	if w.sum == 0 {
		return 0
	}
	return w.rest(now)
}

// bucket holds tokens that flow in evenly.
type bucket struct {
	capacity, perNano, tokens float64
	filled                    time.Time
}

// grain allows for rounding errors: a request may come in the very nanosecond of its token.
const grain = 1e-6

func (b *bucket) fill(now time.Time) {
	if !b.filled.IsZero() {
		b.tokens = min(b.capacity, b.tokens+float64(now.Sub(b.filled))*b.perNano)
	}
	b.filled = now
}

func (b *bucket) wait(now time.Time, cost int) time.Duration {
	b.fill(now)
	return b.until(float64(cost))
}

// until returns how long until the bucket holds that many tokens.
func (b *bucket) until(tokens float64) time.Duration {
	if b.tokens >= tokens-grain {
		return 0
	}
	return time.Duration((tokens-b.tokens)/b.perNano) + 1
}

func (b *bucket) take(now time.Time, cost int) {
	b.fill(now)
	b.tokens -= float64(cost)
}

func (b *bucket) settle(now, _ time.Time, by int) {
	b.fill(now)
	b.tokens -= float64(by) // the next fill drops what exceeds the capacity
}

func (b *bucket) left(now time.Time) int {
	b.fill(now)
	return max(0, int(b.tokens+grain))
}

func (b *bucket) reset(now time.Time) time.Duration {
	b.fill(now)
	return b.until(b.capacity)
}
