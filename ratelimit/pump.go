package ratelimit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/internal/backoff"
)

// pump is the one goroutine of a Limiter that runs the admission script. It takes what others post, asks for all that
// is due with one script, and answers the callers.
type pump struct {
	limiter    *Limiter
	registry   *registry // nil before it was read
	reload     bool      // the registry has changed
	stale      bool      // a script has said so
	unexpected int       // scripts in a row that found another time than expected

	queues   map[string]*queue // by the word for their set
	queued   map[string]*rule  // the limits in whose wait queues this worker is, by ID
	woken    map[string]*rule  // the limits whose wait queue called this worker, by ID
	releases []*release
	// releaseBy is when pending releases are written, if no call is asked for earlier.
	releaseBy time.Time

	toldEpoch  string            // IDs already logged as making calls wait
	toldClosed map[string]string // by quota, the epoch for which it was checked whether the quota is closed
	calls      uint64            // number of calls so far, to number them
	admissions uint64
}

func newPump(l *Limiter) *pump {
	return &pump{
		limiter: l, queues: map[string]*queue{}, queued: map[string]*rule{}, woken: map[string]*rule{},
		toldClosed: map[string]string{},
	}
}

// idleRelease is how long a lease end that frees no waiting call may be deferred to share
// another script.
const idleRelease = 100 * time.Millisecond

// pauses are how long the pump waits before it asks a Redis that did not answer again.
var pauses = backoff.Waits{First: 50 * time.Millisecond, Longest: time.Second, Factor: 2}

// mostUnexpected is how many scripts in a row may find an unexpected time, although Redis's clock is read after each,
// before the pump waits as for a Redis that does not answer.
const mostUnexpected = 3

// run serves until the Limiter is told to stop, and then writes what is pending. If ctx ends, it drops everything.
func (p *pump) run(ctx context.Context) error {
	select {
	case <-p.limiter.beating:
	case <-p.limiter.stopping:
	case <-ctx.Done():
		return nil
	}

	failed := 0 // steps in a row
	for {
		select {
		case <-p.limiter.stopping:
			p.leave(ctx)
			return nil
		case <-ctx.Done():
			return nil
		default:
		}
		next, err := p.step(ctx)
		if err != nil {
			p.limiter.outage(ctx, err)
			next = time.Now().Add(pauses.After(failed))
			failed++
			p.rest(ctx, next, nil)
			continue
		}
		failed = 0
		p.rest(ctx, next, p.limiter.kick)
	}
}

// rest waits until a time, the zero time being never, a kick, or the end.
func (p *pump) rest(ctx context.Context, until time.Time, kick <-chan struct{}) {
	var due <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-due:
	case <-kick:
	case <-p.limiter.stopping:
	case <-ctx.Done():
	}
}

// step does all due work and returns when more is due; the zero time if nothing is scheduled.
func (p *pump) step(ctx context.Context) (time.Time, error) {
	for {
		p.collect()
		if p.registry == nil || p.reload {
			if err := p.load(ctx); err != nil {
				return time.Time{}, err
			}
		}
		b, next := p.plan(time.Now())
		if b == nil {
			return next, nil
		}
		if err := p.send(ctx, b); err != nil {
			return time.Time{}, err
		}
		p.limiter.answered()
	}
}

func (p *pump) collect() {
	p.limiter.mu.Lock()
	m := p.limiter.mail
	p.limiter.mail = mail{}
	p.limiter.mu.Unlock()

	now := time.Now()
	for _, r := range m.releases {
		by := now
		if !p.limiter.counts(r, now) {
			by = by.Add(idleRelease)
		}
		if len(p.releases) == 0 || by.Before(p.releaseBy) {
			p.releaseBy = by
		}
		p.releases = append(p.releases, r)
		p.hurry(r.rules)
	}
	for _, w := range m.wakes {
		p.rouse(w)
	}
	for _, c := range m.calls {
		p.calls++
		c.seq = p.calls
		p.place(c)
	}
	for _, c := range m.withdrawn {
		p.discard(c)
	}
}

// place puts a call into the wait queue of its limits. Until the registry is known, all calls
// share one.
func (p *pump) place(c *call) {
	c.refusal = nil
	if p.registry != nil && slices.ContainsFunc(c.Holders, func(holder string) bool { return p.registry.holders[holder] == nil }) {
		p.setAside(c)
		return
	}
	var rules []*rule
	var set string
	if p.registry != nil {
		rules, set = p.registry.match(c.Call)
	}
	if r := tooSmall(rules, c); r != nil {
		p.decline(c, &Refusal{Limit: r.id, TooLarge: true, Tokens: c.Input, Allows: r.Max})
		return
	}
	cooldowns := cooldownsOf(c.Call)
	set += strings.Join(cooldowns, " ")
	g := p.queues[set]
	if g == nil {
		g = newQueue(rules, cooldowns...)
		p.queues[set] = g
	}

	why := p.refuses(c, g)
	if why == nil || c.elsewhere() {
		g.add(c)
		g.gather()
	}
	if why != nil {
		p.decline(c, why)
	}
}

// refuses returns the refusal of a call that is about to wait in a queue; nil: it may wait.
func (p *pump) refuses(c *call, g *queue) *Refusal {
	now := time.Now()
	if wait := g.waitOf(g.calls.Len(), now); g.tooLong(c, wait) {
		return g.refusal(wait)
	}
	if g.bound == nil && g.calls.Len() == 0 {
		p.follow(g, now)
	}
	if g.bound != nil && !g.bound.Kind.tokens() && !p.consents(c, g, false, now) {
		return g.declined(now)
	}
	return nil
}

// decline records that an account refuses a call, and answers the caller once all of its accounts have refused it.
func (p *pump) decline(c *call, why *Refusal) {
	c.refusal = why
	for _, at := range c.calls {
		if at.refusal == nil {
			return
		}
		if why.yields(at.refusal) {
			why = at.refusal
		}
	}
	p.conclude(c.caller, why)
}

// conclude tells a caller that none of its calls is admitted.
func (p *pump) conclude(one *caller, why *Refusal) {
	for _, at := range one.calls {
		p.discard(at)
	}
	p.limiter.decide(one, answer{err: why})
}

// tooSmall returns a limit that would never have room for a call; nil: there is none. A rate or a window makes a debt for
// a call that is larger than itself, but a provider refuses such a batch.
func tooSmall(rules []*rule, c *call) *rule {
	for _, r := range rules {
		if r.way == byWeight && c.Input > r.Max {
			return r
		}
	}
	return nil
}

// readAgain is how often the registry is read while calls wait for the registration of a holder: the message that
// announces the registration may be lost.
const readAgain = time.Second

// setAside makes a call wait until its holders are registered.
func (p *pump) setAside(c *call) {
	g := p.queues[unregistered.id]
	if g == nil {
		g = newQueue(nil)
		p.queues[unregistered.id] = g
	}
	if g.bound == nil {
		g.bound, g.due = unregistered, time.Now().Add(readAgain)
	}
	g.add(c)
}

// discard takes a call that was withdrawn out of its queue.
func (p *pump) discard(c *call) {
	if c.queue == nil {
		return
	}
	p.undo(c)
	c.queue.remove(c)
}

// undo releases the lease that a call may hold without our knowledge.
func (p *pump) undo(c *call) {
	if c.unclear {
		c.unclear = false
		p.releases = append(p.releases, &release{
			id: c.ID, rules: c.queue.rules, unused: true,
			reserved: c.reserves(), written: make(chan struct{}),
		})
	}
}

// load reads the registry and sorts every waiting call into its wait queue again.
func (p *pump) load(ctx context.Context) error {
	before := p.limiter.cfg.Notes.before()
	registry, err := p.limiter.load(ctx)
	if err == nil && (registry.epoch == "" || deleted(before, registry)) {
		known := before != nil && before.epoch != ""
		if err = p.limiter.begin(ctx, registry, known); err == nil {
			registry, err = p.limiter.load(ctx)
		}
	}

	if err != nil {
		return err
	}

	if p.registry == nil {
		p.limiter.mu.Lock()
		p.limiter.epoch = registry.epoch // no lease is older
		p.limiter.mu.Unlock()
	}

	if before != nil && before.epoch != registry.epoch {
		// Redis has lost its memory: report the leases held here, and the use of quotas, before any
		// call is admitted again.
		if err := p.limiter.renew(ctx); err != nil {
			return err
		}
	}

	if p.registry != nil && p.registry.version == registry.version {
		if p.stale {
			return fmt.Errorf("read limits: version %s is not the newest", registry.version)
		}
		p.reload = false
		return nil
	}

	p.registry, p.reload, p.stale = registry, false, false
	p.limiter.cfg.Notes.keep(registry)
	var calls []*call
	for _, g := range p.queues {
		for _, c := range g.first(g.calls.Len()) {
			p.undo(c) // under the limits it was asked for
			c.queue.remove(c)
			calls = append(calls, c)
		}
	}

	p.queues = map[string]*queue{}
	slices.SortFunc(calls, func(a, b *call) int { return cmp.Compare(a.seq, b.seq) })
	for _, c := range calls {
		p.place(c)
	}
	return nil
}

// plan builds a batch of the work that is due. If none is, it returns nil and the time when the next work is due.
func (p *pump) plan(now time.Time) (*batch, time.Time) {
	var due, riding []*queue
	var next time.Time
	for _, g := range p.queues {
		if g.calls.Len() == 0 {
			if g.bound == nil {
				continue
			}
			if !g.lingers.After(now) {
				g.open()
			} else {
				next = sooner(next, g.lingers)
			}
			continue
		}
		if g.standsFor(unregistered.id) {
			if !g.due.After(now) {
				g.due, p.reload = now.Add(readAgain), true
				next = sooner(next, now)
			}
			next = sooner(next, g.due)
			continue
		}
		if !g.due.After(now) {
			due = append(due, g)
			continue
		}
		if g.bound == nil {
			riding = append(riding, g)
		}
		next = sooner(next, g.due)
	}

	if len(due) > 0 || len(p.releases) > 0 && !now.Before(p.releaseBy) {
		due = append(due, riding...)
	}
	b := &batch{}
	if len(due) > 0 || !now.Before(p.releaseBy) {
		b.end(p.releases[:min(len(p.releases), releasesPerScript)])
	} else if len(p.releases) > 0 {
		next = sooner(next, p.releaseBy)
	}

	// While releases are left over, no call with the ID of one may overtake it.
	if len(due) == 0 || len(b.releases) == len(p.releases) {
		p.ask(b, due, now)
		p.leaveQueues(b)
	}

	if b.empty() {
		return nil, next
	}
	p.describe(b, now)
	return b, time.Time{}
}

// sooner returns the earlier of two times; the zero time means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// ask adds the first calls of the due queues to the batch. The queue whose calls were admitted
// longest ago goes first, so that several queues share a limit evenly.
func (p *pump) ask(b *batch, due []*queue, now time.Time) {
	slices.SortFunc(due, func(x, y *queue) int { return cmp.Compare(x.last, y.last) })
	due = due[:min(len(due), callsPerScript)]
	for _, g := range due {
		g.asked = now
		b.ask(g, g.first(min(g.ask, max(1, callsPerScript/len(due)))))
	}
	if len(due) > 0 {
		b.version = p.registry.version
	}
}

// describe fills in what the script needs to know about each limit.
func (p *pump) describe(b *batch, now time.Time) {
	p.limiter.mu.Lock()
	defer p.limiter.mu.Unlock()
	for i := range b.rules {
		r := &b.rules[i]
		// Leases and wait queues may be older than the limit in force.
		if p.registry != nil && p.registry.byID[r.id] != nil {
			r.rule = p.registry.byID[r.id]
		}
		r.held = p.limiter.held[r.id]
		r.woken = p.woken[r.id] != nil
		// Calls that b does not ask for continue to wait, whatever the script answers.
		r.waits = p.anyBefore(r.id, func(g *queue) bool { return g.calls.Len() > 0 && !b.asksFor(g) })
		r.aged = r.waits && p.anyBefore(r.id, func(g *queue) bool { return g.aged(now) })
		// The place is kept even if no waiting call may be left.
		r.stays = r.way == byLeases && p.anyBefore(r.id, func(g *queue) bool { return g.calls.Len() == 0 || b.asksFor(g) })
	}
}

// leave writes the last releases and leaves all wait queues. If Redis does not answer, the worker's leases and places
// expire one lease time later.
func (p *pump) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, p.limiter.cfg.Lease/2)
	defer cancel()
	p.collect()
	p.releaseBy = time.Time{}
	for _, g := range p.queues {
		for _, c := range g.first(g.calls.Len()) {
			p.discard(c)
		}
	}
	for {
		b, _ := p.plan(time.Now())
		if b == nil {
			return
		}
		if err := p.send(ctx, b); err != nil {
			p.limiter.outage(ctx, err)
			return
		}
		p.collect()
	}
}
