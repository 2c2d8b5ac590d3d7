// Package task handles pulled tasks: it checks a task, has its question asked, and records the
// outcome or returns the task to its queue.
package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/queue/quarantine"
	"github.com/evalfleet/evalfleet/internal/redisx/outage"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/internal/ask"
	"github.com/evalfleet/evalfleet/worker/internal/call"
	"github.com/evalfleet/evalfleet/worker/internal/evaluations"
	"github.com/evalfleet/evalfleet/worker/internal/fallback"
	"github.com/evalfleet/evalfleet/worker/internal/run"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// notOurs is how long a task that this program cannot process stays in its queue: another worker may run a version that
// can.
const notOurs = 15 * time.Second

// Handler handles the tasks of a worker's session.
type Handler struct {
	Worker     *run.Session
	Caller     *call.Caller
	Quarantine *quarantine.Quarantine

	refusals  fallback.Refusals
	newer     sync.Map // queues with tasks of a newer version, once logged
	wordsOnly sync.Map // models without a JSON mode, by provider:model, once logged
	noBatches sync.Map // models that cannot be asked in batches from here, by provider:model, once logged
}

// Keep drops what the handler remembers of evaluations that are not active.
func (h *Handler) Keep(active map[eval.ID]bool) {
	h.refusals.Keep(active)
	h.Caller.Keep(active)
}

// pull is one task from its pull until the worker lets go of it.
type pull struct {
	by       *Handler
	run      *run.Execution
	calls    *call.Calls
	asker    *ask.Asker
	handedOn bool // the open runs of its group were pushed
}

// Handle processes one task. nil ends the task, which asynq then keeps for a while or not, as enqueue asked;
// asynq.RevokeTask ends it without a trace; a *run.PutBack returns it to its queue; a *failedRun puts it into asynq's
// archive.
func (h *Handler) Handle(ctx context.Context, t *asynq.Task) (err error) {
	grow()
	queue, _ := asynq.GetQueueName(ctx)
	r := run.New(ctx, h.Worker, queue)
	defer r.Leave()
	task, err := record.DecodeTask(t.Payload())
	if errors.Is(err, record.ErrNewer) {
		if _, said := h.newer.LoadOrStore(queue, true); !said {
			h.Worker.Log.Warn().Err(err).Str("queue", queue).Msg("leaving tasks of a newer version to workers of that version")
		}
		return &run.PutBack{Delay: notOurs, Why: "the task has a newer version"}
	}
	if err != nil {
		h.Worker.Log.Error().Err(err).Str("queue", queue).Msg("cannot read task; archived it")
		return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
	}

	out := r.Take(task)
	defer func() { r.LetGo(whyOf(err)) }()
	defer out()
	chain := fallback.New(h.Worker, &h.refusals, r)
	calls := h.Caller.Of(r, chain)
	defer calls.LeaveRoom()
	p := &pull{by: h, run: r, calls: calls, asker: ask.New(h.Worker, h.Caller.Tokens, r, calls, chain)}
	ctx = providers.WithReading(ctx, calls.Reading())
	if err = p.released(ctx, p.carryOut(ctx)); err == nil {
		return p.leave(t.ResultWriter())
	}
	return err
}

// whyOf returns why a task was let go of without being recorded, and for how long. The reason is a few words that many
// runs share.
func whyOf(err error) (why string, delay time.Duration) {
	var back *run.PutBack
	switch {
	case errors.As(err, &back):
		return cmp.Or(back.Why, "interrupted"), back.Delay
	case errors.Is(err, asynq.RevokeTask):
		return "dropped", 0
	case err != nil:
		return "archived", 0
	}
	return "recorded before", 0
}

// released decides what happens to the task of a run whose handler returned err. nil means that the run is recorded.
func (p *pull) released(ctx context.Context, err error) error {
	var back *run.PutBack
	var panicked *panicked
	switch {
	case err == nil:
		return nil
	case errors.As(err, &back) || errors.Is(err, asynq.RevokeTask):
		return err
	case errors.Is(err, store.ErrNoEvaluation):
		return asynq.RevokeTask // deleted
	case errors.Is(err, store.ErrTaken):
		return &run.PutBack{Why: "another worker has it"} // or has had it since: then the task is read again
	case errors.As(err, &panicked):
		return p.faulted(ctx, err)
	case ctx.Err() != nil || p.by.Worker.Stopping.Given() != nil || errors.Is(err, ratelimit.ErrFenced):
		// Stopped, fenced, or asynq's lease is over. If the task is still ours it returns to its queue; otherwise the
		// gate changes nothing.
		if p.calls.Made() {
			if err := p.run.Save(ctx); err != nil && !errors.Is(err, store.ErrTaken) {
				p.run.Log().Warn().Err(err).Int("calls", p.run.Unsaved()).Msg("cannot record calls of a stopped run")
			}
		}
		return &run.PutBack{Why: "the worker stops"}
	case p.calls.Made():
		return p.faulted(ctx, err)
	case quarantine.Concerns(err):
		p.by.Quarantine.Takes(p.run.Task.Evaluation, err)
		return &run.PutBack{Delay: notOurs, Why: "its evaluation cannot be read"}
	}

	p.run.Log().WithLevel(outage.Level(err)).Err(err).Msg("run interrupted; returning it to its queue")
	return &run.PutBack{Delay: time.Second, Cause: err}
}

// carryOut processes the run until it is recorded. It returns a *run.PutBack, or asynq.RevokeTask for a task to drop.
// It returns a panic as an error.
func (p *pull) carryOut(ctx context.Context) (err error) {
	defer survive(&err)
	if over, err := p.begun(ctx); over || err != nil {
		return err
	}
	if p.leads() {
		if over, err := p.askTogether(ctx); over || err != nil {
			return err
		}
	}
	if job := p.run.Progress.Job; job != nil && job.Runs > 0 && p.run.Task.Batch == nil {
		if err := p.calls.Withdraw(ctx); err != nil { // its evaluation was submitted anew without batches
			return err
		}
	}
	if p.run.Task.Batch != nil {
		if over, err := p.askInBatch(ctx); over || err != nil {
			return err
		}
	}

	outcome, err := p.asker.Ask(ctx)
	var over *run.GaveUp
	switch {
	case errors.As(err, &over):
		return p.fail(ctx, over)
	case err != nil:
		return err
	}
	return p.succeed(ctx, *outcome)
}

// begun determines the run's question and model, if the run is still wanted. over means that it is already recorded, so
// no call is needed.
func (p *pull) begun(ctx context.Context) (over bool, err error) {
	r, on := p.run, p.by.Worker
	checked, err := on.Store.Check(ctx, r.Task)
	if err != nil {
		return false, err
	}

	r.Progress = checked.Progress
	r.See(checked.Now)
	if checked.Verdict != store.VerdictRun {
		if r.Progress.Job != nil {
			return false, p.dropJob(ctx)
		}
		r.Log().Debug().Str("why", string(checked.Verdict)).Msg("task dropped")
		return false, asynq.RevokeTask
	}

	r.Progress.Writer = on.Name()
	if err = r.Find(ctx, checked.Revision); errors.Is(err, evaluations.ErrNoRun) {
		r.Log().Error().Err(err).Msg("task dropped")
		return false, asynq.RevokeTask
	}
	if err != nil {
		return false, err
	}
	if r.Evaluation.Record.Phases[r.Task.Phase].JudgeQueues[r.Place.Judge] != r.Queue {
		// Pushed for an evaluation that was deleted since, and submitted again with limits that give the run another
		// queue, which has a task for it, too.
		r.Log().Debug().Str("why", "other queue").Msg("task dropped")
		return false, asynq.RevokeTask
	}
	r.Emit(observe.Event{Event: observe.EventStarted})
	switch {
	case r.Progress.Deaths >= record.MaxDeaths:
		return true, p.giveUp(ctx, &run.GaveUp{Class: providers.Lost, Message: fmt.Sprintf("%d workers died with this run", r.Progress.Deaths)})
	case r.Progress.Faults >= record.MaxFaults:
		return true, p.giveUp(
			ctx,
			&run.GaveUp{Class: providers.Lost, Message: fmt.Sprintf("evalfleet failed %d times at this run", r.Progress.Faults)},
		)
	case r.Progress.Cut >= record.MaxCut:
		return true, p.giveUp(ctx, run.CutOff())
	}

	if r.Task.Kind == eval.KindPairwise {
		if winner, reason, decided := r.Evaluation.Asked.Decided(r.Documents[0], r.Documents[1]); decided {
			if err := p.passOn(ctx); err != nil {
				return false, err
			}
			return true, p.succeed(ctx, record.Run{Winner: winner, Reason: reason})
		}
	}
	if _, able := on.Endpoints[r.Judge.Provider]; !able { // its queue also has runs of other providers
		return false, p.asker.Unable(ctx, r.Judge)
	}
	if err := r.Pause(ctx, r.HeldBack(), "its wait is not over"); err != nil {
		return false, err
	}
	if r.Progress.Started.IsZero() {
		r.Progress.Started = r.Now()
	}
	return false, nil
}

// dropJob cancels the job of a run that is no longer wanted, and drops the run's task.
func (p *pull) dropJob(ctx context.Context) error {
	if err := p.calls.Withdraw(ctx); err != nil {
		return err
	}
	p.by.Worker.Ledger.DropProgress(p.run.Task.RunID())
	err := p.run.Persist(ctx, func(ctx context.Context) error {
		if err := p.run.SaveCalls(ctx); err != nil {
			return err
		}
		return p.by.Worker.Store.ForgetProgress(ctx, p.run.Task.RunID())
	})
	if err != nil {
		return err
	}
	return asynq.RevokeTask
}

// giveUp cancels the run's job, if there is one, and records the run as failed. It returns a panic as an error.
func (p *pull) giveUp(ctx context.Context, why *run.GaveUp) (err error) {
	defer survive(&err)
	if err := p.calls.Withdraw(ctx); err != nil {
		return err
	}
	return p.fail(ctx, why)
}

func (p *pull) fail(ctx context.Context, why *run.GaveUp) error {
	r := p.run
	r.Emit(observe.Event{Event: observe.EventFailed, Class: why.Class, StatusCode: &why.Status, ElapsedS: r.Elapsed().Seconds()})
	r.Log().Error().Str("event", observe.EventFailed).Str("provider", r.Judge.Provider).Str("model", r.Judge.Model).
		Str("class", string(why.Class)).Int("attempts", r.Progress.Attempts).Int("status_code", why.Status).
		Float64("elapsed_s", r.Elapsed().Seconds()).Msg("run failed: " + why.Message)
	outcome := record.Run{Class: why.Class, Error: why.Message}
	if r.Task.Kind == eval.KindPanel {
		outcome.Reason = p.argumentOf(why.Class)
	}
	return p.record(ctx, eval.StateFailed, outcome)
}

// succeed records the run's outcome, and the outcomes of runs that were asked together with it.
func (p *pull) succeed(ctx context.Context, outcome record.Run, others ...record.Run) error {
	return p.record(ctx, eval.StateSucceeded, outcome, others...)
}

// record records the run's outcome, and those of runs asked together with it.
func (p *pull) record(ctx context.Context, state eval.State, outcome record.Run, others ...record.Run) error {
	r := p.run
	r.Rest()
	if p.leads() { // once the leader is recorded, nothing pushes the others
		err := r.Persist(ctx, func(ctx context.Context) error { return p.handOn(ctx, others) })
		if err != nil {
			return err
		}
	}
	outcome.Index, outcome.Generation, outcome.Dimension = r.Task.Index, r.Task.Generation, r.Dimension
	return r.Record(ctx, state, append([]record.Run{outcome}, others...))
}

// grow makes room on the stack of a goroutine that asynq made for one task. Otherwise the stack would be copied four
// times before it is large enough for encoding.
//
//go:noinline
func grow() {
	var frame [10 << 10]byte
	runtime.KeepAlive(&frame)
}
