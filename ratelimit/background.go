package ratelimit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// backgroundCalls is a pseudo-worker: its ledger holds the leases of calls that continue at the
// provider while no process waits for them.
const backgroundCalls = "background"

// Background holds what is needed to count a background call again and to end it.
type Background struct {
	Limits []Limit `json:"limits"`
	Start  int64   `json:"start"` // on Redis's clock, µs
	Input  int64   `json:"input,omitempty"`
	Output int64   `json:"output,omitempty"`
	Cost   int64   `json:"cost,omitempty"` // nano-USD
}

// Known returns what Admin.AssertBackground needs to count the call again if Redis forgets it: its start, its
// reservations and its limits. Store it with the provider's name for the call before Background.
func (e *Lease) Known() Background {
	known := Background{Start: e.startMicros, Input: e.reserved.Input, Output: e.reserved.Output, Cost: e.reserved.Cost}
	for _, r := range e.rules {
		known.Limits = append(known.Limits, r.Limit)
	}
	return known
}

// overFor is how long Redis remembers that a background call has ended.
const overFor = time.Hour

// AssertBackground counts a background call again if Redis has forgotten it. Any process may
// call it, as often as it likes, while it knows that the call is running. It does nothing for an hour after
// EndBackground, which another process may have called meanwhile.
func (a *Admin) AssertBackground(ctx context.Context, call string, of Background, latestEnd time.Duration) error {
	text, err := json.Marshal(of)
	if err != nil {
		return fmt.Errorf("assert background call %s: %w", call, err)
	}
	keys := []string{a.keys.ledger(backgroundCalls), a.keys.background()}
	var sets, moneys []string
	var endings, budgets []any
	for _, limit := range of.Limits {
		r := newRule(a.keys, limit.ID(), limit)
		if r.leased() {
			sets, endings = append(sets, r.state), append(endings, r.ending(Used{Input: of.Input}))
		}
		if r.way == byBudget {
			moneys, budgets = append(moneys, r.money), append(budgets, len(sets))
		}
	}
	keys = append(append(append(keys, sets...), moneys...), a.keys.over(call))
	args := append([]any{call, latestEnd.Microseconds(), text, len(sets), of.Cost}, append(endings, budgets...)...)
	if err := assertScript.Run(ctx, a.client, keys, args...).Err(); err != nil {
		return fmt.Errorf("assert background call %s: %w", call, err)
	}
	return nil
}

// Background hands the lease over to a call that continues at the provider while no process waits for it, such as a job.
// call is the provider's name for it, and latestEnd the time until it has certainly ended. From then on no process
// renews the lease, and it counts until Admin.EndBackground or latestEnd, even if this process dies. The lease itself
// has ended. ErrLost means that it had ended before, and the call is not counted: see Admin.AssertBackground. After any
// other error, call Background again: it is idempotent.
func (e *Lease) Background(ctx context.Context, call string, latestEnd time.Duration) error {
	l := e.limiter
	l.mu.Lock()
	lost := e.ended(l.now())
	l.mu.Unlock()
	if lost != nil {
		return fmt.Errorf("hand over lease %s: %w", e.id, lost)
	}
	known := e.Known()
	keys := []string{l.keys.ledger(l.cfg.Worker), l.keys.ledger(backgroundCalls), l.keys.background()}
	var endings []any
	for _, r := range e.rules {
		if r.leased() {
			keys, endings = append(keys, r.state), append(endings, r.ending(e.reserved))
		}
	}

	keys = append(keys, l.keys.over(call))
	text, err := json.Marshal(known)
	if err != nil {
		return fmt.Errorf("hand over lease %s: %w", e.id, err)
	}
	args := append([]any{e.id, call, latestEnd.Microseconds(), text}, endings...)
	done, err := backgroundScript.Run(ctx, l.client, keys, args...).Int()
	if err != nil {
		return fmt.Errorf("hand over lease %s: %w", e.id, err)
	}
	if done == 0 {
		return fmt.Errorf("hand over lease %s: %w: redis does not hold it", e.id, ErrLost)
	}
	l.mu.Lock()
	defer l.mu.Unlock()

	if e.release == nil {
		e.release = &release{id: e.id, written: make(chan struct{})}
		close(e.release.written)
		l.untrack(e)
	}

	return nil
}

// EndBackground ends the lease of a background call, from any process, and settles the usage as
// Settlement.Used does; nil: unknown, and the reservation stays. It is no error if the call has ended
// before.
func (a *Admin) EndBackground(ctx context.Context, call string, used *Used) error {
	return a.endBackground(ctx, call, used, 0)
}

// GiveUpBackground lets a background call that is being cancelled count for another keep, in which it certainly ends,
// and no longer. Its usage is unknown, and the reservation stays. It is no error if the call has ended before.
func (a *Admin) GiveUpBackground(ctx context.Context, call string, keep time.Duration) error {
	return a.endBackground(ctx, call, nil, keep)
}

func (a *Admin) endBackground(ctx context.Context, call string, used *Used, keep time.Duration) error {
	// First: what another process asserts from here on is not counted.
	if err := a.client.Set(ctx, a.keys.over(call), "", overFor).Err(); err != nil {
		return fmt.Errorf("end background call %s: %w", call, err)
	}
	text, err := a.client.HGet(ctx, a.keys.background(), call).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("end background call %s: %w", call, err)
	}

	var known Background
	if err := json.Unmarshal(text, &known); err != nil {
		return fmt.Errorf("end background call %s: %w", call, err)
	}
	r := &release{id: call, start: known.Start, reserved: Used{known.Input, known.Output, known.Cost}, keep: keep}
	if used != nil {
		r.more = used.minus(r.reserved)
	}
	for _, limit := range known.Limits {
		r.rules = append(r.rules, newRule(a.keys, limit.ID(), limit))
	}
	holder := newLimiter(a.client, Config{Namespace: a.cfg.Namespace, Worker: backgroundCalls, Lease: a.cfg.Lease})
	var b batch
	b.end([]*release{r})
	if _, err := holder.admit(ctx, &b); err != nil {
		return fmt.Errorf("end background call %s: %w", call, err)
	}
	if err := a.client.HDel(ctx, a.keys.background(), call).Err(); err != nil {
		return fmt.Errorf("end background call %s: %w", call, err)
	}
	return nil
}
