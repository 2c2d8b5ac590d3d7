package ratelimit

import (
	"maps"
	"math"
	"slices"
	"time"
)

// units is what a call costs under the limit.
func (r *rule) units(u Used) int64 {
	switch r.Kind {
	case InputTokens, EnqueuedTokens:
		return u.Input
	case OutputTokens:
		return u.Output
	case Tokens:
		return u.Input + u.Output
	case Cost:
		return u.Cost
	}
	return 1
}

// micros is the time that a rate takes for so many units.
func (r *rule) micros(units float64) int64 { return int64(math.Ceil(units * r.interval)) }

// count adds units to a window.
func (l *limitSeen) count(when, units int64) {
	l.slots[floorDiv(when, l.slot)] += units
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// startUnder is when a limit of units lets a call start, in µs from now, and
// when it is worth asking, after those ahead in the queue; least is the time to the
// start if there were none.
func (a *admission) startUnder(l *limitSeen, g *groupSeen, units int64) (own, turn, least float64) {
	switch l.way {
	case byRate:
		a.look(l)
		each := max(1, float64(units)*l.interval)
		// While others wait a worker takes its part of what a horizon holds.
		l.share = max(1, int64(math.Floor(float64(horizon.Microseconds())/each/float64(l.others+1))))
		own := float64(l.freeAt(a.now, units) - a.now)
		return own, own + float64(l.ahead)*float64(l.share)*each, own
	case byWindow:
		opens := a.windowOpens(l, units)
		own := opens
		// Small calls do not pass one that has waited long, here or elsewhere.
		yields := l.waits && l.aged && !g.aged || l.ahead > 0 && l.frontWaits(a.now) > longWait
		if own <= horizon.Microseconds() && yields {
			own = patience.Microseconds()
		}
		return float64(own), float64(own), float64(opens)
	default:
		_, reset, used, known := a.quota(l)
		left := reset - a.now
		if !known || left <= (quotaSpread+horizon).Microseconds() || used > 0 && used+units > l.Max {
			return float64(left), float64(left), float64(left)
		}
		return 0, 0, 0
	}
}

// look reads a rate for the first time. After a loss of memory it is used up. If it lay idle
// although a worker was ahead of this one, that worker has lost its turn.
func (a *admission) look(l *limitSeen) {
	if l.looked {
		return
	}
	l.looked = true
	l.arrival = a.remembered(l.rule, l.account.arrival)
	if l.ahead > 0 && l.arrival+idleGrace <= a.now {
		l.line = l.line[1:]
		l.others, l.ahead = l.others-1, 0
		l.first = l.place(a.worker) == 0
	}
}

// remembered is the arrival time of a rate, given the one that is saved.
func (m *model) remembered(r *rule, saved int64) int64 {
	if m.since == 0 {
		return saved
	}
	return max(saved, m.since+horizon.Microseconds()+r.micros(float64(r.burst)))
}

// freeAt is when a rate lets so many units start: when the bucket holds them, or
// is full.
func (l *limitSeen) freeAt(now, units int64) int64 {
	return max(l.arrival, now) + l.micros(float64(min(units, l.burst)-l.burst))
}

// inWindow sums what counts: a slot leaves when all of it is older than the span.
func (l *limitSeen) inWindow(now int64) (total int64, counted []int64) {
	for slot, n := range l.slots {
		if slot >= floorDiv(now-l.span, l.slot) {
			total += n
			counted = append(counted, slot)
		}
	}
	slices.Sort(counted)
	return total, counted
}

// forgetOld drops the slots that have left a window when a script reads it: they do not count again
// when the clock is moved.
func (l *limitSeen) forgetOld(now int64) {
	maps.DeleteFunc(l.slots, func(slot, _ int64) bool { return slot < floorDiv(now-l.span, l.slot) })
}

// windowOpens is the time until so many units fit into a window, or until it is
// empty.
func (a *admission) windowOpens(l *limitSeen, units int64) int64 {
	l.forgetOld(a.now)
	var least int64
	if a.since > 0 {
		// What started before the memory began has left by then.
		least = max(0, a.since+horizon.Microseconds()+l.span+l.slot-a.now)
	}
	total, counted := l.inWindow(a.now)
	excess := total + min(units, l.most) - l.most
	if excess <= 0 {
		return least
	}
	for _, slot := range counted {
		if excess -= l.slots[slot]; excess <= 0 {
			return max(least, (slot+1)*l.slot+l.span-a.now)
		}
	}
	return -1 // a window's units are those of its slots
}

// quota is the day that counts. What Redis does not remember, or was not told,
// is unknown when the day is older than its memory.
func (a *admission) quota(l *limitSeen) (began, reset, used int64, known bool) {
	last, next, _ := resets(time.UnixMicro(a.now), l.zone)
	began, reset = last.UnixMicro(), next.UnixMicro()
	if l.reset > a.now {
		return began, reset, l.used, !l.closed
	}
	return began, reset, 0, a.since <= began
}

// countFree counts the free leases of a limit, and those that this worker may
// take: all while no other worker waits; its even share of the limit while others
// do, or an even part of what is free when it is its turn. Leases that ended are
// swept out when there is too little room.
func (a *admission) countFree(l *limitSeen) {
	if l.counted {
		return
	}
	l.counted = true
	most := l.allows()
	if int64(len(l.leases.ends))+max(1, a.wanted) >= most {
		maps.DeleteFunc(l.leases.ends, func(_ string, end int64) bool { return end <= a.now })
	}
	l.free = most - int64(len(l.leases.ends))
	l.mine = l.free
	if l.others == 0 {
		return
	}
	all := l.others + 1
	l.mine = max(0, most/all-l.held)
	if part := ceilDiv(l.free, all); (l.woken || l.first) && part > l.mine {
		l.mine, l.tookTurn = part, true
	}
	l.mine = min(l.free, l.mine)
}

// weigh sums the weights of the leases that have not ended.
func (a *admission) weigh(l *limitSeen) {
	if l.counted {
		return
	}
	l.counted = true
	maps.DeleteFunc(l.leases.ends, func(_ string, end int64) bool { return end <= a.now })
	for member := range l.leases.ends {
		l.weight += weightOf(member)
	}
}

// waitForRoom returns how long a call of so many units waits for batches to end; 0: not at all. Small calls do not pass
// one that has waited long, here or elsewhere.
func (a *admission) waitForRoom(l *limitSeen, g *groupSeen, units int64) int64 {
	switch {
	case l.weight+units > l.Max:
		return l.leases.firstEnds(a.now)
	case l.waits && l.aged && !g.aged || l.ahead > 0 && l.frontWaits(a.now) > longWait:
		return patience.Microseconds()
	}
	return 0
}

func ceilDiv(a, b int64) int64 { return -floorDiv(-a, b) }
