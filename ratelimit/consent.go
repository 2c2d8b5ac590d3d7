package ratelimit

import "time"

// seekConsent refuses the calls of a queue that do not accept the wait that their own limits impose. If the limits
// impose the same wait on every call, the calls behind the first are asked too: none of them starts sooner.
func (p *pump) seekConsent(g *queue, first bool, now time.Time) {
	refusal := g.declined(now)
	calls := g.first(g.calls.Len())
	for i, c := range calls {
		if c.refusal != nil || i > 0 && g.bound.Kind.tokens() || p.consents(c, g, i == 0 && first, now) {
			continue
		}
		p.decline(c, refusal)
	}
	if calls[0].queue == nil {
		g.due = now // the new first caller has not yet been asked as first
	}
}

// declined returns the refusal of a call that does not consent to the wait that its own limits impose.
func (g *queue) declined(now time.Time) *Refusal {
	r := g.refusal(g.alone.Sub(now))
	r.Declined = true
	return r
}

// consents reports whether a call accepts the wait that its own limits impose. first: no other
// call is ahead of it.
func (p *pump) consents(c *call, g *queue, first bool, now time.Time) bool {
	own := g.alone.Sub(now)
	if c.Consent == nil || own <= horizon {
		return true
	}
	p.limiter.mu.Lock()
	defer p.limiter.mu.Unlock()
	return c.withdrawn || c.Consent(own, first)
}
