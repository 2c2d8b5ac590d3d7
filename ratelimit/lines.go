package ratelimit

import (
	"slices"
	"time"
)

// follow lets a queue that was empty wait for a full concurrency limit, without asking, if another queue of this worker
// waits for that limit already: the worker's place in the wait queue serves all of its calls.
func (p *pump) follow(g *queue, now time.Time) {
	for _, other := range p.queues {
		if other.bound != nil && other.bound.way == byLeases && other.due.After(now) &&
			p.queued[other.bound.id] != nil && includes(g.rules, other.bound.id) {
			g.bound, g.due = other.bound, other.due
			return
		}
	}
}

// hurry makes the calls that wait for one of the limits due now, because the end of a lease may admit one of them.
func (p *pump) hurry(rules []*rule) {
	for _, g := range p.queues {
		if g.bound != nil && (g.bound.leased() || g.bound.way == byWindow) && includes(rules, g.bound.id) {
			g.due = time.Time{}
		}
	}
}

func includes(rules []*rule, id string) bool {
	return slices.ContainsFunc(rules, func(r *rule) bool { return r.id == id })
}

// leaveQueues adds to the batch the limits that no call waits for any more here. This worker leaves their wait queues,
// and the next worker is woken instead.
func (p *pump) leaveQueues(b *batch) {
	for _, of := range []map[string]*rule{p.queued, p.woken} {
		for id, r := range of {
			if !p.anyBefore(id, anyone) {
				b.touch(r)
			}
		}
	}
}

// anyBefore reports whether any queue of this worker that waits for a limit, including empty
// ones, satisfies the condition.
func (p *pump) anyBefore(id string, such func(*queue) bool) bool {
	for _, g := range p.queues {
		if g.standsFor(id) && such(g) {
			return true
		}
	}
	return false
}

func anyone(*queue) bool { return true }

// stay updates the empty queues at a limit according to whether the worker kept its place in the wait queue. If it did
// not, free leases went to others, or the next call need not wait.
func (p *pump) stay(id string, kept bool, now time.Time) {
	for _, g := range p.queues {
		switch {
		case g.calls.Len() > 0 || !g.standsFor(id):
		case kept:
			g.due = now.Add(patience)
		default:
			g.open()
		}
	}
}
