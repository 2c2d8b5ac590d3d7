package worker

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// unknownCost is what a call cost of which nobody knows.
const unknownCost = -1

// mostCost is what a request to a "provider:model" may cost, in nano-USD: the
// bounds of its tokens and searches at its model's price, and 0 where that is not
// known. Budgets reserve it: what is learnt to be enough for most calls is not
// enough for what must never be passed.
func (r *run) mostCost(model string, request *providers.Request) int64 {
	price, ok := r.evaluation.record.Settings.Prices[model]
	if !ok {
		return 0
	}
	input, output := r.tokens.bound(model, request)
	return price.Bound(input, output, request.MostSearches())
}

// price says what a call cost, in nano-USD or unknownCost, and notes it in the
// call and its result: what the provider reported, else what was used at the
// model's price. most is what was reserved for it.
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

// readReported reports whether it is known what a model read. No answer comes of
// nothing: an input of 0 is one that the provider did not count.
func readReported(used providers.Usage) bool { return used.Reported && used.Input > 0 }

func dollars(nano int64) *float64 {
	usd := float64(nano) / ratelimit.Dollar
	return &usd
}

// spent waits until a budget has counted what an ended call cost: were the call recorded
// before, a budget that Redis has lost meanwhile could be told too little.
func (r *run) spent(lease *ratelimit.Lease) {
	if r.evaluation.record.Settings.Budget() > 0 {
		_ = r.life.persist(lease.Release) // what cannot be counted any more cannot be recorded either
	}
}

// outOfBudget stops the run's evaluation, whose budget leaves no room for another
// call, and gives the run back. Where the budget has changed, because the
// evaluation was submitted with it meanwhile, that is asked first.
func (r *run) outOfBudget(ctx context.Context) error {
	id := r.task.Evaluation
	if now, err := r.store.Evaluation(ctx, id); err == nil && now.Settings.Budget() != r.evaluation.record.Settings.Budget() {
		r.evaluations.forget(id)
		return r.goBack(0, "the budget has changed")
	}
	stop := &enqueue.Enqueuer{Store: r.store, Limits: r.limiter, Log: r.log}
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
