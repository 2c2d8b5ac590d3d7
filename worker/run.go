package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/hibiken/asynq"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/internal/store"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// inPlace is the longest delay that a run waits out with the worker; longer
// ones it spends in its queue, so that others may be pulled meanwhile.
const inPlace = 10 * time.Second

// reasonIdentical is the reason of a tie between two identical texts.
const reasonIdentical = "identical"

// putBack sends a task back to its queue for a while. It is no failure.
type putBack struct {
	delay time.Duration
	why   string
}

func (p *putBack) Error() string {
	return fmt.Sprintf("back to the queue for %s: %s", p.delay.Round(time.Millisecond), p.why)
}

// run is one pulled task on its way to its record. It is used by one goroutine.
type run struct {
	*session
	task       record.Task
	queue      string
	at         stage
	evaluation *evaluation
	halted     context.Context // ends when no more calls of its evaluation may be begun
	place      plan.Run
	judge      eval.Judge
	documents  []eval.Document
	progress   store.Progress
	ended      record.Run    // as it was recorded, here or by another worker
	calls      []record.Call // made and not yet recorded
	made       int           // calls made by this worker, for their ids
	tooLong    time.Duration // the wait at a limit that was declined last
}

// handle carries one task out. nil ends the task, which asynq then keeps for a
// while or not, as enqueue asked; asynq.RevokeTask ends it without a trace; a
// *putBack sends it back; a *failedRun puts it into asynq's archive.
func (s *session) handle(ctx context.Context, t *asynq.Task) error {
	grow()
	leave, ok := s.life.begin()
	if !ok {
		return &putBack{why: "the worker has ended"}
	}
	defer leave()
	queue, _ := asynq.GetQueueName(ctx)
	r := &run{session: s, queue: queue}
	defer func() { s.budget.leave(queue, r.at) }()
	task, err := record.DecodeTask(t.Payload())
	if err != nil {
		s.log.Error().Err(err).Str("queue", queue).Msg("task cannot be read; archived")
		return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
	}
	r.task = task
	var out func()
	r.halted, out = s.halts.enter(task.Evaluation, task.Provider()) // before the check: a pause after it is then noticed
	defer out()
	err = r.carryOut(ctx)
	var back *putBack
	switch {
	case err == nil:
		return r.leave(t.ResultWriter())
	case errors.As(err, &back) || errors.Is(err, asynq.RevokeTask):
		return err
	case errors.Is(err, store.ErrNoEvaluation):
		return asynq.RevokeTask // deleted: nobody waits for it
	case ctx.Err() != nil || s.stopping.Err() != nil || errors.Is(err, ratelimit.ErrFenced):
		// Stopped, fenced, or asynq's lease is over. Where the task is still
		// ours it goes back; where it is not, the gate changes nothing.
		if len(r.calls) > 0 {
			err = r.life.persist(func(ctx context.Context) error {
				return r.store.AppendCalls(ctx, task.Evaluation, r.calls)
			})
			if err != nil {
				r.logger().Warn().Err(err).Int("calls", len(r.calls)).Msg("calls of a stopped run are not recorded")
			}
		}
		return &putBack{why: "the worker stops"}
	}
	r.logger().WithLevel(levelOf(err)).Err(err).Msg("run interrupted; it goes back to its queue")
	return &putBack{delay: time.Second, why: err.Error()}
}

// carryOut takes the run to its record, or returns a *putBack, or
// asynq.RevokeTask for a task that is to be dropped.
func (r *run) carryOut(ctx context.Context) error {
	checked, progress, err := r.store.Check(ctx, r.task)
	if err != nil {
		return err
	}
	if checked != store.VerdictRun {
		r.logger().Debug().Str("why", string(checked)).Msg("task dropped")
		return asynq.RevokeTask
	}
	r.progress = progress
	if r.evaluation, err = r.evaluations.load(ctx, r.task.Evaluation); err != nil {
		return err
	}
	if r.place, err = r.evaluation.run(r.task); err != nil {
		r.logger().Error().Err(err).Msg("task dropped")
		return asynq.RevokeTask
	}
	asked := r.evaluation.asked
	r.judge = asked.Asked(r.task.Kind)[r.place.Judge]
	shown := asked.Shown(r.task.Kind)
	r.documents = []eval.Document{shown[r.place.First]}
	if r.place.Second >= 0 {
		r.documents = append(r.documents, shown[r.place.Second])
	}
	r.emit(Event{Event: EventStarted})
	if progress.Deaths >= record.MaxDeaths {
		return r.fail(&gaveUp{class: providers.Lost, message: fmt.Sprintf("%d workers died with this run", progress.Deaths)})
	}
	if r.task.Kind == eval.KindPairwise && r.documents[0].Hash == r.documents[1].Hash {
		return r.succeed(record.Run{Winner: eval.Tie, Reason: reasonIdentical})
	}
	if err := r.pause(ctx, time.Until(progress.NotBefore), "held back before"); err != nil {
		return err
	}
	if r.progress.Started.IsZero() {
		r.progress.Started = time.Now()
	}
	return r.ask(ctx)
}

// pause waits a short delay in place and sends the run back for a long one, in
// either case without a lease.
func (r *run) pause(ctx context.Context, delay time.Duration, why string) error {
	if delay <= 0 {
		return nil
	}
	if delay > inPlace {
		return r.goBack(delay, why)
	}
	r.move(resting)
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-r.stopping.Done():
		return r.goBack(delay, "the worker stops")
	case <-r.halted.Done():
		return r.goBack(delay, "its evaluation does not go on")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// goBack keeps what the next worker must know and sends the task back.
func (r *run) goBack(delay time.Duration, why string) error {
	r.progress.NotBefore = time.Now().Add(delay)
	if err := r.save(); err != nil {
		return err
	}
	return &putBack{delay: delay, why: why}
}

// save keeps what the next worker must know, whenever it comes.
func (r *run) save() error {
	err := r.life.persist(func(ctx context.Context) error {
		return r.store.SaveProgress(ctx, r.task, r.progress, r.calls)
	})
	if err == nil {
		r.calls = nil
	}
	return err
}

// move notes a new stage of the run.
func (r *run) move(to stage) {
	if r.at != to {
		r.budget.move(r.queue, r.at, to)
		r.at = to
	}
}

func (r *run) succeed(outcome record.Run) error {
	return r.record(eval.StateSucceeded, outcome)
}

func (r *run) fail(why *gaveUp) error {
	r.emit(Event{Event: EventFailed, Class: why.class, StatusCode: &why.status, ElapsedS: r.elapsed().Seconds()})
	r.logger().Error().Str("class", string(why.class)).Int("attempts", r.progress.Attempts).Msg("run failed: " + why.message)
	return r.record(eval.StateFailed, record.Run{Class: why.class, Error: why.message})
}

func (r *run) elapsed() time.Duration {
	if r.progress.Started.IsZero() {
		return 0
	}
	return time.Since(r.progress.Started)
}

// record writes the run's outcome down, with the calls not recorded before. It
// goes on when the worker is stopping or was fenced: what was paid for is kept,
// and the script records a run once, whoever comes.
func (r *run) record(state eval.State, outcome record.Run) error {
	r.move(resting)
	outcome.Phase, outcome.Index, outcome.Generation = r.task.Phase, r.task.Index, r.task.Generation
	outcome.Kind, outcome.Queue, outcome.Name = r.task.Kind, r.queue, r.task.Name
	outcome.Judge, outcome.Model = r.judge.Name, r.judge.Target()
	outcome.Item, outcome.Trial = r.evaluation.asked.Items[r.documents[0].Item].ID, r.place.Trial
	for _, d := range r.documents {
		outcome.Documents = append(outcome.Documents, d.ID)
		outcome.Candidates = append(outcome.Candidates, d.Candidate)
	}
	outcome.Attempts, outcome.Worker, outcome.Tally = r.progress.Attempts, r.id, r.progress.Fallen.Tally
	outcome.Ended = time.Now().UTC()
	outcome.Started = r.progress.Started.UTC()
	if r.progress.Started.IsZero() {
		outcome.Started = outcome.Ended
	}
	encoded, err := store.Encode(r.task.Evaluation, state, outcome, r.calls)
	if err != nil {
		return err
	}
	var done store.Recorded
	err = r.life.persist(func(ctx context.Context) (err error) {
		done, err = r.store.Put(ctx, encoded)
		return err
	})
	keep := keptOutcome{Outcome: encoded, created: r.evaluation.record.Created}
	switch {
	case errors.Is(err, store.ErrNoEvaluation):
		keep.created = time.Time{}
		r.life.kept.put(keep)
		return err
	case err != nil:
		return err
	}
	r.life.kept.put(keep)
	outcome.State = state.String()
	r.calls, r.ended = nil, outcome
	if done.Streak >= record.MaxStreak {
		r.pauseProvider(record.Pause{Class: outcome.Class, Message: outcome.Error, Runs: done.Streak})
	}
	if done.Once && state == eval.StateSucceeded {
		r.emit(Event{Event: EventSucceeded, ElapsedS: r.elapsed().Seconds()})
	}
	return nil
}

// logger is made where there is something to say, which for most runs is never.
func (r *run) logger() *zerolog.Logger {
	log := r.log.With().Str("evaluation", string(r.task.Evaluation)).Str("run_id", r.task.Shown()).Logger()
	return &log
}

// emit completes an event and hands it on.
func (r *run) emit(e Event) {
	if r.cfg.Events == nil {
		return
	}
	e.Time = time.Now().UTC()
	e.Evaluation, e.RunID, e.Worker = r.task.Evaluation, r.task.Shown(), r.id
	if e.Model == "" { // of no single call
		e.Provider, e.Model = r.judge.Provider, r.judge.Model
	}
	r.cfg.Events(e)
}

// grow makes room on the stack of a goroutine that asynq made for one task. It
// would be copied four times on the way to what encoding needs.
//
//go:noinline
func grow() {
	var frame [10 << 10]byte
	runtime.KeepAlive(&frame)
}
