package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/record"
)

// What a call is made for.
const (
	stageAnswer   = "answer"   // in prose, of a listed run
	stageVerdict  = "verdict"  // the whole of it
	stageGrounded = "grounded" // the verdict in prose
	stageJSON     = "json"     // and its JSON
	stageRepair   = "repair"   // of an answer that was no verdict
)

// abandonedKeep is how much longer the lease of a call that was given up counts, where
// no limit of the call assumes a longer spread between a grant and its arrival at the
// provider.
const abandonedKeep = 500 * time.Millisecond

// call makes one call under a lease, or answers it from the cache, and keeps its record. A call
// that failed is a *providers.Error; any other error means that no call was made, or that one
// continues as a job.
func (r *run) call(ctx context.Context, s step) (*providers.Result, error) {
	once := r.callOnce
	if r.background(s.target) != nil {
		once = r.job
	}
	key, err := r.key(s)
	if err != nil {
		return nil, err
	}
	if r.progress.Job == nil {
		if result := r.fromCache(ctx, s, key); result != nil {
			return result, nil
		}
	}
	for {
		result, err := once(ctx, s, key)
		if !errors.Is(err, providers.ErrAgain) {
			return result, err
		}
	}
}

func (r *run) callOnce(ctx context.Context, s step, key string) (*providers.Result, error) {
	call, timeout := r.newCall(s, key), r.evaluation.record.Settings.Timeout(s.target.Provider, s.target.Model)
	lease, err := r.begin(ctx, call, s, timeout, false)
	if err != nil {
		return nil, err
	}
	held, letGo := lease.Context(ctx)
	limited, cancel := context.WithTimeout(held, timeout)
	result, err := r.cfg.Endpoints[s.target.Provider].called(r.task.Kind).Call(limited, s.request)
	err = failureOf(limited, err)
	cancel()
	letGo()
	return result, r.end(ctx, s, call, lease, result, err, timeout)
}

// newCall is the record of a call that is about to be asked for.
func (r *run) newCall(s step, key string) *record.Call {
	r.attempt = r.progress.Attempts + 1
	return &record.Call{
		ID:    r.nextCallID(),
		Phase: r.task.Phase, Index: r.task.Index, Generation: r.task.Generation,
		Stage: s.stage, Model: s.target.Target(), Attempt: r.attempt,
		Asked: time.Now().UTC(), Worker: r.id, Key: key,
	}
}

// nextCallID names a call, or another try to have a lease for it. No name is used
// twice: where Redis has forgotten that a run was pulled, the same worker may have it
// in hand a second time, and two calls under one lease count as one.
func (r *run) nextCallID() string {
	return fmt.Sprintf("%s.%d-%s-%d", r.task.RunID().Short(), r.task.Generation, r.id, r.named.Add(1))
}

// begin waits for the lease of a call, or of a job that continues at its provider. The caller
// must send the request at once.
func (r *run) begin(ctx context.Context, call *record.Call, s step, timeout time.Duration, isJob bool) (*ratelimit.Lease, error) {
	r.leaveRoom() // waiting for a lease must not block readers
	r.move(ready)
	r.emitQueueing(s)
	lease, err := r.admit(ctx, call, s, timeout, isJob)
	for held := (*cooled)(nil); errors.As(err, &held); {
		if err := r.stepAside(ctx, s, held.wait); err != nil {
			return nil, err
		}
		r.move(ready)
		lease, err = r.admit(ctx, call, s, timeout, isJob)
	}
	if err != nil {
		return nil, err
	}
	r.move(flying)
	r.called, r.flight = true, &flight{call, lease}
	r.cfg.Spending(Spending{r.task.Evaluation, lease.Reserved().Cost})
	r.emitSlots(s.event(EventAcquired), lease, 0)
	call.Started = time.Now().UTC()
	s.request.IdempotencyID, s.request.Ready, s.request.Connected = call.ID, lease.Check, lease.Connected
	return lease, nil
}

// end gives a call's lease back and keeps its record.
func (r *run) end(ctx context.Context, s step, call *record.Call, lease *ratelimit.Lease, result *providers.Result, err error, timeout time.Duration) error {
	call.Ended = time.Now().UTC()
	r.noteServer(ctx, s.target, err)
	used := r.settle(ctx, lease, s, call, lease.Reserved(), result, err)
	lease.Settle(used)
	observe(lease, result, err)
	r.noteRefusal(s.target, err) // before another takes the slot
	// Before another can be told that it has the slot.
	r.emitSlots(s.event(EventReleased), lease, 1)
	release(lease, err)
	r.freeSlot()
	r.move(resting)
	r.counted(lease)
	err = r.note(ctx, s, call, result, err, timeout)
	r.flight = nil
	return err
}

// admit takes a slot of this process and then a lease, which is checked at the
// last moment: nothing is sent on one that is no longer ours.
func (r *run) admit(ctx context.Context, call *record.Call, s step, timeout time.Duration, isJob bool) (*ratelimit.Lease, error) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	if isJob {
		defer time.AfterFunc(jobWait, cancel).Stop()
	}
	// What a call before may have cost is known to the limiter alone until it is saved,
	// and the wait may be long.
	if len(r.calls) > 0 && r.evaluation.record.Settings.Budget() > 0 {
		if err := r.save(); err != nil {
			return nil, err
		}
	}
	defer context.AfterFunc(r.stopping, cancel)()
	defer context.AfterFunc(r.halted, cancel)()
	if err := r.slots.Acquire(waiting, 1); err != nil {
		return nil, r.interrupted(ctx, isJob, err)
	}
	r.slot = true
	scope := r.callTo(s.target)
	charges := func(l ratelimit.Limit) bool { return l.Charged && l.Matches(scope) }
	r.tokens.meet(waiting, r.admin, call.Model)
	input, output := r.tokens.reserve(call.Model, s.request,
		slices.ContainsFunc(r.cfg.Limits, charges) || slices.ContainsFunc(r.evaluation.record.Settings.Limits, charges))
	cost := r.mostCost(call.Model, s.request)
	longest, cooldown := inPlace, time.Duration(0)
	if !isJob && r.asides.stepsAside(r.queue) {
		cooldown = time.Millisecond
	}
	consent := r.consent(s.target, cooldown > 0)
	for {
		lease, err := r.limiter.Acquire(waiting, ratelimit.Request{
			ID:      string(r.task.Evaluation) + "." + call.ID,
			Call:    scope,
			Holders: r.holders(r.task.Evaluation),
			MaxWait: longest, MaxCooldown: cooldown, Consent: consent, LatestEnd: timeout, Hold: r.evaluation.record.Settings.Hold || isJob,
			Input: input, Output: output, Cost: cost,
		})
		if err == nil {
			r.budget.admitted(r.queue, lease.BoundBy() != "")
			call.BoundBy = lease.BoundBy()
			if over := r.refused(s.target); over != nil && !isJob { // since the wait began
				_ = lease.Release(context.WithoutCancel(ctx)) // expires by itself where that fails
				r.freeSlot()
				return nil, over
			}
			if err = lease.Check(); err == nil && r.halted.Err() == nil {
				r.progress.Fallen.Admitted()
				return lease, nil
			}
			_ = lease.Release(context.WithoutCancel(ctx)) // expires by itself where that fails
			if ctx.Err() == nil && r.stopping.Err() == nil && r.halted.Err() == nil {
				call.ID = r.nextCallID() // a lease's id is used once
				continue
			}
		}
		var refusal *ratelimit.Refusal
		if errors.As(err, &refusal) && (refusal.Declined || refusal.Cooldown && consent != nil && !consent(refusal.Wait, true)) {
			r.freeSlot()
			return nil, r.declined(refusal)
		}
		// All runs of a queue keep the same limits: another would wait as long.
		// Only a cooldown may be of one model among several.
		if refusal != nil && !refusal.Cooldown && !refusal.Exhausted {
			longest = 0
			if consent == nil {
				continue
			}
			if err = r.save(); err == nil { // a crash must not restart the wait
				continue
			}
		}
		if refusal != nil && refusal.Cooldown && consent != nil {
			if saved := r.save(); saved != nil {
				err, refusal = saved, nil
			}
		}
		r.freeSlot()
		if refusal != nil && refusal.Exhausted {
			return nil, r.outOfBudget(ctx)
		}
		if refusal != nil && refusal.Cooldown && cooldown > 0 {
			return nil, &cooled{refusal.Wait}
		}
		if refusal != nil {
			return nil, r.goBack(refusal.Wait, "limit "+refusal.Limit)
		}
		return nil, r.interrupted(ctx, isJob, err)
	}
}

// interrupted handles a wait for admission that was ended: on a graceful stop, when its
// evaluation is halted, or at the end of a job's own time to wait, the run is given back with
// its progress.
func (r *run) interrupted(ctx context.Context, isJob bool, err error) error {
	switch {
	case ctx.Err() != nil:
	case r.stopping.Err() != nil:
		return r.goBack(0, "the worker stops")
	case r.halted.Err() != nil: // where it was dropped, the next check says so
		return r.goBack(0, "its evaluation is not active")
	case isJob && errors.Is(err, context.Canceled):
		return r.goBack(jobBack, "the limit of jobs is reached")
	}
	return err
}

// settle reports how much of its reservation an ended call used, and announces the consequences
// of its failure. Unknown usage stays as reserved. lease is its own; nil: it was a job.
func (r *run) settle(ctx context.Context, lease *ratelimit.Lease, s step, call *record.Call, reserved ratelimit.Used, result *providers.Result, err error) ratelimit.Used {
	r.believe(call.Model, result, err)
	used := reserved
	if cost := r.price(call, reserved.Cost, result, err); cost >= 0 {
		r.cfg.Spending(Spending{r.task.Evaluation, cost - reserved.Cost})
		used.Cost = cost
	}
	told := err == nil && result.Usage.Reported
	var failed *providers.Error
	if errors.As(err, &failed) {
		told = failed.Used.Reported
	}
	if told {
		r.cfg.Reserved(Reserved{s.target.Provider, s.target.Model, reserved.Input, reserved.Output})
	}
	switch {
	case err == nil:
		if result.Usage.Reported {
			used.Output = result.Usage.Output
		}
		if readReported(result.Usage) {
			used.Input = result.Usage.Input
			r.tokens.settled(s.target.Target(), s.request, result.Usage)
		}
	case failed != nil:
		used.Input, used.Output = max(used.Input, failed.Used.Input), max(used.Output, failed.Used.Output)
		if !failed.MayBeBilled {
			used = ratelimit.Used{}
		}
		if r.stopsAll(s, failed) { // before its lease lets another call begin
			r.pauseProvider(record.Pause{Class: failed.Class, Message: r.wordsOf(s, failed), KeyEnv: r.cfg.Endpoints[s.target.Provider].KeyEnv})
		}
		if tooMany(failed) {
			r.asides.told(asker{r.task.Evaluation, s.target.Target()}, true)
			r.holdBack(ctx, lease, s, failed)
		}
	}
	if err == nil {
		r.asides.told(asker{r.task.Evaluation, s.target.Target()}, false)
	}
	return used
}

// observe tells the limits whether the call was taken, and what the provider said
// is left of them.
func observe(lease *ratelimit.Lease, result *providers.Result, err error) {
	var said []providers.LimitState
	var failed *providers.Error
	switch {
	case err == nil:
		lease.Answered()
		said = result.Limits
	case errors.As(err, &failed):
		if failed.Class == providers.RateLimited || failed.Class == providers.Overloaded {
			lease.Refused(ratelimit.Kind(failed.Exceeded))
		}
		said = failed.Limits
	}
	for _, state := range said {
		if state.Remaining >= 0 && (state.Period == 0 || state.Period == time.Minute) {
			lease.Observe(ratelimit.Kind(state.Kind), state.Remaining)
		}
	}
}

// release gives the lease back. A call that was given up keeps it a little longer,
// because the provider may see the next request before it sees that this
// connection is closed. The provider may not see at all that a connection was cut on
// the way.
func release(lease *ratelimit.Lease, err error) {
	keep := max(abandonedKeep, lease.Jitter())
	switch class := providers.ClassOf(err); {
	case err == nil:
		lease.End(0)
	case class == providers.Timeout, class == providers.Cancelled:
		lease.End(keep)
	case wasCut(err):
		lease.Cut(keep)
	default:
		lease.End(0)
	}
}

// wasCut reports whether a call was sent and no whole answer came.
func wasCut(err error) bool {
	var failed *providers.Error
	return errors.As(err, &failed) && failed.Status == 0 && failed.MayBeBilled
}

// notSent are fields that a model of an evaluation does not support.
type notSent struct {
	evaluation    eval.ID
	model, fields string
}

// sayDropped warns, once for each model of an evaluation and set of dropped parameters, that
// the results do not describe the judge as configured.
func (r *run) sayDropped(call *record.Call) {
	if len(call.Dropped) == 0 {
		return
	}
	fields := strings.Join(call.Dropped, ", ")
	if _, before := r.dropped.LoadOrStore(notSent{r.task.Evaluation, call.Model, fields}, true); !before {
		r.log.Warn().Str("evaluation", string(r.task.Evaluation)).Str("model", call.Model).Str("fields", fields).
			Msg("the model does not support these fields; not sending them")
	}
}

// note keeps a call's record and counts it: as an attempt, a refusal, or a call that
// was cut off.
func (r *run) note(ctx context.Context, s step, call *record.Call, result *providers.Result, err error, timeout time.Duration) error {
	if err == nil {
		r.progress.Attempts++
		call.Status, call.RequestID, call.Usage, call.Named = 200, result.RequestID, result.Usage, result.Model
		call.Text, call.Finish, call.Dropped = result.Text, string(result.Finish), result.Dropped
		r.sayDropped(call)
		if len(result.Others) > 0 {
			call.Key = "" // of several answers one is kept here, which is not what such a call is answered
		}
		if r.task.Kind != eval.KindPrompts {
			result.Grounding.Safety = nil // only what experiments write has it
		}
		call.Evidence(result)
		if lacking := r.lacking(s, result); lacking != nil {
			r.progress.Lacked = lacking.Class
			call.Class, call.Error, call.MaybeBill = lacking.Class, lacking.Message, true
			r.keep(*call)
			return lacking
		}
		r.progress.Answers++
		r.keep(*call)
		return nil
	}
	if errors.Is(err, providers.ErrAgain) {
		r.logger().Info().Err(err).Msg("the provider requires a different form of structured output")
		return err
	}
	if errors.Is(err, providers.ErrNoJSON) { // nothing was sent
		return err
	}
	call.Class, call.Error = providers.ClassOf(err), err.Error()
	var failed *providers.Error
	switch errors.As(err, &failed); {
	case errors.Is(err, ratelimit.ErrLost), call.Class == providers.Cancelled && ctx.Err() != nil: // not ended by the provider
		r.progress.Cut++
	case failed != nil && r.stopsAll(s, failed): // it says nothing of the run
	case failed != nil && r.costsNothing(failed):
		r.progress.Cooled++
	default:
		r.progress.Attempts++
	}
	if failed != nil {
		call.Status, call.RequestID, call.MaybeBill = failed.Status, failed.RequestID, failed.MayBeBilled
		call.Usage = failed.Used
	}
	r.keep(*call)
	if call.Class == providers.Timeout {
		e := s.event(EventTimeout)
		e.TimeoutS = timeout.Seconds()
		r.emit(e)
		r.logger().Warn().Str("event", EventTimeout).Str("provider", s.target.Provider).Str("model", s.target.Model).
			Float64("timeout_s", timeout.Seconds()).Msg("call timed out")
	}
	return err
}

// keep notes a call that is to be recorded.
func (r *run) keep(call record.Call) {
	r.calls = append(r.calls, call)
	r.flight = nil
	r.tellCall(call)
}

func (r *run) tellCall(call record.Call) {
	r.cfg.Calls(call)
	r.hand.call(call)
}
