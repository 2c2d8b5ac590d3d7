package ratelimit

import (
	"slices"
	"time"
)

// others are the leases of other workers under a limit, and when Redis told how many.
type others struct {
	leases int64
	told   time.Time
}

// InFlight is how many calls are in flight, in all processes, under the narrowest
// bound on them that the lease's call keeps: its evaluation's, else the lowest; this
// one counts until its release. What others have in flight is as of this worker's
// last exchange with Redis. 0: there is no such bound.
func (e *Lease) InFlight() int64 {
	var narrowest *rule
	for _, r := range e.rules {
		if r.way != byLeases {
			continue
		}
		if narrowest == nil || r.Evaluation != "" || narrowest.Evaluation == "" && r.Max < narrowest.Max {
			narrowest = r
		}
	}
	if narrowest == nil {
		return 0
	}
	l := e.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.others[narrowest.id].leases + l.held[narrowest.id]
}

// roomFor is how long what Redis told of a limit is taken to hold.
const roomFor = time.Second

// roomy reports whether less than half of a limit on calls in flight is used, by what Redis told
// lately: no call waits for the next lease to end. The caller holds Limiter.mu.
func (l *Limiter) roomy(r *rule, now time.Time) bool {
	known, ok := l.others[r.id]
	return ok && !r.Adaptive && now.Sub(known.told) < roomFor && 2*(known.leases+l.held[r.id]) < r.Max
}

// countOthers notes how many calls of other workers are in flight, and how much of quotas and budgets is used,
// before callers of this one learn what became of their calls: they may ask at once.
func (p *pump) countOthers(b *batch, o outcome, now time.Time) {
	p.limiter.mu.Lock()
	defer p.limiter.mu.Unlock()
	for i, r := range b.rules {
		if (r.way == byQuota || r.way == byBudget) && b.version != "" { // else it may be of another epoch
			p.limiter.cfg.Memory.note(r.rule, p.registry.epoch, o.inUse[i], o.now)
		}
		if r.way != byLeases {
			continue
		}
		own, same := p.limiter.held[r.id], func(of *rule) bool { return of.id == r.id }
		for k, g := range b.groups { // granted there, and not yet here
			if slices.ContainsFunc(g.queue.rules, same) {
				own += int64(min(len(o.groups[k].grants), len(g.calls)))
			}
		}
		for _, pending := range [][]*release{p.releases[len(b.releases):], p.limiter.mail.releases} { // ended here, and not yet there
			for _, ended := range pending {
				if slices.ContainsFunc(ended.rules, same) {
					own++
				}
			}
		}
		p.limiter.others[r.id] = others{max(0, o.inUse[i]-own), now}
	}
}
