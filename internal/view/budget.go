package view

import (
	"fmt"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Budget says how much of an evaluation's budget is spent.
type Budget struct {
	USD float64 `json:"usd"`
	// SpentUSD is what calls have cost. While the evaluation is in Redis, it includes what calls in flight may cost;
	// null: unknown.
	SpentUSD *float64 `json:"spent_usd" jsonschema:"nullable"`
	// Stopped: the budget leaves no room for another call.
	Stopped bool `json:"stopped"`
	// Closed: Redis does not know the amount spent, so no call starts.
	Closed bool `json:"closed,omitempty"`
}

// budgetOf returns the budget in an evaluation's settings, nil without one; usage is what Redis has counted.
func budgetOf(r record.Evaluation, usage []ratelimit.Usage) *Budget {
	budget := r.Settings.Budget()
	if budget == 0 {
		return nil
	}
	b := &Budget{USD: USD(budget), Stopped: r.Stopped == record.StoppedByBudget}
	for _, u := range usage {
		if u.Limit.Kind == ratelimit.Cost && u.Limit.Evaluation == string(r.ID) {
			spent := USD(u.Spent)
			b.SpentUSD, b.Closed = &spent, u.Closed
		}
	}
	return b
}

// String describes how much of the budget is spent, and what to do.
func (b Budget) String() string {
	spent := "unknown"
	if b.SpentUSD != nil {
		spent = ratelimit.USD(*b.SpentUSD)
	}
	text := fmt.Sprintf("budget %s, spent %s", ratelimit.USD(b.USD), spent)
	switch {
	case b.Stopped:
		text += "; no room for another call: submit it again with a higher budget"
	case b.Closed:
		text += "; closed until it is submitted again where its results can be read"
	}
	return text
}
