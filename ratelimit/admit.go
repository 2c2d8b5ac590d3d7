package ratelimit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A rate may be promised this far ahead: the call waits for its start with the
// lease in hand, which costs a slot that long and saves asking again.
const (
	horizon = 50 * time.Millisecond
	// lead is how long before a rate is expected to admit a call the script runs. It covers the network latency to
	// Redis and a late timer.
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
	stays bool  // keeps its place in the wait queue even if no call waits any more
	woken bool
}

type group struct {
	queue *queue
	calls []*call
	aged  bool // the first of them has waited long
}

// unlimited reports whether only cooldowns hold back the group's calls, and none of them may be admitted elsewhere.
func (g group) unlimited() bool {
	return len(g.queue.rules) == 0 && !slices.ContainsFunc(g.calls, (*call).elsewhere)
}

func (b *batch) ask(g *queue, calls []*call) {
	b.groups = append(b.groups, group{queue: g, calls: calls, aged: g.aged(time.Now())})
	b.touch(g.rules...)
}

// end adds leases that end.
func (b *batch) end(releases []*release) {
	b.releases = releases
	for _, r := range releases {
		b.touch(r.rules...)
	}
}

// touch adds limits. The worker leaves the wait queue of one that no call waits for.
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

// asksFor reports whether the batch asks for calls of a queue.
func (b *batch) asksFor(g *queue) bool {
	return slices.ContainsFunc(b.groups, func(asked group) bool { return asked.queue == g })
}

func (b *batch) empty() bool { return len(b.rules)+len(b.releases)+len(b.groups) == 0 }

// outcome is the answer to a batch.
type outcome struct {
	now    int64   // on Redis's clock, µs
	waits  []bool  // for each rule, whether this worker is in its wait queue
	inUse  []int64 // for each rule, the calls in flight, or the use of a quota or budget, -1 if it is closed; else 0
	groups []groupOutcome
}

type groupOutcome struct {
	grants      []grant
	wait, known time.Duration
	own         time.Duration // the call's wait if no other call were ahead of it; 0: unknown
	first       bool          // no other call was ahead of the one refused
	bound       *rule
}

type grant struct {
	// start is relative to the script's own now; below 0 for a lease granted earlier whose
	// answer was lost.
	start time.Duration
	// bound is the rate that set the start, or the cooldown of an outage whose end the call tries;
	// nil: none.
	bound *rule
	taken bool // the call was admitted at another of its accounts; the rest is not set
}

// errStale means that the registry has changed since the batch's limits were read.
var errStale = errors.New("the registry has changed")

// admit runs the admission script. After an error other than errStale, the script may or may not have run; sending the
// batch again is safe.
func (l *Limiter) admit(ctx context.Context, b *batch) (outcome, error) {
	reply, err := integers(admitScript.Run(ctx, l.client, b.keys(l), b.request(l, l.now()).encode()).Slice())
	if err != nil {
		return outcome{}, fmt.Errorf("admit calls: %w", err)
	}
	if len(reply) == 1 && reply[0] == -1 {
		return outcome{}, errStale
	}
	if len(reply) == 1 && reply[0] == -2 {
		return outcome{}, ErrClock
	}
	o, ok := b.decode(reply)
	if !ok {
		return outcome{}, fmt.Errorf("admit calls: unexpected reply %v", reply)
	}
	return o, nil
}

// keys returns the script's keys, in the order that the indices in request refer to.
func (b *batch) keys(l *Limiter) []string {
	keys := []string{l.keys.registry(), l.keys.alive(), l.keys.ledger(l.cfg.Worker), l.keys.cooldowns()}
	for _, r := range b.rules {
		keys = append(keys, r.state, r.waiters)
		if extra := r.extra(); extra != "" {
			keys = append(keys, extra)
		}
	}
	return keys
}

// The argument of the script, which lua/admit/request.lua describes.
type (
	admitRequest struct {
		Version  string       `json:"version,omitempty"`
		Worker   string       `json:"worker"`
		Channel  string       `json:"channel"`
		Earliest int64        `json:"earliest"`
		Latest   int64        `json:"latest"`
		Lease    int64        `json:"lease"`
		Horizon  int64        `json:"horizon"`
		Lead     int64        `json:"lead"`
		Patience int64        `json:"patience"`
		Limits   []admitLimit `json:"limits,omitempty"`
		Plain    []string     `json:"plain,omitempty"`
		Ends     []admitEnd   `json:"ends,omitempty"`
		Groups   []admitGroup `json:"groups,omitempty"`
	}
	admitLimit struct {
		Kind     way     `json:"kind"`
		State    int     `json:"state"`
		Waiters  int     `json:"waiters"`
		Extra    int     `json:"extra,omitempty"`
		Counts   string  `json:"counts,omitempty"`
		Charged  bool    `json:"charged,omitempty"`
		Max      int64   `json:"max"`
		Adapts   bool    `json:"adapts,omitempty"`
		Interval float64 `json:"interval,omitempty"`
		Burst    int64   `json:"burst,omitempty"`
		Span     int64   `json:"span,omitempty"`
		Slot     int64   `json:"slot,omitempty"`
		Resets   []int64 `json:"resets,omitempty"`
		Held     int64   `json:"held,omitempty"`
		Waits    bool    `json:"waits,omitempty"`
		Aged     bool    `json:"aged,omitempty"`
		Woken    bool    `json:"woken,omitempty"`
		Stays    bool    `json:"stays,omitempty"`
	}
	admitUsed struct {
		Input  int64 `json:"input,omitempty"`
		Output int64 `json:"output,omitempty"`
		Money  int64 `json:"money,omitempty"`
	}
	admitEnd struct {
		ID       string `json:"id"`
		Limits   []int  `json:"limits,omitempty"`
		Keep     int64  `json:"keep,omitempty"`
		Unused   bool   `json:"unused,omitempty"`
		Start    int64  `json:"start,omitempty"`
		Answered bool   `json:"answered,omitempty"`
		Refused  int    `json:"refused,omitempty"`
		admitUsed
		More  *admitUsed `json:"more,omitempty"`
		Epoch string     `json:"epoch,omitempty"`
		Left  []int64    `json:"left,omitempty"`
	}
	admitGroup struct {
		Limits    []int       `json:"limits,omitempty"`
		Cooldowns []string    `json:"cooldowns,omitempty"`
		Aged      bool        `json:"aged,omitempty"`
		IDs       []string    `json:"ids,omitempty"`
		Calls     []admitCall `json:"calls,omitempty"`
	}
	admitCall struct {
		ID string `json:"id"`
		Of int    `json:"of,omitempty"`
		admitUsed
		Counts int64 `json:"counts,omitempty"`
	}
)

// encode returns the script's argument as JSON: the embedded Redis has no MessagePack library.
func (r admitRequest) encode() string {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // all of its values can be encoded
	}
	return string(text)
}

// request returns the script's argument for the batch at a moment.
func (b *batch) request(l *Limiter, now instant) admitRequest {
	l.mu.Lock()
	clock := l.clock
	l.mu.Unlock()
	r := admitRequest{
		Version: b.version, Worker: l.cfg.Worker, Channel: l.keys.wake(""), Lease: l.cfg.Lease.Microseconds(),
		Horizon: horizon.Microseconds(), Lead: lead.Microseconds(), Patience: patience.Microseconds(),
	}
	r.Earliest, r.Latest = clock.expects(now, l.cfg.tolerance())

	key := 4 // the number of keys before the limits' own
	for _, rule := range b.rules {
		limit := rule.describe(clock.shows(now))
		limit.State, limit.Waiters = key+1, key+2
		if key += 2; rule.extra() != "" {
			key++
			limit.Extra = key
		}
		limit.Held, limit.Waits, limit.Aged, limit.Woken, limit.Stays = rule.held, rule.waits, rule.waits && rule.aged, rule.woken, rule.stays
		r.Limits = append(r.Limits, limit)
	}

	for _, ended := range b.releases {
		if ended.plain() {
			r.Plain = append(r.Plain, ended.id)
		} else {
			r.Ends = append(r.Ends, b.ending(ended, clock.moved))
		}
	}

	callers := map[*caller]int{} // those with several accounts, numbered from 1
	for _, g := range b.groups {
		group := admitGroup{Limits: b.indicesOf(g.queue.rules), Cooldowns: g.queue.cooldowns, Aged: g.aged}
		unlimited := g.unlimited()
		for _, c := range g.calls {
			if unlimited {
				group.IDs = append(group.IDs, c.ID)
				continue
			}
			of := 0
			if c.elsewhere() {
				if callers[c.caller] == 0 {
					callers[c.caller] = len(callers) + 1
				}
				of = callers[c.caller]
			}
			group.Calls = append(group.Calls, admitCall{c.ID, of, argument(c.reserves()), c.counts().Microseconds()})
		}
		r.Groups = append(r.Groups, group)
	}

	return r
}

// ending describes the end of a lease; moved is by how much Redis's clock was set by now.
func (b *batch) ending(r *release, moved time.Duration) admitEnd {
	end := admitEnd{
		ID: r.id, Limits: b.indicesOf(r.rules), Keep: r.keep.Microseconds(), Unused: r.unused,
		Start: r.start + (moved - r.moved).Microseconds(), Answered: r.answered, admitUsed: argument(r.reserved), Epoch: r.epoch,
	}
	if r.refused != nil && !r.answered {
		end.Refused = b.indices[r.refused.id]
	}
	if r.more != (Used{}) {
		more := argument(r.more)
		end.More = &more
	}
	for _, left := range r.remaining {
		end.Left = append(end.Left, int64(b.indices[left.rule.id]), left.units)
	}
	return end
}

func (b *batch) indicesOf(rules []*rule) []int {
	indices := make([]int, len(rules))
	for i, r := range rules {
		indices[i] = b.indices[r.id]
	}
	return indices
}

func argument(u Used) admitUsed { return admitUsed{Input: u.Input, Output: u.Output, Money: u.Cost} }

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// decode parses the script's answer; ok is false if it is not a valid answer to the batch.
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
	var asked *queue
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
		asked = g.queue
		n := next()
		answer := groupOutcome{wait: micros(), known: micros(), own: micros(), first: next() == 1, bound: limit()}
		if n > int64(len(g.calls)) || (n < int64(len(g.calls))) != (answer.bound != nil) {
			return o, false
		}
		for range n {
			granted := grant{start: micros(), bound: limit()}
			if granted.bound == forgotten {
				granted = grant{taken: true}
			}
			answer.grants = append(answer.grants, granted)
		}
		o.groups = append(o.groups, answer)
	}

	return o, ok && len(reply) == 0
}
