package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/hibiken/asynq"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/quarantine"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/record"
	"github.com/evalfleet/evalfleet/store"
)

// inPlace is the longest delay that a run waits out with the worker; longer
// ones it spends in its queue, so that others may be pulled meanwhile.
const inPlace = 10 * time.Second

// notOurs is how long a task stays away that this program cannot work on: another
// worker may be of a version that can.
const notOurs = 15 * time.Second

// reasonIdentical is the reason of a tie between two identical texts.
const reasonIdentical = "identical"

// putBack sends a task back to its queue for a while. It is no failure.
type putBack struct {
	delay time.Duration
	why   string // the same for many runs
	cause error  // in the place of why, where the run was interrupted
}

func (p *putBack) Error() string {
	why := p.why
	if p.cause != nil {
		why = p.cause.Error()
	}
	return fmt.Sprintf("back to the queue for %s: %s", p.delay.Round(time.Millisecond), why)
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
	dimension  string // of a panel: the dimensions asked for now, by ID
	gone       bool   // no server listens at its provider's address, as its last call found
	handedOn   bool   // the runs of its group were pushed, unless recorded
	progress   store.Progress
	ended      record.Run    // as it was recorded, here or by another worker
	cancelled  bool          // with its evaluation, before it could be recorded
	calls      []record.Call // made and not yet recorded
	attempt    int           // number of the call made last; one that the run is not charged for has that of the next
	called     bool          // a call was made, or its lease taken, in this pull
	slot       bool          // of this process, is the run's
	room       int64         // for a long answer, is the run's
	flight     *flight       // the call in flight; nil: none is
	tooLong    time.Duration // the wait at a limit that was declined last
	hand       *hand         // nil: no listener
}

// handle carries one task out. nil ends the task, which asynq then keeps for a
// while or not, as enqueue asked; asynq.RevokeTask ends it without a trace; a
// *putBack sends it back; a *failedRun puts it into asynq's archive.
func (s *session) handle(ctx context.Context, t *asynq.Task) (err error) {
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
	if errors.Is(err, record.ErrNewer) {
		if _, said := s.newer.LoadOrStore(queue, true); !said {
			s.log.Warn().Err(err).Str("queue", queue).Msg("tasks of a newer version are left to workers of that version")
		}
		return &putBack{delay: notOurs, why: "the task is of a newer version"}
	}
	if err != nil {
		s.log.Error().Err(err).Str("queue", queue).Msg("task cannot be read; archived")
		return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
	}
	r.task = task
	r.takeInHand()
	defer func() { r.letGo(err) }()
	var out func()
	r.halted, out = s.halts.enter(task.Evaluation, task.Provider()) // before the check: a pause after it is then noticed
	defer out()
	defer r.leaveRoom()
	ctx = providers.WithReading(ctx, providers.Reading{Most: r.cfg.MaxAnswer, Room: r.takeRoom})
	err = survive(func() error { return r.carryOut(ctx) })
	if err = r.released(ctx, err); err == nil {
		return r.leave(t.ResultWriter())
	}
	return err
}

// released decides what happens to the task of a run whose handler returned err. nil: the run
// is recorded.
func (r *run) released(ctx context.Context, err error) error {
	var back *putBack
	var panicked *panicked
	switch {
	case err == nil:
		return nil
	case errors.As(err, &back) || errors.Is(err, asynq.RevokeTask):
		return err
	case errors.Is(err, store.ErrNoEvaluation):
		return asynq.RevokeTask // deleted
	case errors.Is(err, store.ErrTaken):
		return &putBack{why: "another worker has it"} // or had it: then read again
	case errors.As(err, &panicked):
		return r.faulted(err)
	case ctx.Err() != nil || r.stopping.Err() != nil || errors.Is(err, ratelimit.ErrFenced):
		// Stopped, fenced, or asynq's lease is over. Where the task is still
		// ours it goes back; where it is not, the gate changes nothing.
		if r.called {
			if err := r.save(); err != nil && !errors.Is(err, store.ErrTaken) {
				r.logger().Warn().Err(err).Int("calls", len(r.calls)).Msg("calls of a stopped run are not recorded")
			}
		}
		return &putBack{why: "the worker stops"}
	case r.called:
		return r.faulted(err)
	case quarantine.Concerns(err):
		r.quarantine.Takes(r.task.Evaluation, err)
		return &putBack{delay: notOurs, why: "its evaluation cannot be read"}
	}
	r.logger().WithLevel(levelOf(err)).Err(err).Msg("run interrupted; it goes back to its queue")
	return &putBack{delay: time.Second, cause: err}
}

// carryOut takes the run to its record, or returns a *putBack, or
// asynq.RevokeTask for a task that is to be dropped.
func (r *run) carryOut(ctx context.Context) error {
	if over, err := r.begun(ctx); over || err != nil {
		return err
	}
	if r.leads() {
		if over, err := r.askTogether(ctx); over || err != nil {
			return err
		}
	}
	return r.ask(ctx)
}

// begun determines the run's question and model, if the run is still wanted. over: it is
// already recorded, and no call is needed.
func (r *run) begun(ctx context.Context) (over bool, err error) {
	checked, err := r.store.Check(ctx, r.task)
	if err != nil {
		return false, err
	}
	progress := checked.Progress
	if checked.Verdict != store.VerdictRun {
		if progress.Job != nil {
			r.progress = progress
			return false, r.dropJob()
		}
		r.logger().Debug().Str("why", string(checked.Verdict)).Msg("task dropped")
		return false, asynq.RevokeTask
	}
	r.progress = progress
	r.progress.Writer = fmt.Sprintf("%s-%d", r.id, r.named.Add(1))
	r.evaluation, r.place, err = r.evaluations.find(ctx, r.task, checked.Revision)
	if errors.Is(err, errNoRun) {
		r.logger().Error().Err(err).Msg("task dropped")
		return false, asynq.RevokeTask
	}
	if err != nil {
		return false, err
	}
	if r.evaluation.record.Phases[r.task.Phase].JudgeQueues[r.place.Judge] != r.queue {
		// Pushed for an evaluation that was deleted since, and submitted again with limits
		// that give the run another queue. There it has a task, too.
		r.logger().Debug().Str("why", "other queue").Msg("task dropped")
		return false, asynq.RevokeTask
	}
	asked := r.evaluation.asked
	r.judge = asked.Asked(r.task.Kind)[r.place.Judge]
	shown := asked.Shown(r.task.Kind)
	r.documents = []eval.Document{shown[r.place.First]}
	if r.place.Second >= 0 {
		r.documents = append(r.documents, shown[r.place.Second])
	}
	if r.task.Kind == eval.KindPanel {
		r.dimension = asked.Panel.Dimensions[r.place.Dimension].ID
	}
	r.emit(Event{Event: EventStarted})
	switch {
	case progress.Deaths >= record.MaxDeaths:
		return true, r.giveUp(&gaveUp{class: providers.Lost, message: fmt.Sprintf("%d workers died with this run", progress.Deaths)})
	case progress.Faults >= record.MaxFaults:
		return true, r.giveUp(&gaveUp{class: providers.Lost, message: fmt.Sprintf("evalfleet failed %d times at this run", progress.Faults)})
	case progress.Cut >= record.MaxCut:
		return true, r.giveUp(cutOff())
	}
	if r.task.Kind == eval.KindPairwise && r.documents[0].Hash == r.documents[1].Hash {
		return true, r.succeed(record.Run{Winner: eval.Tie, Reason: reasonIdentical})
	}
	if _, able := r.cfg.Endpoints[r.judge.Provider]; !able { // of a group whose queue has others' runs besides
		return false, r.unable(r.judge)
	}
	if err := r.pause(ctx, time.Until(progress.NotBefore), "held back before"); err != nil {
		return false, err
	}
	if r.progress.Started.IsZero() {
		r.progress.Started = time.Now()
	}
	return false, nil
}

func (r *run) plan() *plan.Plan { return r.evaluation.plans[r.task.Phase] }

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
		return r.goBack(delay, "its evaluation is not active")
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
	if err == nil || errors.Is(err, store.ErrTaken) {
		r.recordedCalls()
	}
	return err
}

// recordedCalls notes that the calls made so far are recorded.
func (r *run) recordedCalls() {
	if r.evaluation != nil {
		r.life.kept.putCalls(r.task.Evaluation, r.calls, r.evaluation.record.Created)
	}
	r.calls = nil
}

// move notes a new stage of the run.
func (r *run) move(to stage) {
	if r.at != to {
		r.budget.move(r.queue, r.at, to)
		r.at = to
	}
}

// succeed records the run's outcome, and those of others that were asked together
// with it.
func (r *run) succeed(outcome record.Run, others ...record.Run) error {
	return r.record(eval.StateSucceeded, outcome, others...)
}

// giveUp is fail of a run that may have a job under way, which is cancelled.
func (r *run) giveUp(why *gaveUp) error {
	if err := r.withdraw(); err != nil {
		return err
	}
	return r.fail(why)
}

// cutOff ends a run whose calls were cut off too often.
func cutOff() *gaveUp {
	return &gaveUp{class: providers.Lost, message: fmt.Sprintf("%d calls were cut off before they were answered, with their worker or with their lease", record.MaxCut)}
}

func (r *run) fail(why *gaveUp) error {
	r.emit(Event{Event: EventFailed, Class: why.class, StatusCode: &why.status, ElapsedS: r.elapsed().Seconds()})
	r.logger().Error().Str("event", EventFailed).Str("provider", r.judge.Provider).Str("model", r.judge.Model).
		Str("class", string(why.class)).Int("attempts", r.progress.Attempts).Int("status_code", why.status).
		Float64("elapsed_s", r.elapsed().Seconds()).Msg("run failed: " + why.message)
	outcome := record.Run{Class: why.class, Error: why.message}
	if r.task.Kind == eval.KindPanel {
		outcome.Reason = r.argumentOf(why.class)
	}
	return r.record(eval.StateFailed, outcome)
}

func (r *run) elapsed() time.Duration {
	if r.progress.Started.IsZero() {
		return 0
	}
	return time.Since(r.progress.Started)
}

// record writes the run's outcome, and those of runs asked together with it, with the calls not
// recorded before. It continues when the worker is stopping or was fenced: paid answers are
// kept, and the script records a run only once, from any worker.
func (r *run) record(state eval.State, outcome record.Run, others ...record.Run) error {
	r.move(resting)
	if r.leads() { // once it is recorded, the others are not looked after
		err := r.life.persist(func(ctx context.Context) error { return r.handOn(ctx, others) })
		if err != nil {
			return err
		}
	}
	outcome.Index, outcome.Generation, outcome.Dimension = r.task.Index, r.task.Generation, r.dimension
	return r.recordAll(state, append([]record.Run{outcome}, others...))
}

// recordAll writes outcomes down in one step; Index, Generation and Dimension of
// others than the run's own are set.
func (r *run) recordAll(state eval.State, outcomes []record.Run) error {
	encoded := make([]store.Outcome, len(outcomes))
	calls := r.calls
	for i := range outcomes {
		r.complete(&outcomes[i])
		var err error
		if encoded[i], err = store.Encode(r.task.Evaluation, state, outcomes[i], calls); err != nil {
			return err
		}
		calls = nil // they are stored with the first
	}
	recorded, err := r.put(encoded)
	for _, o := range encoded {
		keep := keptOutcome{Outcome: o, created: r.evaluation.record.Created}
		switch {
		case errors.Is(err, store.ErrNoEvaluation):
			keep.created = time.Time{}
		case err != nil:
			return err
		}
		r.life.kept.put(keep)
	}
	if err != nil {
		return err
	}
	r.calls = nil
	for i, outcome := range outcomes {
		outcome.State = state.String()
		e := Event{Event: EventSucceeded, ElapsedS: r.elapsed().Seconds()}
		if outcome.Index == r.task.Index {
			r.ended, r.cancelled = outcome, recorded[i].Cancelled
			if recorded[i].Once {
				r.hand.recorded(outcome)
			}
		} else {
			e.RunID, e.Dimension = outcome.RunID(r.task.Evaluation).Short(), outcome.Dimension
		}
		if recorded[i].Streak >= record.MaxStreak {
			r.pauseProvider(record.Pause{Class: outcome.Class, Message: outcome.Error, Runs: recorded[i].Streak})
		}
		if recorded[i].Once && state == eval.StateSucceeded {
			r.emit(e)
		}
	}
	return nil
}

// complete adds what all outcomes of the run have in common.
func (r *run) complete(outcome *record.Run) {
	outcome.Phase, outcome.Kind, outcome.Queue, outcome.Name = r.task.Phase, r.task.Kind, r.queue, r.task.Name
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
}

// put records outcomes in one step, and says what became of each.
func (r *run) put(encoded []store.Outcome) (done []store.Recorded, err error) {
	err = r.life.persist(func(ctx context.Context) (err error) {
		if len(encoded) > 1 {
			done, err = r.store.PutAll(ctx, encoded)
			return err
		}
		one, err := r.store.Put(ctx, encoded[0])
		done = []store.Recorded{one}
		return err
	})
	return done, err
}

// logger is made where there is something to say, which for most runs is never.
func (r *run) logger() *zerolog.Logger {
	with := r.log.With().Str("evaluation", string(r.task.Evaluation)).Str("run_id", r.task.Shown())
	if r.dimension != "" {
		with = with.Str("agent", r.judge.Name).Str("dimension", r.dimension)
	}
	log := with.Logger()
	return &log
}

// emitQueueing says that a call waits for admission.
func (r *run) emitQueueing(s step) {
	if r.unheard() {
		return
	}
	e := s.event(EventQueueing)
	e.QueueDepth = r.budget.depth(r.queue)
	r.emit(e)
}

// emit completes an event and hands it on.
func (r *run) emit(e Event) {
	if r.unheard() {
		return
	}
	e = r.completed(e)
	r.hand.event(e)
	if r.cfg.Events != nil {
		r.cfg.Events(e)
	}
}

// unheard reports whether events have no listener.
func (r *run) unheard() bool { return r.cfg.Events == nil && r.hand == nil }

// completed is an event with what all of the run's have in common.
func (r *run) completed(e Event) Event {
	e.Time = time.Now().UTC()
	e.Evaluation, e.Worker = r.task.Evaluation, r.id
	e.RunID = cmp.Or(e.RunID, r.task.Shown())
	if r.dimension != "" {
		e.Agent, e.Dimension = r.judge.Name, cmp.Or(e.Dimension, r.dimension)
	}
	if e.Model == "" { // of no single call
		e.Provider, e.Model = r.judge.Provider, r.judge.Model
	}
	return e
}

// emitSlots is emit of an event about a lease. ending calls are counted no more.
func (r *run) emitSlots(e Event, lease *ratelimit.Lease, ending int64) {
	if r.unheard() {
		return
	}
	n := max(0, lease.InFlight()-ending)
	e.ActiveSlots = &n
	r.emit(e)
}

// grow makes room on the stack of a goroutine that asynq made for one task. It
// would be copied four times on the way to what encoding needs.
//
//go:noinline
func grow() {
	var frame [10 << 10]byte
	runtime.KeepAlive(&frame)
}
