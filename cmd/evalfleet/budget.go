package main

import (
	"fmt"

	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/ratelimit"
)

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
