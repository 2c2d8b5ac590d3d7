package ratelimit

import (
	"container/list"
	"time"
)

// queue holds the calls of this process that wait under one set of limits. The pump owns it.
type queue struct {
	rules     []*rule
	cooldowns []string  // names of those that hold its calls back
	calls     list.List // of *call, in the order they asked

	due     time.Time // when to ask for the first of them
	asked   time.Time // when a script asked for it last
	lingers time.Time // while no call waits: until when it waits for bound
	bound   *rule     // the limit that refused it last; nil: none since it was admitted
	start   time.Time // when it could start, when bound is a rate
	alone   time.Time // when it could start if no call were ahead of it; unknown unless after now
	ask     int       // how many calls the next script asks for
	last    uint64    // when a call was admitted last, counted in admissions
	limited int       // calls that do not accept every wait
	asking  int       // calls that have a Consent

	refusedBy   *rule  // the limit that refused last
	refusedUpTo uint64 // the newest call that had to wait for it
}

// firstAsk is how many calls a queue asks for at first; the number doubles when
// all are admitted and shrinks when one is not.
const firstAsk = 4

func newQueue(rules []*rule, cooldowns ...string) *queue {
	return &queue{rules: rules, cooldowns: cooldowns, ask: firstAsk}
}

// add puts a call at the end of the queue.
func (g *queue) add(c *call) {
	c.queue, c.element = g, g.calls.PushBack(c)
	if c.MaxWait > 0 || c.MaxCooldown > 0 {
		g.limited++
	}
	if c.Consent != nil {
		g.asking++
	}
	if g.bound != nil {
		g.refusedBy, g.refusedUpTo = g.bound, c.seq
	}
}

// Calls without a limit have no wait queue, so they may wait briefly to share a script with
// others: the minimum time between two scripts that ask for them, and how many calls are enough
// to run one earlier.
const (
	gatherFor    = 5 * time.Millisecond
	gatherEnough = 8
)

// gather makes calls that no limit holds back wait briefly for others, unless there are enough.
func (g *queue) gather() {
	if len(g.rules) > 0 || g.bound != nil {
		return
	}
	g.due = time.Time{}
	if g.calls.Len() < gatherEnough {
		g.due = g.asked.Add(gatherFor)
	}
}

func (g *queue) remove(c *call) {
	g.calls.Remove(c.element)
	c.queue, c.element = nil, nil
	if c.MaxWait > 0 || c.MaxCooldown > 0 {
		g.limited--
	}
	if c.Consent != nil {
		g.asking--
	}
	if g.calls.Len() == 0 {
		g.open()
	}
}

// open records that the queue waits for no limit.
func (g *queue) open() {
	g.bound, g.due, g.alone = nil, time.Time{}, time.Time{}
}

// standsFor reports whether the queue is in a limit's wait queue.
func (g *queue) standsFor(id string) bool { return g.bound != nil && g.bound.id == id }

// keep records that the queue, though empty, keeps its place at a limit: a call that arrives before it leaves waits for
// that limit.
func (g *queue) keep(bound *rule, now time.Time) {
	g.bound, g.due, g.lingers = bound, now.Add(patience), now.Add(linger)
}

// first returns the next n calls, or all if there are fewer.
func (g *queue) first(n int) []*call {
	var calls []*call
	for e := g.calls.Front(); e != nil && len(calls) < n; e = e.Next() {
		calls = append(calls, e.Value.(*call))
	}
	return calls
}

// admittedUpTo records that a script admitted n of the asked calls.
func (g *queue) admittedUpTo(n, asked int) {
	if n == asked {
		g.open()
		g.ask = min(2*g.ask, callsPerScript)
	} else {
		g.ask = max(firstAsk, n+1, 3*g.ask/4)
	}
}

// forgive notes that the account no longer refuses the queue's calls: they wait for something else.
func (g *queue) forgive() {
	for e := g.calls.Front(); e != nil; e = e.Next() {
		e.Value.(*call).refusal = nil
	}
}

// refused records which limit the queue waits for, and when to ask again.
func (g *queue) refused(o groupOutcome, now time.Time) {
	g.bound, g.due, g.start, g.alone = o.bound, now.Add(o.wait), now.Add(o.known), now.Add(o.own)
	g.refusedBy = o.bound
	g.refusedUpTo = g.calls.Back().Value.(*call).seq
}

// waitOf returns the known wait of the call that has n others of the queue ahead of it; 0: unknown.
func (g *queue) waitOf(n int, now time.Time) time.Duration {
	if g.bound == nil || g.bound.leased() {
		return 0
	}
	return g.start.Sub(now) + g.bound.wait(n)
}

// tooLong reports whether the wait for the queue's limit or cooldown is longer than the call accepts.
func (g *queue) tooLong(c *call, wait time.Duration) bool {
	longest := c.longest(g.bound != nil && g.bound.way == byCooldown)
	return longest > 0 && wait > longest
}

// refusal returns the answer to a call that would have to wait too long for the queue's limit or cooldown.
func (g *queue) refusal(wait time.Duration) *Refusal {
	return &Refusal{Wait: wait, Limit: g.bound.id, Cooldown: g.bound.way == byCooldown}
}

// agedAfter is how long a call waits before later calls may no longer pass it under limits of units: otherwise a large
// call might never fit.
const agedAfter = 5 * time.Second

// aged reports whether the first call of the queue has waited for agedAfter.
func (g *queue) aged(now time.Time) bool {
	first := g.calls.Front()
	return first != nil && now.Sub(first.Value.(*call).asked) > agedAfter
}
