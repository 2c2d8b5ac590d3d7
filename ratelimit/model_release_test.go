package ratelimit

// end ends a lease, or cuts it short, and settles what its call used.
func (a *admission) end(r *release, limits []*limitSeen) {
	ledger := a.heldBy(a.worker)
	_, held := ledger.ends[r.id]
	forgotten := !held && !r.unused && r.epoch != "" && r.epoch != a.epoch
	keep := r.keep.Microseconds()
	if keep > 0 {
		held = false // it is settled when it ends; this one never is
		ledger.cut(r.id, a.now+keep)
	} else {
		delete(ledger.ends, r.id)
	}
	for _, l := range limits {
		settles := held
		if forgotten && l.way == byQuota {
			a.ranBefore(l.account, r.id)
		}
		if l.Adaptive && held {
			switch {
			case r.answered:
				a.grow(l, r)
			case r.refused != nil && r.refused.id == l.id:
				a.cut(l, r)
			}
		}
		if l.leased() {
			settles = false
			if l.way == byBudget && a.recounted(l, r) {
				continue
			}
			member := r.id + l.ending(r.reserved)
			if keep > 0 {
				l.leases.cut(member, a.now+keep)
				if l.shortens == 0 || keep < l.shortens {
					l.shortens = keep
				}
			} else if _, has := l.leases.ends[member]; has {
				delete(l.leases.ends, member)
				l.ended++
				settles = l.way == byBudget
				// Who tells it may know the call, too, and an end that crossed a renewal may come again.
				if settles && (!l.toldSpent || r.epoch != "" && r.epoch != a.epoch) {
					l.leases.put(r.id, 0)
					l.leases.last(a.now, a.lease)
				}
			}
		}
		if settles {
			a.settle(l, r)
		}
	}
	for _, left := range r.remaining {
		if held {
			a.tighten(a.byID[left.rule.id], left.units)
		}
	}
}

// recounted counts what a call cost whose lease a budget has forgotten.
func (a *admission) recounted(l *limitSeen, r *release) bool {
	if end, has := l.leases.ends[r.id]; has {
		return end < noTime
	}
	if r.epoch == "" || r.epoch == a.epoch {
		return false
	}
	switch {
	case l.spending && memoryOf(r.epoch) == memoryOf(a.epoch):
		// It was counted.
	case r.keep > 0:
		l.spend(a.now, r.reserved.Cost)
	case r.unused:
		l.spend(a.now, 0)
	default:
		l.spend(a.now, max(0, r.reserved.Cost+r.more.Cost))
	}
	l.leases.put(r.id, 0)
	l.leases.last(a.now, a.lease)
	return true
}

// tighten makes a limit give no more than what its provider says is left: of a
// rate, nothing that was saved up.
func (a *admission) tighten(l *limitSeen, left int64) {
	switch l.way {
	case byRate:
		a.look(l)
		if empty := a.now + l.micros(float64(l.burst)); l.arrival < empty {
			l.arrival, l.changed = empty, true
		}
	case byWindow:
		l.forgetOld(a.now)
		total, _ := l.inWindow(a.now)
		l.count(a.now, max(0, l.most-total-left))
	}
}

// cut lets a lease end earlier.
func (l *leases) cut(id string, end int64) {
	if old, has := l.ends[id]; has {
		l.ends[id] = min(old, end)
	}
}

// settle charges a limit of units for what the call used beyond what was
// reserved, or gives back the rest: all when it never started.
func (a *admission) settle(l *limitSeen, r *release) {
	reserved := l.units(r.reserved)
	var more int64
	if l.Kind.tokens() || l.Kind == Cost {
		more = l.units(r.more)
		if l.Charged || l.way == byRate {
			more = max(0, more)
		}
	}
	if l.way == byRate {
		a.settleRate(l, r, reserved, more)
		return
	}
	if r.unused {
		more = -reserved
	}
	switch {
	case more == 0:
	case l.way == byWindow:
		if r.start <= a.now+horizon.Microseconds() { // else it is of before the clock was set back
			l.count(r.start, more)
		}
		l.forgetOld(a.now)
		l.opened = l.opened || more < 0
	case l.way == byBudget:
		if l.spending {
			l.spend(a.now, max(-l.spent, more))
		}
	default:
		began, reset, used, known := a.quota(l)
		if known && r.start >= began {
			a.countQuota(l, max(0, used+more), reset)
		}
	}
}

// countQuota saves what a quota has come to.
func (a *admission) countQuota(l *limitSeen, used, reset int64) {
	if l.reset > a.now {
		a.enterEpoch(l.account)
	} else {
		l.epoch, l.whole, l.base, l.before, l.closed = a.epoch, true, 0, 0, false
		clear(l.told)
	}
	l.used, l.reset = used, reset
}

// settleRate moves the arrival time. A start that never came is given back only
// when no call was admitted after it: its arrival time is then still the one
// that the rate has.
func (a *admission) settleRate(l *limitSeen, r *release, reserved, more int64) {
	if r.unused && r.start > a.now {
		a.look(l)
		beyond := max(0, reserved-l.burst)
		if d := l.arrival - r.start - l.micros(float64(l.burst+beyond)); -2 < d && d < 2 {
			l.arrival -= l.micros(float64(reserved))
			l.changed = true
		}
		return
	}
	if more == 0 {
		return
	}
	a.look(l)
	l.arrival += l.micros(float64(more))
	l.changed = true
}
