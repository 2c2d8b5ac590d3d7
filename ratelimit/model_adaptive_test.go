package ratelimit

// allows is how many leases a limit has, its cut considered.
func (l *limitSeen) allows() int64 {
	if l.Adaptive && l.cutTo > 0 {
		return min(l.Max, l.cutTo)
	}
	return l.Max
}

// usedAtFirst is how many leases a limit had before the script ended any.
func (a *admission) usedAtFirst(l *limitSeen) int64 {
	if l.beganWith < 0 {
		l.beganWith = l.ended + l.leases.flying(a.now)
	}
	return l.beganWith
}

// cut lowers a limit under which a call was refused: once an episode, and not
// when the call was alone, or the limit is closed.
func (a *admission) cut(l *limitSeen, r *release) {
	used := a.usedAtFirst(l)
	if l.Max == 0 || used < 2 || l.cutTo > 0 && r.start < l.cutAt {
		return
	}
	l.cutTo, l.cutAt, l.answered = max(1, 7*min(l.allows(), used)/10), a.now, 0
	l.cutEnds = a.now + hour
}

// grow raises a limit that is cut after a round of answers while it was full.
func (a *admission) grow(l *limitSeen, r *release) {
	if l.allows() == l.Max {
		return
	}
	l.cutEnds = a.now + hour
	if r.start < l.cutAt || a.usedAtFirst(l) < l.cutTo {
		return
	}
	if l.answered++; l.answered < l.cutTo {
		return
	}
	l.answered = 0
	if l.cutTo += max(1, l.Max/50); l.cutTo >= l.Max {
		l.uncut()
	}
}

func (a *account) uncut() { a.cutTo, a.cutAt, a.answered, a.cutEnds = 0, 0, 0, 0 }
