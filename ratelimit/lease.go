package ratelimit

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Lease is the right to have one call in flight under all its limits. It is renewed until it ends, is lost, or is past
// its call's LatestEnd. Its methods may be used by any number of goroutines.
//
// A call goes through it in this order: Check right before the request is written; the request itself, under Context;
// Settle, with what the call used; and on every exit path one of Release, End and GiveUp.
type Lease struct {
	limiter *Limiter
	id      string
	call    Scope
	rules   []*rule
	boundBy string

	reserved Used
	counts   time.Duration // how long it counts unless renewed; 0: the limiter's lease time

	start       instant       // when the call may start, on our clock
	startMicros int64         // the same in Unix µs on Redis's clock
	moved       time.Duration // how far Redis's clock had been set by then
	sendBy      instant       // the latest start that the rates allow for; zero: any
	latestEnd   instant       // zero: none
	measured    bool          // a limit has a measured margin, so delays are recorded

	// Guarded by Limiter.mu.
	until     instant // when it counts as ended unless renewed
	lost      error
	release   *release
	onLosing  []func(error)
	epoch     string // in which Redis last knew it
	more      Used   // used beyond the reservation, below 0 when it used less
	remaining []remaining
	answered  bool
	refused   *rule // the limit that was too high for the call
}

// Used holds the amounts that a call reserves, or has used, under limits of units: tokens, and nano-USD.
type Used struct{ Input, Output, Cost int64 }

func (u Used) minus(other Used) Used {
	return Used{u.Input - other.Input, u.Output - other.Output, u.Cost - other.Cost}
}

// ID returns the ID of the Request, by which Redis knows the lease: the random one if the Request had none.
func (e *Lease) ID() string { return e.id }

// Provider returns where the call is made: the provider of the Request, or the account that admitted it.
func (e *Lease) Provider() string { return e.call.Provider }

// BoundBy returns the ID of the limit, or of the cooldown, that the call waited for last; "" if it did not wait.
// WaitedFor puts a cooldown into words.
func (e *Lease) BoundBy() string { return e.boundBy }

// Memory returns the name of what Redis remembered, as Admin.Memory does, when it granted the lease or renewed it last.
// If another name is in force by now, Redis may have forgotten what it was told before.
func (e *Lease) Memory() string {
	e.limiter.mu.Lock()
	defer e.limiter.mu.Unlock()
	return e.epoch
}

// Now returns the current time on Redis's clock, without asking Redis: the call's granted start plus the time that has
// passed here since. Processes whose own clocks differ agree on it.
func (e *Lease) Now() time.Time {
	return time.UnixMicro(e.startMicros).Add(e.limiter.now().sub(e.start))
}

// Check returns nil if a request may be written now: call it right before writing. It returns ErrLost if the lease has
// ended, or if the call is later than the limits' jitter allows after its granted start. The caller then releases the
// lease and asks for the call again.
//
// Check reads this machine's clocks, not Redis's. Time for which the machine was suspended counts. So does time by
// which its wall clock was set forward, because a paused virtual machine shows nothing else; see watch.
func (e *Lease) Check() error {
	now := e.limiter.now()
	tooLate := !e.sendBy.isZero() && now.mayHaveReached(e.sendBy)
	e.limiter.mu.Lock()
	lost := e.ended(now)
	if lost == nil && now.mayHaveReached(e.until) {
		lost = fmt.Errorf("%w: the wall clock was set forward past its end: this machine may have been paused", ErrLost)
	}
	if lost == nil {
		e.limiter.note(e, now.sub(e.start), tooLate)
	}
	e.limiter.mu.Unlock()
	if lost != nil {
		return fmt.Errorf("check lease %s: %w", e.id, lost)
	}
	if tooLate {
		return fmt.Errorf("check lease %s: %w: %s after its start is too late to send", e.id, ErrLost, now.sub(e.start))
	}
	return nil
}

// ended returns why the lease has ended, or nil. The caller holds the Limiter's lock.
func (e *Lease) ended(now instant) error {
	switch {
	case e.lost != nil:
		return e.lost
	case e.release != nil:
		return fmt.Errorf("%w: released", ErrLost)
	case now.reached(e.until):
		return fmt.Errorf("%w: not renewed in time", ErrLost)
	}
	return nil
}

// Context returns a context for the call's requests, which must use it. It ends with parent; with the cause ErrLost when
// the lease is lost; and with context.DeadlineExceeded at the call's LatestEnd, because the lease counts no longer. Call
// the CancelFunc when the call has ended.
func (e *Lease) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	e.limiter.mu.Lock()
	lost := e.lost
	if lost == nil {
		e.onLosing = append(e.onLosing, cancel)
	}
	e.limiter.mu.Unlock()
	if lost != nil {
		cancel(lost)
	}

	if e.latestEnd.isZero() {
		return ctx, func() { cancel(context.Canceled) }
	}
	limited, stop := context.WithTimeout(ctx, e.latestEnd.sub(e.limiter.now()))
	return limited, func() {
		stop()
		cancel(context.Canceled)
	}
}

// Reserved returns what limits of units (tokens, nano-USD) reserve for the call until it is settled: the amounts of its
// Request.
func (e *Lease) Reserved() Used { return e.reserved }

// Restored reports whether the call is under a limit whose usage is restored from recorded calls when Redis loses it: a
// budget or a daily quota. Record such a call only after Release has returned, or a limit that is restored meanwhile may
// miss it or count it twice.
func (e *Lease) Restored() bool {
	return slices.ContainsFunc(e.rules, func(r *rule) bool { return r.way == byBudget || r.way == byQuota })
}

// Release ends the lease and returns once Redis has recorded that, or with an error if ctx ends first; the limiter then
// keeps trying. After another Release, End or GiveUp it only waits. Call it with a context that outlives the call's.
func (e *Lease) Release(ctx context.Context) error {
	return e.limiter.confirm(ctx, e.end(release{awaited: true}))
}

// End ends the lease as Release does, without waiting: Redis learns of it with the next script. The limiter keeps
// trying until Redis has recorded it or Run ends.
func (e *Lease) End() { e.end(release{}) }

// GiveUp ends the lease of a call that its caller gave up, or whose connection broke, while the provider may still
// count it. Like End, it does not wait. The lease lasts for keep longer, or for as long as its limits assume that a
// request travels (Limit.Jitter) if that is more, and then expires.
//
// cut means that the connection was cut before the answer arrived. The provider may not have noticed and may still be
// working on the call, so under Request.Hold the lease lasts at least until the call's LatestEnd.
func (e *Lease) GiveUp(keep time.Duration, cut bool) {
	for _, r := range e.rules {
		keep = max(keep, r.Jitter)
	}
	if cut && e.counts > 0 {
		keep = max(keep, e.latestEnd.sub(e.limiter.now()))
	}
	e.end(release{keep: keep})
}

// abandon releases a lease whose call never started. It returns the call's share of the rates unless another call was
// admitted after it. It does not block.
func (e *Lease) abandon() {
	e.end(release{unused: true})
}

// end posts the release of the lease to the pump. Further calls return the first release.
func (e *Lease) end(r release) *release {
	l := e.limiter
	l.mu.Lock()
	if e.release == nil {
		r.id, r.rules, r.written = e.id, e.rules, make(chan struct{})
		r.start, r.moved, r.reserved, r.more, r.remaining = e.startMicros, e.moved, e.reserved, e.more, e.remaining
		r.answered, r.refused, r.epoch = e.answered, e.refused, e.epoch
		e.release = &r
		l.untrack(e)
		l.mail.releases = append(l.mail.releases, e.release)
	}
	l.mu.Unlock()
	l.wakePump()
	return e.release
}

// release is the end of a lease, on its way to Redis.
type release struct {
	id             string
	rules          []*rule
	keep           time.Duration
	unused         bool          // its call never started
	awaited        bool          // its caller waits until Redis has it
	start          int64         // in Unix µs on Redis's clock
	moved          time.Duration // how far Redis's clock had been set by then
	written        chan struct{} // closed when Redis has it
	reserved, more Used          // more: used beyond the reservation, negative if less
	remaining      []remaining
	answered       bool  // by the provider
	refused        *rule // the limit that was too high for its call; nil: none
	// epoch is the one in which Redis last knew the lease. If another is in force, budgets may have forgotten the lease
	// and count it now. Empty: no budget needs that.
	epoch string
}

// counts reports whether anything may wait for a release: its caller, or a call that the limits may let start once the
// release is written.
func (l *Limiter) counts(r *release, now time.Time) bool {
	if r.awaited || r.unused || r.keep > 0 || r.refused != nil || len(r.remaining) > 0 {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(r.rules, func(rule *rule) bool {
		switch rule.way {
		case byLeases:
			return !l.roomy(rule, now)
		case byBudget, byWindow, byWeight:
			return true
		}
		return rule.Kind != Requests && r.more != Used{}
	})
}

// plain reports whether only the worker's ledger knows the lease, and the lease ends now.
func (r *release) plain() bool {
	return len(r.rules) == 0 && r.keep == 0 && len(r.remaining) == 0
}

// confirm waits until a release is written, and writes it itself if the pump has ended.
func (l *Limiter) confirm(ctx context.Context, r *release) error {
	select {
	case <-r.written:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("release lease %s: %w", r.id, context.Cause(ctx))
	case <-l.ended:
	}
	l.mu.Lock()
	l.clock.ended = true
	l.mu.Unlock()
	var b batch
	b.end([]*release{r})
	if _, err := l.admit(ctx, &b); err != nil {
		return fmt.Errorf("release lease %s: %w", r.id, err)
	}
	return nil
}

// track adds a granted lease to the limiter's bookkeeping. The caller holds the Limiter's lock.
func (l *Limiter) track(e *Lease) {
	l.leases[e.id] = e
	for _, rule := range e.rules {
		l.held[rule.id]++
	}
}

// untrack removes a lease from the limiter's bookkeeping. The caller holds the Limiter's lock.
func (l *Limiter) untrack(e *Lease) {
	if l.leases[e.id] != e {
		return
	}
	delete(l.leases, e.id)
	for _, rule := range e.rules {
		if l.held[rule.id]--; l.held[rule.id] == 0 {
			delete(l.held, rule.id)
		}
	}
}

// lose ends a lease that this worker no longer holds, for the reason why. The caller holds the Limiter's lock.
func (l *Limiter) lose(e *Lease, why error) {
	e.lost = why
	l.health.Lost++
	l.untrack(e)
	for _, cancel := range e.onLosing {
		cancel(why)
	}
	e.onLosing = nil
}

// loseAll ends every lease for the reason why. The caller holds the Limiter's lock.
func (l *Limiter) loseAll(why error) {
	for _, e := range l.leases {
		l.lose(e, fmt.Errorf("%w: %w", ErrLost, why))
	}
}
