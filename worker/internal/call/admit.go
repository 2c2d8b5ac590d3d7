package call

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/internal/run"
)

// admission is a call's wait for its lease.
type admission struct {
	*Calls
	call  *record.Call
	step  Step
	open  []string // where the call may be made: the provider, or accounts of it
	isJob bool
	asks  ratelimit.Request // what the limiter is asked next
}

// admit takes a slot of this process and then a lease, which it checks at the last moment: nothing is sent under a
// lease that is no longer ours.
func (c *Calls) admit(
	ctx context.Context, call *record.Call, s Step, open []string, timeout time.Duration, isJob bool,
) (*ratelimit.Lease, error) {
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

	a := &admission{Calls: c, call: call, step: s, open: open, isJob: isJob}
	a.asks = a.request(waiting, timeout)
	return a.acquire(ctx, waiting)
}

// acquire asks the limiter until the call has a lease, or its run does something else. waiting ends with ctx, and when
// the run should no longer wait.
func (a *admission) acquire(ctx, waiting context.Context) (*ratelimit.Lease, error) {
	for {
		a.run.Waits()
		a.asks.ID = string(a.run.Task.Evaluation) + "." + a.call.ID
		lease, err := a.by.Worker.Limiter.Acquire(waiting, a.asks)
		var again bool
		if err == nil {
			lease, again, err = a.accept(ctx, lease)
		} else {
			again, err = a.refused(ctx, err)
		}
		if !again {
			return lease, err
		}
	}
}

// request returns what the limiter is asked for the call, without an ID. It accepts waits of up to run.InPlace.
func (a *admission) request(waiting context.Context, timeout time.Duration) ratelimit.Request {
	scope := a.run.Scope(a.step.Target)
	charges := func(l ratelimit.Limit) bool {
		return l.Charged && slices.ContainsFunc(a.open, func(at string) bool { return l.Matches(scope.At(at)) })
	}
	a.by.Tokens.Meet(waiting, a.by.Worker.Admin, a.call.Model)
	charged := slices.ContainsFunc(a.by.Limits, charges) || slices.ContainsFunc(a.run.Settings().Limits, charges)
	var reserved ratelimit.Used
	for _, request := range a.step.requests() {
		input, output := a.by.Tokens.Reserve(a.call.Model, request, charged)
		reserved.Input, reserved.Output = reserved.Input+input, reserved.Output+output
		reserved.Cost += a.mostCost(a.step, request)
	}

	cooldown := time.Duration(0)
	if !a.isJob && a.by.Asides.stepsAside(a.run.Queue) {
		cooldown = time.Millisecond
	}
	var accounts []string
	if a.open[0] != scope.Provider {
		accounts = a.open
	}
	return ratelimit.Request{
		Call:        scope,
		Accounts:    accounts,
		Holders:     a.by.holders(a.run.Task.Evaluation),
		MaxWait:     run.InPlace,
		MaxCooldown: cooldown,
		Consent:     a.chain.Consent(a.step.Target, cooldown > 0),
		LatestEnd:   timeout,
		Hold:        a.run.Settings().Hold || a.isJob,
		Input:       reserved.Input,
		Output:      reserved.Output,
		Cost:        reserved.Cost,
	}
}

// accept returns a lease that was granted if the call may still begin under it. Otherwise it ends the lease: the call
// asks again under another ID, or err says why it does not begin.
func (a *admission) accept(ctx context.Context, lease *ratelimit.Lease) (_ *ratelimit.Lease, again bool, err error) {
	a.by.Worker.Shares.Admitted(a.run.Queue, lease.BoundBy() != "")
	a.call.BoundBy = lease.BoundBy()
	if over := a.chain.Refused(a.step.Target); over != nil && !a.isJob { // refused since the wait began
		_ = lease.Release(context.WithoutCancel(ctx)) // expires by itself where that fails
		a.freeSlot()
		return nil, false, over
	}

	known := a.run.Known(ctx, lease.Memory()) // the wait may have been long
	if err = lease.Check(); err == nil && known == nil && !a.run.Halted() {
		a.run.Progress.Fallen.Admitted()
		return lease, false, nil
	}
	_ = lease.Release(context.WithoutCancel(ctx)) // expires by itself where that fails
	if known != nil {
		a.freeSlot()
		return nil, false, known
	}

	if ctx.Err() == nil && a.run.MayBegin() == nil {
		a.call.ID = a.nextCallID() // a lease's ID is used only once
		return nil, true, nil
	}
	a.freeSlot()
	return nil, false, a.interrupted(ctx, a.isJob, err)
}

// refused handles the error of a call that was given no lease. Either the call asks again and then accepts any wait for
// a limit, or why says what the run does instead.
func (a *admission) refused(ctx context.Context, err error) (again bool, why error) {
	var refusal *ratelimit.Refusal
	if !errors.As(err, &refusal) {
		a.freeSlot()
		return false, a.interrupted(ctx, a.isJob, err)
	}
	consent := a.asks.Consent
	if refusal.Declined || refusal.Cooldown && consent != nil && !consent(refusal.Wait, true) {
		a.freeSlot()
		return false, a.chain.Declined(refusal)
	}

	// All runs of a queue keep the same limits, so another run would wait as long. Only a cooldown may apply to one
	// of several models.
	if !refusal.Cooldown && !refusal.Exhausted && !refusal.TooLarge {
		a.asks.MaxWait = 0
		saved := consent == nil || a.run.Save(ctx) == nil // a crash must not restart the wait
		if saved {
			return true, nil
		}
	}
	if refusal.Cooldown && consent != nil {
		if err := a.run.Save(ctx); err != nil {
			a.freeSlot()
			return false, a.interrupted(ctx, a.isJob, err)
		}
	}

	a.freeSlot()
	switch {
	case (refusal.Exhausted || refusal.TooLarge) && len(a.step.Lines) > 1:
		return false, errTooLarge
	case refusal.TooLarge:
		return false, &run.GaveUp{Class: providers.ContextLength, Message: refusal.Error()}
	case refusal.Exhausted:
		return false, a.OutOfBudget(ctx)
	case refusal.Cooldown && a.asks.MaxCooldown > 0:
		return false, &cooled{refusal.Wait}
	}
	return false, a.run.GoBack(ctx, refusal.Wait, run.ForLimit+refusal.Limit)
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
