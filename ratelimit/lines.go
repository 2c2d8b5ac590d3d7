package ratelimit

import (
	"slices"
	"time"
)

// follow has a line that was empty wait for a full limit for which another line
// of this worker waits, without asking: its place is kept for every call.
func (p *pump) follow(g *gate, now time.Time) {
	for _, other := range p.gates {
		if other.bound != nil && other.bound.way == byLeases && other.due.After(now) &&
			p.lines[other.bound.id] != nil && holds(g.rules, other.bound.id) {
			g.bound, g.due = other.bound, other.due
			return
		}
	}
}

// hurry makes the calls due that wait for one of these limits, when the end of a
// lease may free it.
func (p *pump) hurry(rules []*rule) {
	for _, g := range p.gates {
		if g.bound != nil && (g.bound.leased() || g.bound.way == byWindow) && holds(rules, g.bound.id) {
			g.due = time.Time{}
		}
	}
}

func holds(rules []*rule, id string) bool {
	return slices.ContainsFunc(rules, func(r *rule) bool { return r.id == id })
}

// leaveLines adds the limits for which no call waits here any more: this worker
// leaves their lines, and the next is called in its place.
func (p *pump) leaveLines(b *batch) {
	for _, of := range []map[string]*rule{p.lines, p.woken} {
		for id, r := range of {
			if !p.anyBefore(id, anyone) {
				b.touch(r)
			}
		}
	}
}

// anyBefore reports whether any gate of this worker that waits for a limit, including empty
// ones, satisfies the condition.
func (p *pump) anyBefore(id string, such func(*gate) bool) bool {
	for _, g := range p.gates {
		if g.standsFor(id) && such(g) {
			return true
		}
	}
	return false
}

func anyone(*gate) bool { return true }

// stay notes for empty lines before a limit whether their place was kept: what
// fell free meanwhile went to others, or the next call need not wait.
func (p *pump) stay(id string, kept bool, now time.Time) {
	for _, g := range p.gates {
		switch {
		case g.calls.Len() > 0 || !g.standsFor(id):
		case kept:
			g.due = now.Add(patience)
		default:
			g.open()
		}
	}
}
