package worker

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/record"
)

// unknownCost is the cost of a call whose cost cannot be known.
const unknownCost = -1

// mostCost is the maximum cost of a request to a "provider:model", in nano-USD: its bounds of
// tokens and searches at the model's price, and 0 if the price is not known. Budgets reserve
// it: an estimate that is enough for most calls is not enough for a bound that must never be
// exceeded.
func (r *run) mostCost(model string, request *providers.Request) int64 {
	price, ok := r.evaluation.record.Settings.Prices[model]
	if !ok {
		return 0
	}
	input, output := r.tokens.bound(model, request)
	return price.Bound(input, output, request.MostSearches())
}

// price determines the cost of a call, in nano-USD or unknownCost, and stores it in the call
// and its result: the cost the provider reported, or else the usage at the model's price. most
// is the call's reservation.
func (r *run) price(call *record.Call, most int64, result *providers.Result, err error) int64 {
	price, priced := r.evaluation.record.Settings.Prices[call.Model]
	inTier, known := price, priced
	if err == nil && priced {
		inTier, known = price.In(result.Usage.Tier)
	}
	var failed *providers.Error
	switch {
	case err != nil && errors.As(err, &failed) && !failed.MayBeBilled:
		return 0
	case err == nil && result.Usage.CostUSD != nil && *result.Usage.CostUSD >= 0:
		return int64(math.Ceil(*result.Usage.CostUSD * ratelimit.Dollar))
	case err == nil && readReported(result.Usage) && known:
		cost := inTier.Cost(result.Usage, result.Grounding.Searches)
		call.Price, result.Usage.CostUSD = &inTier, dollars(cost)
		return cost
	case priced:
		if failed != nil && readReported(failed.Used) {
			most = max(most, price.Cost(failed.Used, 0))
		}
		call.Price, call.MostUSD = &price, dollars(most)
	}
	return unknownCost
}

// readReported reports whether the number of input tokens is known. An answer needs input, so
// an input of 0 means that the provider did not count it.
func readReported(used providers.Usage) bool { return used.Reported && used.Input > 0 }

func dollars(nano int64) *float64 {
	usd := float64(nano) / ratelimit.Dollar
	return &usd
}

// counted waits until budgets and daily quotas have counted an ended call: were it recorded
// before, one that Redis has lost meanwhile could be told too little, or count it twice.
func (r *run) counted(lease *ratelimit.Lease) {
	if lease.Restored() {
		_ = r.life.persist(lease.Release) // a number too large to count is too large to record
	}
}

// outOfBudget stops the run's evaluation, whose budget has no room for another call, and gives
// the run back. If the budget has changed, because the evaluation was submitted again with a
// new one, the new budget is asked first.
func (r *run) outOfBudget(ctx context.Context) error {
	id := r.task.Evaluation
	if now, err := r.store.Evaluation(ctx, id); err == nil && now.Settings.Budget() != r.evaluation.record.Settings.Budget() {
		r.evaluations.forget(id)
		return r.goBack(0, "the budget has changed")
	}
	stop := &enqueue.Enqueuer{Store: r.store, Limits: r.admin, Log: r.log}
	if _, err := stop.Stop(ctx, id, record.StoppedByBudget); err != nil {
		r.logger().Debug().Err(err).Msg("cannot stop evaluation; retrying")
		return r.goBack(time.Second, "the budget cannot cover the call")
	}
	if r.halts.end(id) {
		r.emit(Event{Event: EventStopped, Message: "the budget cannot cover another call"})
		r.log.Warn().Str("evaluation", string(id)).Str("budget", ratelimit.Dollars(r.evaluation.record.Settings.Budget())).
			Msg("the budget cannot cover another call: stopping the evaluation")
	}
	return r.goBack(0, "the budget cannot cover the call")
}
