package ratelimit

import (
	"cmp"
	"container/list"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Request asks for one call.
type Request struct {
	// ID of the call and of its lease, never used for another call. If the worker that asks
	// already holds this lease, Acquire returns the same lease. Default: a random name.
	ID string
	// Call says what the call is, with all fields known.
	Call Scope
	// Accounts are accounts of the call's provider, such as openai/eu. The call is made at the one that admits it first, which
	// Lease.Provider names. It keeps the limits and cooldowns of that account, and the limits of the provider. While
	// several have room, they take turns. Empty: Call.Provider is where it is made.
	//
	// The lease's ID ends with the account. A MaxWait or a Consent refuses the call only once every account does.
	Accounts []string
	// Holders must be registered: while one is not, because its limits were lost or it
	// has ended, the call waits.
	Holders []string
	// MaxWait is the longest wait that the caller accepts: a call that is known not to be able to start within it is
	// refused at once. The waits of rates, windows, quotas and cooldowns are known; the wait for another call's lease
	// never is. 0: as long as it takes.
	MaxWait time.Duration
	// MaxCooldown replaces MaxWait for calls that wait for a cooldown. 0: MaxWait applies to cooldowns too.
	MaxCooldown time.Duration
	// Consent, if set, is asked before the call waits because of its own limits. own is how long a rate, a window, a
	// quota or a cooldown would delay it if no other call were waiting ahead of it; first reports that none is. own
	// excludes waits for other calls, in the wait queue or in flight, and the moments (up to 50 ms) by which a start is
	// granted ahead.
	//
	// Consent is asked again each time the limits are. If it returns false the call is refused, see Refusal.Declined.
	// It must not block, and is not called after Acquire has returned.
	Consent func(own time.Duration, first bool) bool
	// LatestEnd is how long after its start the call ends by its own deadline. A lease is not
	// renewed past it, so a lease that is never released still expires. 0: renewed until
	// released.
	LatestEnd time.Duration
	// Hold makes a call that is never released count under its concurrency limits until its LatestEnd rather than until
	// its lease expires. The provider may still be working on it although its process is frozen or cut off.
	//
	// A frozen process closes no connection, and other processes cannot tell it from a dead one. So a provider that
	// works for longer than LatestEnd exceeds the limits by these calls.
	Hold bool
	// Input and Output are the tokens that limits of tokens reserve for the
	// call: what the provider will charge for it, or an upper bound. EnqueuedTokens
	// count the Input of a batch.
	Input, Output int64
	// Cost is the most that the call may cost, in nano-USD, which budgets reserve
	// for it.
	Cost int64
}

// counts returns how long the call's lease counts without being renewed; 0: the limiter's lease time.
func (r Request) counts() time.Duration {
	if !r.Hold {
		return 0
	}
	return r.LatestEnd
}

func (r Request) reserves() Used { return Used{r.Input, r.Output, r.Cost} }

// longest returns the longest wait that the caller accepts, for a cooldown or for a limit; 0: any wait.
func (r Request) longest(cooldown bool) time.Duration {
	if cooldown && r.MaxCooldown > 0 {
		return r.MaxCooldown
	}
	return r.MaxWait
}

// Refusal is the error of a call that would have to wait longer than its
// MaxWait, that a budget leaves no room for, or that is larger than its limit. It is an answer, not a failure.
type Refusal struct {
	Wait     time.Duration // until the call could start, exactly
	Limit    string        // ID of the limit
	Cooldown bool          // Limit is the ID of a cooldown
	Declined bool          // the caller did not consent; Wait is then the call's own
	// Exhausted: the limit is a budget with too little left for the call, and no call in flight could free more. Only a
	// higher budget admits the call.
	Exhausted bool
	// TooLarge: the call is a batch of more input tokens than the limit, of EnqueuedTokens, allows at all. Only a smaller
	// batch, or a higher limit, is admitted.
	TooLarge       bool
	Tokens, Allows int64 // if TooLarge: the batch's, and the limit's
}

func (r *Refusal) Error() string {
	if r.Exhausted {
		return fmt.Sprintf("limit %s leaves no room for the call", r.Limit)
	}
	if r.TooLarge {
		return fmt.Sprintf("a batch of %s input tokens is larger than limit %s, which allows %s: make the batch smaller, or raise the limit",
			Amount(r.Tokens), r.Limit, Amount(r.Allows))
	}
	return fmt.Sprintf("limit %s admits the call in %s", r.Limit, r.Wait.Round(time.Millisecond))
}

// yields reports whether another refusal, at another account, takes the place of this one: it has a shorter wait, or may
// end at all.
func (r *Refusal) yields(to *Refusal) bool {
	if r == nil || r.TooLarge != to.TooLarge {
		return r == nil || r.TooLarge
	}
	return to.Wait < r.Wait
}

// call is a Request that waits, at one account if it has several. The pump owns it.
type call struct {
	Request
	*caller
	asked time.Time

	seq     uint64
	queue   *queue        // where it waits; nil once decided
	element *list.Element // its place there
	// unclear is set when a script asked for the call and its answer was lost: the call may hold a lease.
	unclear bool
	// refusal is why the account refuses the call; nil: it does not, as far as is known. The call waits there nevertheless,
	// because the account may admit it before another one does.
	refusal *Refusal
}

// caller waits in Acquire for the first of its calls that is admitted. The pump owns it, except for the fields that the
// Limiter's lock guards.
type caller struct {
	calls  []*call // one for each account
	answer chan answer

	// Guarded by Limiter.mu.
	withdrawn bool // the caller has given up
	answered  bool
}

// newCaller returns the caller of a Request, with a call for each of its accounts.
func newCaller(r Request, now time.Time) *caller {
	one := &caller{answer: make(chan answer, 1)}
	if len(r.Accounts) == 0 {
		one.calls = []*call{{Request: r, caller: one, asked: now}}
	}
	for _, account := range r.Accounts {
		at := r
		at.ID, at.Call.Provider = atAccount(r.ID, account), account
		one.calls = append(one.calls, &call{Request: at, caller: one, asked: now})
	}
	return one
}

// atAccount returns the ID of a call's lease at an account. Each account has one of its own: if the answer of a script was
// lost, only the ID says which of them has the lease.
func atAccount(id, account string) string {
	_, name, _ := strings.Cut(account, accountMark)
	return id + "@" + name
}

// elsewhere reports whether the call waits at other accounts, too.
func (c *call) elsewhere() bool { return c.caller != nil && len(c.calls) > 1 }

type answer struct {
	lease *Lease
	err   error
}

// Wait blocks until a call may start under every rate that matches it. Limits of calls in flight
// need Acquire, which tells when a call ends.
func (l *Limiter) Wait(ctx context.Context, call Scope) error {
	lease, err := l.Acquire(ctx, Request{Call: call})
	if err != nil {
		return err
	}
	lease.End()
	return nil
}

// Acquire waits until the call is admitted under every limit that matches it, at one of its accounts if it has several,
// and until the start it was granted for, and returns its lease. While Redis is
// away, and before Run runs, it waits. Calls under the same limits are admitted
// in the order in which they asked.
//
// Errors are a *Refusal, ErrFenced, ErrStopped, and the cause of ctx.
func (l *Limiter) Acquire(ctx context.Context, r Request) (*Lease, error) {
	r.ID = cmp.Or(r.ID, rand.Text())
	if r.Input < 0 || r.Output < 0 || r.Cost < 0 {
		return nil, fmt.Errorf("acquire lease: %d and %d tokens and %d nano-USD reserved, want 0 or more", r.Input, r.Output, r.Cost)
	}
	if l.holder != "" {
		r.Holders = append(slices.Clone(r.Holders), l.holder)
	}

	c := newCaller(r, time.Now())
	l.mu.Lock()
	for _, at := range c.calls {
		if lease := l.leases[at.ID]; lease != nil {
			l.mu.Unlock()
			return lease, nil
		}
	}
	l.mail.calls = append(l.mail.calls, c.calls...)
	l.waiting++
	l.mu.Unlock()
	l.wakePump()
	lease, err := l.await(ctx, c)
	l.mu.Lock()
	l.waiting--
	l.mu.Unlock()
	return lease, err
}

// await blocks until the pump has answered the call and the granted start has come.
func (l *Limiter) await(ctx context.Context, c *caller) (*Lease, error) {
	var a answer
	var err error
	select {
	case a = <-c.answer:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-l.fenced:
		err = ErrFenced
	case <-l.stopping:
		err = ErrStopped
	}

	if err != nil {
		l.withdraw(c)
		return nil, err
	}
	if a.err != nil {
		return nil, a.err
	}

	start := time.NewTimer(a.lease.start.sub(l.now()))
	defer start.Stop()
	select {
	case <-start.C:
		return a.lease, nil
	case <-ctx.Done():
		a.lease.abandon()
		return nil, context.Cause(ctx)
	case <-l.fenced:
		return nil, ErrFenced
	}
}

// withdraw gives up the calls of a caller that no longer waits.
func (l *Limiter) withdraw(c *caller) {
	l.mu.Lock()
	c.withdrawn = true
	answered := c.answered
	if !answered {
		l.mail.withdrawn = append(l.mail.withdrawn, c.calls...)
	}
	l.mu.Unlock()
	l.wakePump()
	if answered {
		if a := <-c.answer; a.lease != nil {
			a.lease.abandon()
		}
	}
}

// decide gives a caller its answer, and reports whether it was still waiting.
func (l *Limiter) decide(c *caller, a answer) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.withdrawn {
		return false
	}
	c.answered = true
	c.answer <- a
	return true
}
