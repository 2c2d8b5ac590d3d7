package ratelimit

import (
	"slices"
	"time"
)

// others counts the leases of other workers under a limit, and says when Redis reported the number.
type others struct {
	leases int64
	told   time.Time
}

// InFlight returns how many calls are in flight, in all processes, under the narrowest concurrency limit of the lease's
// call: the evaluation's own limit if there is one, else the one with the lowest bound. The lease's own call counts
// until its release. The numbers of other processes are as of this one's last exchange with Redis; InFlight does not
// ask again. 0: the call has no such limit.
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

// roomFor is how long the usage that Redis reported for a limit is considered current.
const roomFor = time.Second

// roomy reports whether less than half of a concurrency limit is used, by what Redis reported lately: no call waits for
// the next lease to end. The caller holds Limiter.mu.
func (l *Limiter) roomy(r *rule, now time.Time) bool {
	known, ok := l.others[r.id]
	return ok && !r.Adaptive && now.Sub(known.told) < roomFor && 2*(known.leases+l.held[r.id]) < r.Max
}

// countOthers records how many calls of other workers are in flight, and how much of quotas and budgets is used. It
// runs before callers of this worker get their answers, because they may ask for these numbers at once.
func (p *pump) countOthers(b *batch, o outcome, now time.Time) {
	p.limiter.mu.Lock()
	defer p.limiter.mu.Unlock()
	for i, r := range b.rules {
		used := r.way == byQuota || r.way == byBudget
		if used && o.inUse[i] >= 0 && b.version != "" { // else it may be of another epoch
			p.limiter.cfg.Notes.note(r.rule, p.registry.epoch, o.inUse[i], o.now)
		}
		if r.way != byLeases {
			continue
		}
		own, same := p.limiter.held[r.id], func(of *rule) bool { return of.id == r.id }
		for k, g := range b.groups { // granted there, and not yet here
			if slices.ContainsFunc(g.queue.rules, same) {
				for _, granted := range o.groups[k].grants {
					if !granted.taken {
						own++
					}
				}
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
