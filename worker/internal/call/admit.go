package call

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/internal/run"
)

// admit takes a slot of this process and then a lease, which it checks at the last moment: nothing is sent under a
// lease that is no longer ours.
func (c *Calls) admit(ctx context.Context, call *record.Call, s Step, timeout time.Duration, isJob bool) (*ratelimit.Lease, error) {
	// Only the limiter knows what an earlier call has used of a budget or a daily quota until that is saved, and the
	// wait may be long.
	if c.restored && c.run.Unsaved() > 0 {
		if err := c.run.Save(ctx); err != nil {
			return nil, err
		}
	}

	if err := c.run.Known(ctx, ""); err != nil {
		return nil, err
	}
	c.run.Waits()
	defer c.run.Steps()
	waiting, release := c.run.Waiting(ctx)
	defer release()
	if isJob {
		defer time.AfterFunc(jobWait, release).Stop()
	}
	if err := c.by.slots.Acquire(waiting, 1); err != nil {
		return nil, c.interrupted(ctx, isJob, err)
	}
	c.slot = true
	scope := c.run.Scope(s.Target)
	charges := func(l ratelimit.Limit) bool { return l.Charged && l.Matches(scope) }
	c.by.Tokens.Meet(waiting, c.by.Worker.Admin, call.Model)
	input, output := c.by.Tokens.Reserve(call.Model, s.Request,
		slices.ContainsFunc(c.by.Limits, charges) || slices.ContainsFunc(c.run.Settings().Limits, charges))
	cost := c.mostCost(call.Model, s.Request)
	longest, cooldown := run.InPlace, time.Duration(0)
	if !isJob && c.by.Asides.stepsAside(c.run.Queue) {
		cooldown = time.Millisecond
	}
	consent := c.chain.Consent(s.Target, cooldown > 0)
	for {
		c.run.Waits()
		lease, err := c.by.Worker.Limiter.Acquire(waiting, ratelimit.Request{
			ID:      string(c.run.Task.Evaluation) + "." + call.ID,
			Call:    scope,
			Holders: c.by.holders(c.run.Task.Evaluation),
			MaxWait: longest, MaxCooldown: cooldown, Consent: consent, LatestEnd: timeout, Hold: c.run.Settings().Hold || isJob,
			Input: input, Output: output, Cost: cost,
		})
		if err == nil {
			c.by.Worker.Shares.Admitted(c.run.Queue, lease.BoundBy() != "")
			call.BoundBy = lease.BoundBy()
			if over := c.chain.Refused(s.Target); over != nil && !isJob { // refused since the wait began
				_ = lease.Release(context.WithoutCancel(ctx)) // expires by itself where that fails
				c.freeSlot()
				return nil, over
			}
			known := c.run.Known(ctx, lease.Memory()) // the wait may have been long
			if err = lease.Check(); err == nil && known == nil && !c.run.Halted() {
				c.run.Progress.Fallen.Admitted()
				return lease, nil
			}
			_ = lease.Release(context.WithoutCancel(ctx)) // expires by itself where that fails
			if known != nil {
				c.freeSlot()
				return nil, known
			}
			if ctx.Err() == nil && c.run.MayBegin() == nil {
				call.ID = c.nextCallID() // a lease's ID is used only once
				continue
			}
		}
		var refusal *ratelimit.Refusal
		if errors.As(err, &refusal) && (refusal.Declined || refusal.Cooldown && consent != nil && !consent(refusal.Wait, true)) {
			c.freeSlot()
			return nil, c.chain.Declined(refusal)
		}
		// All runs of a queue keep the same limits, so another run would wait as long. Only a cooldown may apply to one
		// of several models.
		if refusal != nil && !refusal.Cooldown && !refusal.Exhausted {
			longest = 0
			if consent == nil {
				continue
			}
			if err = c.run.Save(ctx); err == nil { // a crash must not restart the wait
				continue
			}
		}
		if refusal != nil && refusal.Cooldown && consent != nil {
			if saved := c.run.Save(ctx); saved != nil {
				err, refusal = saved, nil
			}
		}
		c.freeSlot()
		if refusal != nil && refusal.Exhausted {
			return nil, c.OutOfBudget(ctx)
		}
		if refusal != nil && refusal.Cooldown && cooldown > 0 {
			return nil, &cooled{refusal.Wait}
		}
		if refusal != nil {
			return nil, c.run.GoBack(ctx, refusal.Wait, run.ForLimit+refusal.Limit)
		}
		return nil, c.interrupted(ctx, isJob, err)
	}
}

// interrupted handles a wait for admission that was ended: by a graceful stop, because the evaluation was halted, or at
// the end of a job's own time to wait. It returns the run to its queue with its progress.
func (c *Calls) interrupted(ctx context.Context, isJob bool, err error) error {
	if ctx.Err() != nil {
		if err == nil { // a lease came, but the evaluation was halted
			return context.Cause(ctx)
		}
		return err
	}
	if why := c.run.MayBegin(); why != nil { // if the run was dropped, the next check finds out
		return c.run.GoBack(ctx, 0, why.Error())
	}
	if isJob && errors.Is(err, context.Canceled) {
		return c.run.GoBack(ctx, jobBack, "the limit of jobs is reached")
	}
	return err
}
