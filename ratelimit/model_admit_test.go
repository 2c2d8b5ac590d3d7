package ratelimit

import (
	"fmt"
	"maps"
	"math"
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
}

// limitSeen is a limit as one admission sees it.
type limitSeen struct {
	batchRule
	*account
	others int64 // workers in its line beside this one
	ahead  int64 // of them, those before this one
	stands bool  // this worker is in the line
	first  bool  // and stands first

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
	a := &admission{model: m, worker: worker, byID: map[string]*limitSeen{}}
	for _, r := range b.rules {
		l := &limitSeen{batchRule: r, account: m.account(r.id)}
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
	longest := 0
	for _, g := range b.groups {
		seen := &groupSeen{group: g}
		for _, rule := range g.gate.rules {
			seen.limits = append(seen.limits, a.byID[rule.id])
		}
		a.groups = append(a.groups, seen)
		a.wanted += int64(len(g.calls))
		longest = max(longest, len(g.calls))
	}
	for n := range longest {
		for _, g := range a.groups {
			if !g.waiting && n < len(g.calls) {
				a.ask(g, g.calls[n])
			}
		}
	}
	o.now = m.now
	for _, l := range a.limits {
		o.waits = append(o.waits, a.tellOthers(l))
	}
	for _, g := range a.groups {
		o.groups = append(o.groups, g.groupOutcome)
	}
	return o, true
}

// join looks where the worker stands. Dead workers leave when they come to the
// front.
func (a *admission) join(l *limitSeen) {
	for len(l.line) > 0 && l.line[0].worker != a.worker && !a.lives(l.line[0].worker) {
		l.line = l.line[1:]
	}
	place := l.place(a.worker)
	l.stands, l.first = place >= 0, place == 0
	l.others = int64(len(l.line))
	l.ahead = l.others
	if l.stands {
		l.others--
		l.ahead = int64(place)
	}
}

// end ends a lease, or cuts it short, and settles what its call used.
func (a *admission) end(r *release, limits []*limitSeen) {
	ledger := a.heldBy(a.worker)
	_, held := ledger.ends[r.id]
	keep := r.keep.Microseconds()
	if keep > 0 {
		held = false // it is settled when it ends; this one never is
		ledger.cut(r.id, a.now+keep)
	} else {
		delete(ledger.ends, r.id)
	}
	for _, l := range limits {
		settles := held
		if l.leased() {
			settles = false
			if keep > 0 {
				l.leases.cut(r.id, a.now+keep)
				if l.shortens == 0 || keep < l.shortens {
					l.shortens = keep
				}
			} else if _, has := l.leases.ends[r.id]; has {
				delete(l.leases.ends, r.id)
				l.ended++
				settles = l.way == byBudget
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
		l.count(r.start, more)
		l.opened = l.opened || more < 0
	case l.way == byBudget:
		if l.spending {
			l.spend(a.now, max(-l.spent, more))
		}
	default:
		began, reset, known := a.quota(l)
		if known && r.start >= began {
			l.used, l.reset = max(0, l.used+more), reset
		}
	}
}

// settleRate moves the arrival time. A start that never came is given back only
// when nobody was admitted behind it: its arrival time is then still the one
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

// units is what a call costs under a limit.
func (r *rule) units(u Used) int64 {
	switch r.Kind {
	case InputTokens:
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
		return
	}

	// The time of the start, by all limits of units; it may be a little ahead.
	var start, wait float64
	var startBy, waitBy *limitSeen
	for _, l := range g.limits {
		if l.leased() {
			continue
		}
		own, turn := a.startUnder(l, g, l.units(c.reserves()))
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
		return
	}

	for _, l := range g.limits {
		if l.way == byLeases {
			a.countFree(l)
		}
	}
	for _, l := range g.limits {
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

// firstEnds is the time until the first lease may end, no more than patience.
func (l *leases) firstEnds(now int64) int64 {
	first := patience.Microseconds()
	for _, end := range l.ends {
		first = min(first, max(1, end-now))
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
	maps.DeleteFunc(l.leases.ends, func(_ string, end int64) bool { return end <= a.now })
	if len(l.leases.ends) == 0 {
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
			l.leases.put(c.ID, counts)
			l.leases.last(a.now, max(a.lease+horizon.Microseconds(), counts-a.now))
		}
		switch l.way {
		case byBudget:
			l.spend(a.now, units)
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
			_, l.reset, _ = a.quota(l)
			l.used += units
		}
	}
	a.heldBy(a.worker).put(c.ID, end)
	a.heldBy(a.worker).last(a.now, a.lease+horizon.Microseconds())
	a.afterCooldown(g, start)
	granted := grant{start: micros(start)}
	if startBy != nil {
		granted.bound = startBy.rule
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
	for _, n := range g.gate.cooldowns {
		if w := a.cooldowns[n].ends - a.now; w > wait {
			name, wait = n, w
		}
	}
	return name, wait
}

// afterCooldown: the first call that starts after a cooldown is alone, the
// second ends it.
func (a *admission) afterCooldown(g *groupSeen, start int64) {
	for _, name := range g.gate.cooldowns {
		c, was := a.cooldowns[name]
		switch {
		case !was:
		case c.probe:
			delete(a.cooldowns, name)
		default:
			a.cooldowns[name] = cooldown{ends: a.now + start + aloneFor, probe: true, step: c.step}
		}
	}
}

// startUnder is when a limit of units lets a call start, in µs from now, and
// when it is worth asking, after those who stand before.
func (a *admission) startUnder(l *limitSeen, g *groupSeen, units int64) (own, turn float64) {
	switch l.way {
	case byRate:
		a.look(l)
		each := max(1, float64(units)*l.interval)
		// While others wait a worker takes its part of what a horizon holds.
		l.share = max(1, int64(math.Floor(float64(horizon.Microseconds())/each/float64(l.others+1))))
		own := float64(l.freeAt(a.now, units) - a.now)
		return own, own + float64(l.ahead)*float64(l.share)*each
	case byWindow:
		own := a.windowOpens(l, units)
		// Small calls do not pass one that has waited long, here or elsewhere.
		yields := l.waits && l.aged && !g.aged || l.ahead > 0 && l.frontWaits(a.now) > longWait
		if own <= horizon.Microseconds() && yields {
			own = patience.Microseconds()
		}
		return float64(own), float64(own)
	default:
		_, reset, known := a.quota(l)
		if !known || l.used > 0 && l.used+units > l.Max {
			return float64(reset - a.now), float64(reset - a.now)
		}
		return 0, 0
	}
}

// look reads a rate for the first time. After a loss of memory it is used up.
// When it lay idle although somebody stood before this worker, he has lost his
// turn.
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

// windowOpens is the time until so many units fit into a window, or until it is
// empty.
func (a *admission) windowOpens(l *limitSeen, units int64) int64 {
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
func (a *admission) quota(l *limitSeen) (began, reset int64, known bool) {
	last, next, _ := resets(time.UnixMicro(a.now), l.zone)
	began, reset = last.UnixMicro(), next.UnixMicro()
	if l.reset > a.now {
		return began, reset, true
	}
	l.used = 0
	clear(l.told)
	return began, reset, a.since <= began
}

// countFree counts the free leases of a limit, and those that this worker may
// take: all while nobody else waits; its even share of the limit while others
// do, or an even part of what is free when it is its turn. Leases that ended are
// swept out when there is too little room.
func (a *admission) countFree(l *limitSeen) {
	if l.counted {
		return
	}
	l.counted = true
	if int64(len(l.leases.ends))+max(1, a.wanted) >= l.Max {
		maps.DeleteFunc(l.leases.ends, func(_ string, end int64) bool { return end <= a.now })
	}
	l.free = l.Max - int64(len(l.leases.ends))
	l.mine = l.free
	if l.others == 0 {
		return
	}
	all := l.others + 1
	l.mine = max(0, l.Max/all-l.held)
	if part := ceilDiv(l.free, all); (l.woken || l.first) && part > l.mine {
		l.mine, l.tookTurn = part, true
	}
	l.mine = min(l.free, l.mine)
}

func ceilDiv(a, b int64) int64 { return -floorDiv(-a, b) }

// mayKeep: a slot that this admission gave up may be taken again, though others
// wait for it, while whoever were called would find another limit full.
func (a *admission) mayKeep(l *limitSeen, g *groupSeen) bool {
	if l.ended <= 0 || l.free <= 0 || l.frontWaits(a.now) > longWait {
		return false
	}
	return slices.ContainsFunc(g.limits, func(other *limitSeen) bool {
		return other != l && other.way == byLeases && other.others > 0
	})
}

// tellOthers settles who stands in a limit's line, and calls the next.
func (a *admission) tellOthers(l *limitSeen) (waits bool) {
	if l.way == byRate && l.changed {
		l.account.arrival = l.arrival
		l.idle = a.now + ceilDiv(max(0, l.arrival-a.now), second)*second + hour
	}
	full := l.counted && l.free == 0
	waits = l.refused || l.waits || l.stays && l.stands && (l.others > 0 || full)
	switch {
	case waits && !l.stands:
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
	left := l.stands && !waits
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

// call tells the first other worker in a line that its turn comes in so many
// µs. Those who are dead or do not listen leave. Who stands first for a rate
// calls nobody: it is its own turn.
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
			// Whoever comes may take the slot: the next one calls the next waiter.
			if l.way == byLeases && in == 0 {
				l.goLast(next, a.now)
			}
			return
		}
		l.leave(next)
	}
}
