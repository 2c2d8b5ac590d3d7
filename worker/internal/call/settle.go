package call

import (
	"context"
	"errors"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// AbandonedKeep is how much longer the lease of a call that was given up counts. If a limit of the call assumes a
// longer spread between a grant and the arrival at the provider, the limiter uses that instead.
const AbandonedKeep = 500 * time.Millisecond

// settle reports how much of its reservation an ended call used, and announces the consequences of its failure. Unknown
// usage counts as reserved. lease is the call's; nil: it was a job.
func (c *Calls) settle(
	ctx context.Context, lease *ratelimit.Lease, s Step, call *record.Call, reserved ratelimit.Used,
	result *providers.Result, err error,
) ratelimit.Used {
	c.believe(call.Model, result, err)
	used := reserved
	if cost := c.price(call, reserved.Cost, result, err); cost >= 0 {
		c.by.Worker.Observer.Spending(observe.Spending{Evaluation: c.run.Task.Evaluation, Nano: cost - reserved.Cost})
		used.Cost = cost
	}

	told := err == nil && result.Usage.Reported
	var failed *providers.Error
	if errors.As(err, &failed) {
		told = failed.Used.Reported
	}
	if told {
		c.by.Worker.Observer.Reserved(observe.Reserved{
			Provider: s.Target.Provider, Model: s.Target.Model, Input: reserved.Input, Output: reserved.Output,
		})
	}
	switch {
	case err == nil:
		if result.Usage.Reported {
			used.Output = result.Usage.Output
		}
		if readReported(result.Usage) {
			used.Input = result.Usage.Input
			c.by.Tokens.Settled(s.Target.Target(), s.Request, result.Usage)
		}
	case failed != nil:
		used.Input, used.Output = max(used.Input, failed.Used.Input), max(used.Output, failed.Used.Output)
		if !failed.MayBeBilled {
			used = ratelimit.Used{}
		}
		if c.StopsAll(s, failed) && !c.setAside(ctx, s, failed) { // before its lease lets another call begin
			why := record.Pause{Class: failed.Class, Message: c.wordsOf(s, failed), KeyEnv: c.by.endpoint(s).KeyEnv}
			if c.found.Over {
				why.For = time.Since(c.found.Since)
			}
			if c.run.PauseProvider(ctx, why) {
				c.by.Worker.Doubts.Paused(c.run.Task.Evaluation, s.at())
			}
		}
		if TooMany(failed) {
			c.by.Asides.told(Asker{c.run.Task.Evaluation, s.Target.Target()}, true)
			c.holdBack(ctx, lease, s, failed)
		}
	}

	if err == nil {
		c.by.Asides.told(Asker{c.run.Task.Evaluation, s.Target.Target()}, false)
	}
	return used
}

// settlementOf returns what the limits learn of a call's end: whether the provider accepted the call, and what it said
// is left of them.
func settlementOf(used ratelimit.Used, result *providers.Result, err error) ratelimit.Settlement {
	settled := ratelimit.Settlement{Used: &used}
	var said []providers.LimitState
	var failed *providers.Error
	switch {
	case err == nil:
		settled.Answered = true
		said = result.Limits
	case errors.As(err, &failed):
		settled.Refused = failed.Class == providers.RateLimited || failed.Class == providers.Overloaded
		settled.Exceeded = ratelimit.Kind(failed.Exceeded)
		said = failed.Limits
	}

	for _, state := range said {
		if state.Remaining >= 0 && (state.Period == 0 || state.Period == time.Minute) {
			settled.Left = append(settled.Left, ratelimit.Left{Kind: ratelimit.Kind(state.Kind), Units: state.Remaining})
		}
	}
	return settled
}

// release ends the lease. The lease of a call that was given up counts a little longer: the provider may see the next
// request before it sees that this connection is closed. It may not notice at all that a connection was cut in between.
func release(lease *ratelimit.Lease, err error) {
	switch class := providers.ClassOf(err); {
	case class == providers.Timeout, class == providers.Cancelled:
		lease.GiveUp(AbandonedKeep, false)
	case wasCut(err):
		lease.GiveUp(AbandonedKeep, true)
	default:
		lease.End()
	}
}

// wasCut reports whether a call was sent and no complete answer came.
func wasCut(err error) bool {
	var failed *providers.Error
	return errors.As(err, &failed) && failed.Status == 0 && failed.MayBeBilled
}
