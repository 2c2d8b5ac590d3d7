package ratelimit

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// admission is one run of the admission script.
type admission struct {
	*model
	worker string
	wanted int64 // calls asked for in all
	limits []*limitSeen
	byID   map[string]*limitSeen
	groups []*groupSeen
	served map[*caller]bool
}

// limitSeen is a limit as one admission sees it.
type limitSeen struct {
	batchRule
	*account
	others int64 // workers in its line beside this one
	ahead  int64 // of them, those before this one
	queued bool  // this worker is in the line
	first  bool  // and is first

	refused  bool // a call waits for it now
	tail     bool // this worker had its turn: behind the others
	changed  bool
	opened   bool  // units were given back
	shortens int64 // a lease was cut to end in so many µs; 0: none

	// Of leases.
	counted    bool // the next two are known
	free, mine int64
	tookTurn   bool  // more than its share, because it is its turn
	ended      int64 // slots given up and not taken again
	beganWith  int64 // leases when the script began, of a limit that adapts; -1: not counted

	// Of weights.
	weight int64 // of the leases that have not ended, once counted

	// Of a rate.
	looked  bool
	arrival int64 // written down when it changed
	taken   int64 // starts given to this worker
	share   int64 // starts a worker may have before it is the others' turn
}

type groupSeen struct {
	group
	limits []*limitSeen
	groupOutcome
	waiting bool // refused
}

// admit is the admission script; ok is false when the batch is stale.
func (m *model) admit(worker string, b *batch) (o outcome, ok bool) {
	if b.version != "" && b.version != m.versionString() {
		return outcome{}, false
	}
	a := &admission{model: m, worker: worker, byID: map[string]*limitSeen{}, served: map[*caller]bool{}}
	for _, r := range b.rules {
		l := &limitSeen{batchRule: r, account: m.account(r.id), beganWith: -1}
		a.join(l)
		a.limits, a.byID[r.id] = append(a.limits, l), l
	}
	for _, r := range b.releases {
		var limits []*limitSeen
		for _, rule := range r.rules {
			limits = append(limits, a.byID[rule.id])
		}
		a.end(r, limits)
	}
	for _, g := range b.groups {
		seen := &groupSeen{group: g}
		for _, rule := range g.queue.rules {
			seen.limits = append(seen.limits, a.byID[rule.id])
		}
		a.groups = append(a.groups, seen)
		a.wanted += int64(len(g.calls))
	}
	// Groups that only cooldowns hold back go first.
	for _, g := range a.groups {
		for g.unlimited() && a.askNext(g) {
		}
	}
	for more := true; more; {
		more = false
		for _, g := range a.groups {
			more = !g.unlimited() && a.askNext(g) || more
		}
	}
	o.now = m.now
	for _, l := range a.limits {
		o.waits = append(o.waits, a.tellOthers(l))
		inUse := int64(0)
		switch l.way {
		case byLeases:
			inUse = l.leases.flying(a.now)
		case byQuota:
			_, _, used, known := a.quota(l)
			if inUse = used; !known {
				inUse = -1
			}
		case byBudget:
			if inUse = l.spent; !l.toldSpent {
				inUse = -1
			}
		}
		o.inUse = append(o.inUse, inUse)
	}
	for _, g := range a.groups {
		o.groups = append(o.groups, g.groupOutcome)
	}
	return o, true
}

// askNext asks for a group's next call whose caller has none yet, and reports whether there is one.
func (a *admission) askNext(g *groupSeen) bool {
	for !g.waiting && len(g.grants) < len(g.calls) {
		c := g.calls[len(g.grants)]
		if !a.served[c.caller] {
			a.ask(g, c)
			a.served[c.caller] = c.elsewhere() && !g.waiting
			return true
		}
		g.grants = append(g.grants, grant{taken: true})
	}
	return false
}

// join finds the worker's place. Dead workers leave when they come to the front.
func (a *admission) join(l *limitSeen) {
	for len(l.line) > 0 && l.line[0].worker != a.worker && !a.lives(l.line[0].worker) {
		l.line = l.line[1:]
	}
	place := l.place(a.worker)
	l.queued, l.first = place >= 0, place == 0
	l.others = int64(len(l.line))
	l.ahead = l.others
	if l.queued {
		l.others--
		l.ahead = int64(place)
	}
}

// ask takes a call in under all its limits, or lets its group wait.
func (a *admission) ask(g *groupSeen, c *call) {
	ledger := a.heldBy(a.worker)
	if end := ledger.ends[c.ID]; end > a.now {
		g.grants = append(g.grants, grant{start: micros(end - a.lease - a.now)})
		return
	}
	if a.blind > a.now {
		g.refuse(forgotten, a.blind-a.now, a.blind-a.now)
		return
	}
	for _, l := range g.limits {
		if l.way == byBudget && !a.affords(l, g, c.Cost) {
			return
		}
	}
	if name, wait := a.cooling(g); wait > 0 {
		g.refuse(&rule{id: cooldownID(name), way: byCooldown}, wait, wait)
		g.own, g.first = micros(wait), true
		return
	}

	// The time of the start, by all limits of units; it may be a little ahead.
	var start, wait, alone float64
	var startBy, waitBy *limitSeen
	for _, l := range g.limits {
		if l.leased() {
			continue
		}
		own, turn, least := a.startUnder(l, g, l.units(c.reserves()))
		alone = max(alone, least)
		// A day's units are those of the day: nothing of it starts ahead.
		if (turn > float64(horizon.Microseconds()) || l.way == byQuota) && turn > wait {
			wait, waitBy = turn, l
		}
		if own > start {
			start, startBy = own, l
		}
	}
	if waitBy != nil {
		early := 0.0
		if waitBy.way == byRate {
			early = float64(lead.Microseconds())
		}
		waitBy.refused = true
		g.refuse(waitBy.rule, int64(wait-early), int64(wait))
		g.own, g.first = micros(int64(alone)), waitBy.ahead == 0
		return
	}

	for _, l := range g.limits {
		switch l.way {
		case byLeases:
			a.countFree(l)
		case byWeight:
			a.weigh(l)
		}
	}
	for _, l := range g.limits {
		if l.way == byWeight {
			if again := a.waitForRoom(l, g, l.units(c.reserves())); again > 0 {
				l.refused = true
				g.refuse(l.rule, again, 0)
				return
			}
		}
		if l.way != byLeases || l.mine > 0 || a.mayKeep(l, g) {
			continue
		}
		again := patience.Microseconds()
		if l.free <= 0 {
			again = l.leases.firstEnds(a.now)
		}
		l.refused = true
		g.refuse(l.rule, again, 0)
		return
	}
	a.take(g, c, int64(start), startBy)
}

// flying counts the leases that have not ended.
func (l *leases) flying(now int64) (n int64) {
	for _, end := range l.ends {
		if end > now {
			n++
		}
	}
	return n
}

// firstEnds is the time until the first lease may end, no more than patience.
func (l *leases) firstEnds(now int64) int64 {
	first := patience.Microseconds()
	for _, end := range l.ends {
		if end > now {
			first = min(first, end-now)
		}
	}
	return first
}

// affords says whether a budget has room for a cost. Calls in flight may cost less
// than they reserve, so that there is hope while there are any.
func (a *admission) affords(l *limitSeen, g *groupSeen, cost int64) bool {
	switch {
	case !l.toldSpent:
		l.refused = true
		g.refuse(l.rule, a.lease, 0)
		return false
	case cost == 0 || l.spent+cost <= l.Max:
		return true
	}
	maps.DeleteFunc(l.leases.ends, func(_ string, end int64) bool { return end >= noTime && end <= a.now })
	if l.leases.flying(a.now) == 0 {
		g.waiting, g.bound, g.wait = true, l.rule, micros(-1)
		return false
	}
	l.refused = true
	g.refuse(l.rule, l.leases.firstEnds(a.now), 0)
	return false
}

// spend counts money, or takes back what was counted.
func (a *account) spend(now, nano int64) {
	a.spending = true
	a.spent += nano
	a.moneyEnds = now + month
}

// take gives a call a lease and charges all its limits.
func (a *admission) take(g *groupSeen, c *call, start int64, startBy *limitSeen) {
	end := a.now + start + a.lease
	for _, l := range g.limits {
		units := l.units(c.reserves())
		if l.leased() {
			counts := end
			if c.counts() > 0 {
				counts = a.now + start + c.counts().Microseconds()
			}
			l.leases.put(c.ID+l.ending(c.reserves()), counts)
			l.leases.last(a.now, max(a.lease+horizon.Microseconds(), counts-a.now))
		}
		switch l.way {
		case byBudget:
			l.spend(a.now, units)
		case byWeight:
			l.weight += units
			if l.others > 0 {
				l.ahead, l.tail = l.others, true
			}
		case byLeases:
			l.free, l.mine, l.ended = l.free-1, l.mine-1, l.ended-1
			l.tail = l.tail || l.tookTurn
		case byRate:
			l.arrival = max(l.arrival, a.now+start) + l.micros(float64(units))
			l.changed = true
			l.taken++
			if l.others > 0 && l.taken >= l.share {
				l.ahead, l.tail = l.others, true
			}
		case byWindow:
			l.count(a.now+start, units)
			l.tail = l.others > 0
		default:
			_, reset, used, _ := a.quota(l)
			a.countQuota(l, used+units, reset)
		}
	}
	a.heldBy(a.worker).put(c.ID, end)
	a.heldBy(a.worker).last(a.now, a.lease+horizon.Microseconds())
	granted := grant{start: micros(start)}
	if startBy != nil {
		granted.bound = startBy.rule
	}
	if outage := a.afterCooldown(g, start); outage != "" {
		granted.bound = &rule{id: cooldownID(outage), way: byCooldown}
	}
	g.grants = append(g.grants, granted)
}

func (g *groupSeen) refuse(by *rule, wait, known int64) {
	g.waiting = true
	g.bound, g.wait, g.known = by, micros(wait), micros(known)
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// cooling is the cooldown of a group that ends last, and when.
func (a *admission) cooling(g *groupSeen) (name string, wait int64) {
	for _, n := range g.queue.cooldowns {
		c := a.cooldowns[n]
		w := c.ends - a.now
		if c.word == outWord || c.word == provingWord {
			w = min(w, soonFor)
		}
		if w > wait {
			name, wait = n, w
		}
	}
	return name, wait
}

// afterCooldown: the first call that starts after a cooldown is alone, the
// second ends it, unless it is an outage, whose name is returned.
func (a *admission) afterCooldown(g *groupSeen, start int64) (outage string) {
	for _, name := range g.queue.cooldowns {
		c, was := a.cooldowns[name]
		switch {
		case !was:
		case c.word == "probe", c.word == pacedWord && c.ends+againWithin <= a.now:
			delete(a.cooldowns, name)
		case c.word == pacedWord: // it is remembered for a while
		case c.word == outWord, c.word == provingWord:
			a.cooldowns[name] = cooldown{ends: a.now + start + proveFor, word: provingWord, step: c.step}
			outage = name
		default:
			a.cooldowns[name] = cooldown{ends: a.now + start + aloneFor, word: "probe", step: c.step}
		}
	}
	return outage
}

// mayKeep: a slot that this admission gave up may be taken again, though others wait for it, if
// the worker woken would find another limit full.
func (a *admission) mayKeep(l *limitSeen, g *groupSeen) bool {
	if l.ended <= 0 || l.free <= 0 || l.frontWaits(a.now) > longWait {
		return false
	}
	return slices.ContainsFunc(g.limits, func(other *limitSeen) bool {
		return other != l && other.way == byLeases && other.others > 0
	})
}

// tellOthers settles who is in a limit's wait queue, and wakes the next worker.
func (a *admission) tellOthers(l *limitSeen) (waits bool) {
	if l.way == byRate && l.changed {
		l.account.arrival = l.arrival
		l.idle = a.now + ceilDiv(max(0, l.arrival-a.now), second)*second + hour
	}
	full := l.way == byLeases && l.counted && l.free == 0
	waits = l.refused || l.waits || l.stays && l.queued && (l.others > 0 || full)
	switch {
	case waits && !l.queued:
		l.goLast(a.worker, a.now)
		l.lineEnds = a.now + hour
	case waits && l.tail:
		l.goLast(a.worker, a.now)
	case !waits:
		l.leave(a.worker)
	}
	if l.others == 0 {
		return waits
	}
	left := l.queued && !waits
	switch l.way {
	case byRate:
		if l.changed || left {
			a.look(l)
			a.call(l, max(0, l.freeAt(a.now, 1)-a.now-lead.Microseconds()))
		}
	case byWindow:
		if l.opened || left {
			a.call(l, 0)
		}
	case byBudget:
		if l.ended > 0 || left {
			a.call(l, 0)
		}
	case byWeight:
		if l.ended > 0 || l.tail || left {
			a.call(l, 0)
		} else if l.shortens > 0 {
			a.call(l, l.shortens)
		}
	case byLeases:
		a.countFree(l)
		if l.free > 0 {
			a.call(l, 0)
		} else if l.shortens > 0 {
			a.call(l, l.shortens)
		}
	}
	return waits
}

// call tells the first other worker in a wait queue that its turn comes in so many µs. Dead
// workers and those that do not listen leave. The first worker for a rate wakes none: it is its
// own turn.
func (a *admission) call(l *limitSeen, in int64) {
	for {
		i := 0
		if len(l.line) > 0 && l.line[0].worker == a.worker {
			if l.way == byRate {
				return
			}
			i = 1
		}
		if i >= len(l.line) {
			return
		}
		next := l.line[i].worker
		if a.lives(next) && a.send(next, fmt.Sprintf("%s %d", l.waiters, in)) {
			// Any worker may take the slot: the next one wakes the next waiter.
			if l.way == byLeases && in == 0 {
				l.goLast(next, a.now)
			}
			return
		}
		l.leave(next)
	}
}
