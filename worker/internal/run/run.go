// Package run holds one pulled run: its question and its progress. It saves both, records the
// outcome, and reports events to observers.
//
// It makes no calls (package call) and decides nothing about them (package ask).
package run

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/record"
	"github.com/evalfleet/evalfleet/store"
	"github.com/evalfleet/evalfleet/worker/internal/evaluations"
	"github.com/evalfleet/evalfleet/worker/internal/ledger"
	"github.com/evalfleet/evalfleet/worker/internal/pulse"
	"github.com/evalfleet/evalfleet/worker/internal/share"
	"github.com/evalfleet/evalfleet/worker/internal/stop"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// Worker is what all runs of a worker's session share.
type Worker struct {
	ID          string
	Log         zerolog.Logger
	Store       *store.Store
	Limiter     *ratelimit.Limiter
	Admin       *ratelimit.Admin
	Ledger      *ledger.Ledger
	Evaluations *evaluations.Cache
	Halts       *evaluations.Halts
	Shares      *share.Shares
	Endpoints   map[string]providers.Endpoint // that can be called, by provider
	Observer    observe.Observer              // complete
	Stopping    *stop.Signal                  // no more calls may begin
	Doubts      Doubts
	Waits       Waits

	names    atomic.Int64 // of calls and writers
	unserved sync.Map     // providers that this worker cannot call, once that was logged
}

// Name returns a name that no other call or pull of a run has.
func (w *Worker) Name() string { return fmt.Sprintf("%s-%d", w.ID, w.names.Add(1)) }

// Queued makes an event of each task that this worker puts into its queue; nil without a
// listener.
func (w *Worker) Queued() func(record.Task, time.Time) {
	if w.Observer.Event == nil {
		return nil
	}
	return func(t record.Task, at time.Time) {
		e := observe.Queued(t, at)
		e.Worker = w.ID
		w.Observer.Event(e)
	}
}

// SayUnserved logs the consequence for runs that need a provider which this worker cannot call,
// once for each provider.
func (w *Worker) SayUnserved(target eval.Judge, consequence string) {
	if _, said := w.unserved.LoadOrStore(target.Provider, true); !said {
		w.Log.Warn().Str("provider", target.Provider).Str("model", target.Model).
			Msg(consequence + ": this provider is not configured here, or its key is missing")
	}
}

// Run is one pulled task on its way to its record. It is used by one goroutine.
type Run struct {
	Task       record.Task
	Queue      string
	Evaluation *evaluations.Evaluation
	Place      plan.Run
	Judge      eval.Judge
	Documents  []eval.Document
	Dimension  string // of a panel: the dimensions asked for now, by ID
	Progress   store.Progress

	on     *Worker
	halted *stop.Signal // no more calls of its evaluation may begin
	clock  struct {     // of Redis
		shown time.Time // zero: not seen yet
		at    time.Time // when it was seen, on this process's clock
	}
	at    share.Stage
	pulse *pulse.Pulse
	calls []record.Call // made and not yet recorded
	hand  *hand         // nil: no listener

	ended     record.Run // as it was recorded, here or by another worker
	cancelled bool       // with its evaluation, before it could be recorded
}

// New returns the run of a task that was pulled from a queue, by the handler of a context.
func New(ctx context.Context, on *Worker, queue string) *Run {
	return &Run{Queue: queue, on: on, pulse: pulse.Of(ctx)}
}

// Calls says that the run makes a call with a timeout next. The handler counts as stuck some time
// after that.
func (r *Run) Calls(timeout time.Duration) { r.pulse.Expect(timeout + pulse.Grace) }

// Waits says that the run waits for room under a limit next, however long that takes; Steps that
// it does not.
func (r *Run) Waits() { r.pulse.Waits() }

// Steps says that the run takes another step, which has a bound.
func (r *Run) Steps() { r.pulse.Expect(pulse.Step) }

// Take says whose run it is. Its waits end with the halt of its evaluation, from now on: before
// its task is checked, so that a pause after the check is noticed. leave must be called when the
// run is over.
func (r *Run) Take(task record.Task) (leave func()) {
	r.Task = task
	if r.on.Observer.Handled != nil {
		r.hand = &hand{began: time.Now()}
	}
	r.halted, leave = r.on.Halts.Enter(task.Evaluation, task.Provider())
	return leave
}

// See notes what Redis's clock shows.
func (r *Run) See(shown time.Time) { r.clock.shown, r.clock.at = shown, time.Now() }

// Now returns the time on Redis's clock, which all times have that another process reads: clocks
// of workers differ. Before See it is this process's.
func (r *Run) Now() time.Time {
	if r.clock.shown.IsZero() {
		return time.Now()
	}
	return r.clock.shown.Add(time.Since(r.clock.at))
}

// Find finds the run's question and model in its evaluation, as of the revision that was read.
// Its error is evaluations.ErrNoRun if the evaluation has no such run.
func (r *Run) Find(ctx context.Context, revision record.Revision) error {
	of, place, err := r.on.Evaluations.Find(ctx, r.Task, revision)
	if err != nil {
		return err
	}
	r.Evaluation, r.Place = of, place
	r.Judge = of.Asked.Asked(r.Task.Kind)[place.Judge]
	shown := of.Asked.Shown(r.Task.Kind)
	r.Documents = []eval.Document{shown[place.First]}
	if place.Second >= 0 {
		r.Documents = append(r.Documents, shown[place.Second])
	}
	if r.Task.Kind == eval.KindPanel {
		r.Dimension = of.Asked.Panel.Dimensions[place.Dimension].ID
	}
	return nil
}

// Plan is the plan that the run is part of.
func (r *Run) Plan() *plan.Plan { return r.Evaluation.Plans[r.Task.Phase] }

// Settings are the settings of the run's evaluation.
func (r *Run) Settings() *record.Settings { return &r.Evaluation.Record.Settings }

// Scope is the scope of a call that the run makes to a model: its own, one in its
// place, or one that makes JSON of an answer.
func (r *Run) Scope(target eval.Judge) ratelimit.Scope {
	return r.Evaluation.Record.Call(r.Task.Kind, r.Place.Judge, target)
}

// Failures counts the failed calls of the current model. Calls that were answered, with a
// verdict or without, are no reason to give up.
func (r *Run) Failures() int {
	return r.Progress.Attempts - r.Progress.Answers - r.Progress.Fallen.Spent
}

// Move notes a new stage of the run.
func (r *Run) Move(to share.Stage) {
	if r.at != to {
		r.on.Shares.Move(r.Queue, r.at, to)
		r.at = to
	}
}

// Rest notes that the run needs no slot now.
func (r *Run) Rest() { r.Move(share.Resting) }

// Leave gives back the run's share of its worker.
func (r *Run) Leave() { r.on.Shares.Leave(r.Queue, r.at) }

// Log is made where there is something to say, which for most runs is never.
func (r *Run) Log() *zerolog.Logger {
	with := r.on.Log.With().Str("evaluation", string(r.Task.Evaluation)).Str("run_id", r.Task.Shown())
	if r.Dimension != "" {
		with = with.Str("agent", r.Judge.Name).Str("dimension", r.Dimension)
	}
	log := with.Logger()
	return &log
}
