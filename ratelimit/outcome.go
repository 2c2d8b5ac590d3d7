package ratelimit

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// send runs the script for a batch and tells callers their outcomes.
func (p *pump) send(ctx context.Context, b *batch) error {
	for _, g := range b.groups {
		for _, c := range g.calls {
			c.unclear = true
		}
	}

	sent := p.limiter.now()
	o, err := p.limiter.admit(ctx, b)
	if errors.Is(err, errStale) {
		p.reload, p.stale = true, true
		return nil
	}
	if errors.Is(err, ErrClock) {
		p.unexpected++
		if renewed := p.limiter.renew(ctx); renewed != nil || p.unexpected < mostUnexpected {
			return renewed
		}
	}
	if err != nil {
		p.forsake(b)
		return err
	}

	p.unexpected = 0
	now, told := time.Now(), exchange{sent: sent, answered: p.limiter.now(), redis: o.now}
	p.limiter.mu.Lock()
	told.moved = p.limiter.clock.moved
	p.limiter.mu.Unlock()
	p.countOthers(b, o, now)
	for _, r := range b.releases {
		close(r.written)
	}
	p.releases = p.releases[len(b.releases):]
	for i, r := range b.rules {
		delete(p.woken, r.id)
		delete(p.queued, r.id)
		if o.waits[i] {
			p.queued[r.id] = r.rule
		}
		p.stay(r.id, o.waits[i], now)
	}

	stood := make([]*rule, len(b.groups)) // what each queue waited for
	for i, g := range b.groups {
		stood[i] = g.queue.bound
		for _, c := range g.calls {
			c.unclear = false
		}
	}
	for i, g := range b.groups { // a call that is admitted leaves the other queues
		for k, granted := range o.groups[i].grants {
			if !granted.taken {
				p.grant(g.calls[k], granted, told)
			}
		}
	}
	for i, g := range b.groups {
		p.spread(ctx, g, o.groups[i], stood[i], told, now)
	}
	return nil
}

// forsake gives back what the calls of a batch, whose answer was lost, may have been granted at one of several accounts.
// Asked again, they could be granted at another one. A script that arrives even later leaves a lease that nobody has,
// which ends by itself.
func (p *pump) forsake(b *batch) {
	for _, g := range b.groups {
		for _, c := range g.calls {
			if c.elsewhere() {
				p.undo(c)
			}
		}
	}
}

// exchange is a run of the admission script.
type exchange struct {
	sent, answered instant
	redis          int64         // on Redis's clock, µs
	moved          time.Duration // how far Redis's clock had been set by then
}

// spread tells the calls of a queue that were not admitted what they wait for. stoodFor is what the queue waited for
// before; nil: nothing.
func (p *pump) spread(ctx context.Context, asked group, o groupOutcome, stoodFor *rule, told exchange, now time.Time) {
	g := asked.queue
	g.admittedUpTo(len(o.grants), len(asked.calls))
	if g.calls.Len() == 0 {
		if stoodFor != nil && p.queued[stoodFor.id] != nil {
			g.keep(stoodFor, now)
		}
		return
	}
	if o.bound == nil || stoodFor == nil || o.bound.id != stoodFor.id || len(o.grants) > 0 {
		g.forgive()
	}
	if o.bound == nil {
		return
	}
	if o.wait < 0 {
		p.exhaust(g, o.bound)
		return
	}
	g.refused(o, now)
	if o.bound == forgotten && p.toldEpoch != p.registry.epoch && !strings.HasPrefix(p.registry.epoch, clockEpoch) {
		p.toldEpoch = p.registry.epoch
		p.limiter.cfg.Log.Warn().Dur("wait", o.wait).Time("memory_begins", time.UnixMicro(p.registry.since)).
			Msg("redis has started or lost data: no call starts until the calls that it may have forgotten have ended or are known again")
	}

	if o.bound.way == byQuota {
		p.tellClosed(ctx, o.bound, told.redis)
	}
	if g.asking > 0 {
		p.seekConsent(g, o.first, now)
	}
	if o.known > 0 && g.limited > 0 {
		p.refuse(g, now)
	}
}

// grant gives a lease to its call.
func (p *pump) grant(c *call, granted grant, told exchange) {
	g := c.queue
	p.admissions++
	g.last = p.admissions
	e := &Lease{
		limiter: p.limiter, id: c.ID, call: c.Call, rules: g.rules,
		reserved: c.reserves(), counts: c.counts(), measured: measures(g.rules), epoch: p.registry.epoch,
		// Redis counted from some instant between sent and answered. We take the later one for the start, and the
		// earlier one for what ends.
		start: told.answered.add(granted.start), startMicros: told.redis + granted.start.Microseconds(), moved: told.moved,
		until: told.sent.add(granted.start + p.limiter.cfg.Lease - p.limiter.cfg.margin()),
	}
	if c.LatestEnd > 0 {
		e.latestEnd = e.start.add(c.LatestEnd)
	}
	if jitter := leastJitter(g.rules); jitter > 0 {
		e.sendBy = told.sent.add(granted.start + jitter)
	}
	switch {
	case granted.bound != nil:
		e.boundBy = granted.bound.id
	case g.refusedBy != nil && c.seq <= g.refusedUpTo:
		e.boundBy = g.refusedBy.id
	}
	for _, at := range c.calls {
		p.discard(at)
	}

	p.limiter.mu.Lock()
	holder := p.limiter.leases[c.ID]
	if holder == nil {
		p.limiter.track(e)
	}
	p.limiter.mu.Unlock()
	if holder != nil {
		p.limiter.decide(c.caller, answer{lease: holder}) // the same ID was asked for twice
	} else if !p.limiter.decide(c.caller, answer{lease: e}) {
		e.abandon()
	}
}

// refuse declines the calls of a queue that would wait longer than they may.
func (p *pump) refuse(g *queue, now time.Time) {
	stay := 0
	for _, c := range g.first(g.calls.Len()) {
		if wait := g.waitOf(stay, now); g.tooLong(c, wait) {
			p.decline(c, g.refusal(wait))
		}
		if c.queue != nil {
			stay++
		}
	}
}

// exhaust declines the calls of a queue because a budget, which all accounts share, leaves no room for them.
func (p *pump) exhaust(g *queue, budget *rule) {
	for _, c := range g.first(g.calls.Len()) {
		p.conclude(c.caller, &Refusal{Limit: budget.id, Exhausted: true})
	}
}

// tellClosed warns, once in an epoch, that a quota refused a call because it has not been
// seeded with today's usage, and not because it is used up.
func (p *pump) tellClosed(ctx context.Context, quota *rule, redisNow int64) {
	if p.toldClosed[quota.id] == p.registry.epoch {
		return
	}
	reset, err := p.limiter.client.HGet(ctx, quota.state, "reset").Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		return // try again at the next refusal
	}
	p.toldClosed[quota.id] = p.registry.epoch
	last, _, _ := resets(time.UnixMicro(redisNow), quota.zone)
	if reset <= redisNow && p.registry.since > last.UnixMicro() {
		p.limiter.cfg.Log.Warn().Str("limit", quota.id).
			Msg("redis does not know today's calls under a daily quota: no call starts until `evalfleet collect` or the " +
				"controller reports them from the results stores that have them, or the quota resets")
	}
}
