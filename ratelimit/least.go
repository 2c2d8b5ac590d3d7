package ratelimit

import (
	"math"
	"time"
)

// LeastTime is how long a rate takes, at best, from the start of the first of
// calls to the start of the last: the burst at once, and then one call in each
// interval to which the limit's window and jitter trim the rate. It is 0 for
// calls within the burst and for limits that are no rate, and ends at the
// longest time.Duration.
func (l Limit) LeastTime(calls int64) time.Duration {
	if l.Kind == Concurrency {
		return 0
	}
	interval, burst := l.pace()
	switch after := calls - burst; {
	case after <= 0 || interval <= 0:
		return 0
	case after > math.MaxInt64/int64(interval):
		return math.MaxInt64
	default:
		return time.Duration(after) * interval
	}
}
