package call

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// unknownCost marks a call whose cost cannot be known.
const unknownCost = -1

// mostCost returns the maximum cost of one of a step's requests, in nano-USD: the bounds on its tokens and searches at
// the model's price, which in a batch is that of batches if it is known; 0 if no price is known. Budgets reserve this
// maximum, because an estimate that usually suffices cannot guarantee that the budget is never exceeded.
func (c *Calls) mostCost(s Step, request *providers.Request) int64 {
	price, ok := c.run.Settings().Prices[s.Target.Target()]
	if !ok {
		return 0
	}
	if lower, known := price.In(providers.TierBatch); known && s.Target.Tier() == providers.TierBatch {
		price = lower
	}
	input, output := c.by.Tokens.Bound(s.Target.Target(), request)
	return price.Bound(input, output, request.MostSearches())
}

// price determines the cost of a call, in nano-USD or unknownCost, and stores it in the call and its result. The cost
// is what the provider reported, or else the usage at the model's price. most is the call's reservation.
func (c *Calls) price(call *record.Call, most int64, result *providers.Result, err error) int64 {
	price, priced := c.run.Settings().Prices[call.Model]
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

// counted waits until budgets and daily quotas have counted an ended call. If the call were recorded earlier, a limit
// that Redis has lost meanwhile could miss the call or count it twice.
func (c *Calls) counted(ctx context.Context, lease *ratelimit.Lease) {
	if lease.Restored() {
		_ = c.run.Persist(ctx, lease.Release) // a number too large to count is too large to record
	}
}

// OutOfBudget stops the run's evaluation, because its budget has no room for another call, and returns the run to its
// queue. If the evaluation was submitted again with another budget, the run first tries under that.
func (c *Calls) OutOfBudget(ctx context.Context) error {
	id := c.run.Task.Evaluation
	if now, err := c.by.Worker.Store.Evaluation(ctx, id); err == nil && now.Settings.Budget() != c.run.Settings().Budget() {
		c.by.Worker.Evaluations.Forget(id)
		return c.run.GoBack(ctx, 0, "the budget has changed")
	}
	_, err, _ := c.by.stops.Do(string(id), func() (any, error) { return nil, c.stopEvaluation(ctx) })
	if err != nil {
		c.run.Log().Debug().Err(err).Msg("cannot stop evaluation; retrying")
		return c.run.GoBack(ctx, time.Second, "the budget cannot cover the call")
	}
	return c.run.GoBack(ctx, 0, "the budget cannot cover the call")
}

// stopEvaluation stops the run's evaluation for all workers, unless another run of this worker
// has. Each stop closes the limits once more, and every worker reads that.
func (c *Calls) stopEvaluation(ctx context.Context) error {
	id := c.run.Task.Evaluation
	if c.run.Halted() {
		return nil
	}
	if _, err := c.run.Steering().Stop(ctx, id, record.StoppedByBudget); err != nil {
		return err
	}
	if c.by.Worker.Halts.End(id) {
		c.run.Emit(observe.Event{Event: observe.EventStopped, Message: "the budget cannot cover another call"})
		c.by.Worker.Log.Warn().Str("evaluation", string(id)).Str("budget", ratelimit.Dollars(c.run.Settings().Budget())).
			Msg("the budget cannot cover another call: stopping the evaluation")
	}
	return nil
}
