package simulator

import (
	"sort"
	"time"
)

// ledger is a list of charges with their times, oldest first.
type ledger struct {
	charges []charge
	sum     int
}

type charge struct {
	at   time.Time
	cost int
}

// expire drops the oldest charges for which past is true.
func (l *ledger) expire(past func(at time.Time) bool) {
	for len(l.charges) > 0 && past(l.charges[0].at) {
		l.sum -= l.charges[0].cost
		l.charges = l.charges[1:]
	}
}

func (l *ledger) add(now time.Time, cost int) {
	l.charges = append(l.charges, charge{now, cost})
	l.sum += cost
}

// change changes a charge, which may have expired.
func (l *ledger) change(at time.Time, by int) {
	i := sort.Search(len(l.charges), func(i int) bool { return !l.charges[i].at.Before(at) })
	if i < len(l.charges) && l.charges[i].at.Equal(at) {
		l.charges[i].cost += by
		l.sum += by
	}
}

// busiest finds the maximum that arrived in any one window, whether it was admitted or not. The
// windows are fixed, or any interval of the length.
type busiest struct {
	ledger
	fixed  bool
	length time.Duration
	most   int
}

func (b *busiest) note(now time.Time, cost int) {
	b.expire(func(at time.Time) bool {
		if b.fixed {
			return !at.Truncate(b.length).Equal(now.Truncate(b.length))
		}
		return now.Sub(at) >= b.length
	})
	b.add(now, cost)
	b.most = max(b.most, b.sum)
}

// forget clears everything.
func (b *busiest) forget() { b.ledger, b.most = ledger{}, 0 }
