package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/results"
)

// spentBefore is what an evaluation with a budget has spent by its sink, in
// nano-USD; none where it has no sink yet (nil). A budget over calls of which
// nobody knows what they cost is refused.
func spentBefore(ctx context.Context, id eval.ID, s record.Settings, sink results.Reader) (int64, error) {
	if s.Budget() == 0 || sink == nil {
		return 0, nil
	}
	spent, unknown, err := sink.Spent(ctx, id)
	switch {
	case err != nil:
		return 0, sinkError(err)
	case unknown > 0:
		return 0, usageError("what %s of %s cost is not known, as they were made without prices: no budget can be kept over them; leave budget out, or ask anew with --%s",
			count(unknown, "recorded call"), id, againFlag)
	}
	return spent, nil
}

// tellSpent opens an evaluation's budget: Redis counts on from what the sink has,
// and from what is known at least.
func tellSpent(ctx context.Context, limits *ratelimit.Limiter, id eval.ID, s record.Settings, sink results.Reader, least int64) error {
	if s.Budget() == 0 {
		return nil
	}
	spent, err := spentBefore(ctx, id, s, sink)
	if err != nil {
		return err
	}
	return limits.TellSpent(ctx, string(id), max(spent, least))
}

// budgetClosed reports whether Redis does not know what was spent of an evaluation's
// budget, so that no call begins.
func budgetClosed(ctx context.Context, limits *ratelimit.Limiter, id eval.ID) (bool, error) {
	usage, err := limits.Usage(ctx)
	if err != nil {
		return false, withCode(exitUnreachable, err)
	}
	return slices.ContainsFunc(usage, func(u ratelimit.Usage) bool {
		return u.Limit.Kind == ratelimit.Cost && u.Limit.Evaluation == string(id) && u.Closed
	}), nil
}

// tellAgain opens the budget of an evaluation of which Redis has lost what was spent.
// All that waited in Redis is in the sink.
func (d *drain) tellAgain(ctx context.Context, r record.Evaluation, sink results.Reader) error {
	if r.Settings.Budget() == 0 {
		return nil
	}
	closed, err := budgetClosed(ctx, d.limiter(), r.ID)
	if err != nil || !closed {
		return err
	}
	return tellSpent(ctx, d.limiter(), r.ID, r.Settings, sink, 0)
}

// budgetStanding is how far an evaluation's budget is spent.
type budgetStanding struct {
	USD float64 `json:"usd"`
	// SpentUSD is what calls have cost, and while the evaluation is in Redis also
	// what those in flight may cost; null: unknown.
	SpentUSD *float64 `json:"spent_usd"`
	// Stopped: it leaves no room for another call.
	Stopped bool `json:"stopped"`
	// Closed: Redis does not know what was spent, and no call is begun.
	Closed bool `json:"closed,omitempty"`
}

// budgetOf is the budget in an evaluation's settings, nil without one; usage is
// what Redis has counted.
func budgetOf(r record.Evaluation, usage []ratelimit.Usage) *budgetStanding {
	budget := r.Settings.Budget()
	if budget == 0 {
		return nil
	}
	b := &budgetStanding{USD: usd(budget), Stopped: r.Stopped == record.StoppedByBudget}
	for _, u := range usage {
		if u.Limit.Kind == ratelimit.Cost && u.Limit.Evaluation == string(r.ID) {
			spent := usd(u.Spent)
			b.SpentUSD, b.Closed = &spent, u.Closed
		}
	}
	return b
}

func usd(nano int64) float64 { return float64(nano) / ratelimit.Dollar }

// dollars is an amount for people.
func dollars(usd float64) string { return ratelimit.Dollars(int64(usd * ratelimit.Dollar)) }

func (b budgetStanding) text() string {
	spent := "unknown"
	if b.SpentUSD != nil {
		spent = dollars(*b.SpentUSD)
	}
	text := fmt.Sprintf("budget %s, spent %s", dollars(b.USD), spent)
	switch {
	case b.Stopped:
		text += "; no room for another call: submit it again with a higher one"
	case b.Closed:
		text += "; no call begins: submit it again where its results can be read"
	}
	return text
}
