package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A rate may be promised this far ahead: the call waits for its start with the
// lease in hand, which costs a slot that long and saves asking again.
const (
	horizon = 50 * time.Millisecond
	// lead is how long before a rate is expected to admit a call that the script is asked: it
	// covers the way to Redis and a late timer.
	lead = 25 * time.Millisecond
	// patience is how long a call waits for a lease to end before it asks again, in case the
	// waiter that was woken before it never came.
	patience = 500 * time.Millisecond
	// linger is how long a worker keeps its place in the wait queue of a limit after its last
	// waiting call was admitted: the next call is usually on its way and then needs no script
	// run of its own.
	linger = 50 * time.Millisecond
)

const (
	callsPerScript    = 32
	releasesPerScript = 256
)

// batch is the work of one script run: leases end, calls are admitted, and wait queues are
// left.
type batch struct {
	version  string // of the registry; "" when nothing is asked for
	rules    []batchRule
	releases []*release
	groups   []group
	indices  map[string]int // from 1, by limit ID
}

type batchRule struct {
	*rule
	held  int64 // leases of this worker beside those that the batch ends
	waits bool  // calls that the batch does not ask for wait for it
	aged  bool  // and have waited long
	stays bool  // keeps the place in the wait queue although no call may wait
	woken bool
}

type group struct {
	gate  *gate
	calls []*call
	aged  bool // the first of them has waited long
}

// ask adds calls of a gate.
func (b *batch) ask(g *gate, calls []*call) {
	b.groups = append(b.groups, group{gate: g, calls: calls, aged: g.aged(time.Now())})
	b.touch(g.rules...)
}

// end adds leases that end.
func (b *batch) end(releases []*release) {
	b.releases = releases
	for _, r := range releases {
		b.touch(r.rules...)
	}
}

// touch adds limits. The script leaves the line of one that no call waits for.
func (b *batch) touch(rules ...*rule) {
	if b.indices == nil {
		b.indices = map[string]int{}
	}
	for _, r := range rules {
		if b.indices[r.id] == 0 {
			b.rules = append(b.rules, batchRule{rule: r})
			b.indices[r.id] = len(b.rules)
		}
	}
}

// asksFor reports whether the batch asks for calls of a gate.
func (b *batch) asksFor(g *gate) bool {
	return slices.ContainsFunc(b.groups, func(asked group) bool { return asked.gate == g })
}

func (b *batch) empty() bool { return len(b.rules)+len(b.releases)+len(b.groups) == 0 }

// outcome is the answer to a batch.
type outcome struct {
	now    int64   // on Redis's clock, µs
	waits  []bool  // for each rule, whether this worker is in its wait queue
	inUse  []int64 // for each rule, the calls in flight under a bound on them; else 0
	groups []groupOutcome
}

type groupOutcome struct {
	grants      []grant
	wait, known time.Duration
	own         time.Duration // the part of known that others must not have; 0: unknown
	first       bool          // no other call was ahead of the one refused
	bound       *rule
}

type grant struct {
	// start is relative to the script's own now; below 0 for a lease granted earlier whose
	// answer was lost.
	start time.Duration
	bound *rule // the rate that set the start; nil: none
}

// errStale means that the registry has changed since its limits were read.
var errStale = errors.New("the registry has changed")

// admit is the admission script. After an error other than errStale it is
// unknown whether the batch was done; sending it again is safe.
func (l *Limiter) admit(ctx context.Context, b *batch) (outcome, error) {
	reply, err := integers(admitScript.Run(ctx, l.client, b.keys(l), b.args(l, time.Now())...).Slice())
	if err != nil {
		return outcome{}, fmt.Errorf("admit calls: %w", err)
	}
	if len(reply) == 1 && reply[0] == -1 {
		return outcome{}, errStale
	}
	if len(reply) == 1 && reply[0] == -2 {
		return outcome{}, errClock
	}
	o, ok := b.decode(reply)
	if !ok {
		return outcome{}, fmt.Errorf("admit calls: answer %v does not fit", reply)
	}
	return o, nil
}

func (b *batch) keys(l *Limiter) []string {
	keys := []string{l.keys.registry(), l.keys.alive(), l.keys.ledger(l.cfg.Worker), l.keys.cooldowns()}
	for _, r := range b.rules {
		keys = append(keys, r.state, r.waiters)
	}
	for _, r := range b.rules {
		switch {
		case r.way == byBudget:
			keys = append(keys, r.money)
		case r.Adaptive:
			keys = append(keys, r.cut)
		}
	}
	return keys
}

// args are the script's; now is the worker's own clock.
func (b *batch) args(l *Limiter, now time.Time) []any {
	l.mu.Lock()
	clock := l.clock
	l.mu.Unlock()
	earliest, latest := clock.expects(now, l.cfg.tolerance())
	args := []any{
		b.version, l.cfg.Worker, l.keys.wake(""), l.cfg.Lease.Microseconds(),
		horizon.Microseconds(), lead.Microseconds(), patience.Microseconds(),
		len(b.rules), 0, len(b.groups), 0, earliest, latest,
	}
	const limited, plain = 8, 10 // index of the numbers of ending leases
	for _, r := range b.rules {
		args = append(args, r.numbers(now)...)
		args = append(args, r.held, flag(r.waits)+flag(r.waits && r.aged), flag(r.woken), flag(r.stays))
	}
	before := len(args)
	of := func(rules []*rule) {
		args = append(args, len(rules))
		for _, rule := range rules {
			args = append(args, b.indices[rule.id])
		}
	}
	for _, r := range b.releases {
		if r.plain() {
			args = append(args, r.id)
		}
	}
	ended := len(args) - before
	args[plain], args[limited] = ended, len(b.releases)-ended
	for _, r := range b.releases {
		if r.plain() {
			continue
		}
		args = append(args, r.id, r.keep.Microseconds(), flag(r.unused), r.start+(clock.moved-r.moved).Microseconds(), b.went(r),
			r.reserved.Input, r.reserved.Output, r.reserved.Cost, r.more.Input, r.more.Output, r.more.Cost, r.epoch)
		of(r.rules)
		args = append(args, 2*len(r.remaining))
		for _, left := range r.remaining {
			args = append(args, b.indices[left.rule.id], left.units)
		}
	}
	for _, g := range b.groups {
		args = append(args, flag(g.aged))
		of(g.gate.rules)
		args = append(args, len(g.gate.cooldowns))
		for _, name := range g.gate.cooldowns {
			args = append(args, name)
		}
		args = append(args, len(g.calls))
		for _, c := range g.calls {
			if len(g.gate.rules) == 0 {
				args = append(args, c.ID)
				continue
			}
			args = append(args, c.ID, c.Input, c.Output, c.Cost, c.counts().Microseconds())
		}
	}
	return args
}

// went returns the script's arguments for a release's answered and refused.
func (b *batch) went(r *release) int {
	switch {
	case r.answered:
		return -1
	case r.refused != nil:
		return b.indices[r.refused.id]
	}
	return 0
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// decode reads the script's answer; ok is false when it is not one to b.
func (b *batch) decode(reply []int64) (o outcome, ok bool) {
	next := func() int64 {
		if len(reply) == 0 {
			ok = false
			return 0
		}
		n := reply[0]
		reply = reply[1:]
		return n
	}
	micros := func() time.Duration { return time.Duration(next()) * time.Microsecond }
	var asked *gate
	limit := func() *rule {
		switch i := next(); {
		case i == 0:
			return nil
		case i >= 1 && i <= int64(len(b.rules)):
			return b.rules[i-1].rule
		case i == -1:
			return forgotten
		case asked != nil && i < -1 && -i-2 < int64(len(asked.cooldowns)):
			return &rule{id: cooldownID(asked.cooldowns[-i-2]), way: byCooldown}
		default:
			ok = false
			return nil
		}
	}
	ok = true
	o.now = next()
	for range b.rules {
		o.waits = append(o.waits, next() == 1)
		o.inUse = append(o.inUse, next())
	}
	for _, g := range b.groups {
		asked = g.gate
		n := next()
		answer := groupOutcome{wait: micros(), known: micros(), own: micros(), first: next() == 1, bound: limit()}
		if n > int64(len(g.calls)) || (n < int64(len(g.calls))) != (answer.bound != nil) {
			return o, false
		}
		for range n {
			answer.grants = append(answer.grants, grant{start: micros(), bound: limit()})
		}
		o.groups = append(o.groups, answer)
	}
	return o, ok && len(reply) == 0
}
