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

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/internal/evaluations"
	"github.com/evalfleet/evalfleet/worker/internal/ledger"
	"github.com/evalfleet/evalfleet/worker/internal/pulse"
	"github.com/evalfleet/evalfleet/worker/internal/share"
	"github.com/evalfleet/evalfleet/worker/internal/stop"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// Session holds what all runs of a worker's session share.
type Session struct {
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
	Stopping    *stop.Signal                  // given when no more calls may begin
	Doubts      Doubts
	Waits       Waits

	names    atomic.Int64 // of calls and writers
	unserved sync.Map     // providers that this worker cannot call and that were logged
}

// Name returns a name that no other call or pull of a run has.
func (s *Session) Name() string { return fmt.Sprintf("%s-%d", s.ID, s.names.Add(1)) }

// Queued returns a function that emits an event for each task that this worker puts into its queue; nil without a
// listener.
func (s *Session) Queued() func(record.Task, time.Time) {
	if s.Observer.Event == nil {
		return nil
	}
	return func(t record.Task, at time.Time) {
		e := observe.Queued(t, at)
		e.Worker = s.ID
		s.Observer.Event(e)
	}
}

// SayUnserved logs the consequence for runs that need a provider which this worker cannot call, once for each provider.
func (s *Session) SayUnserved(target eval.Judge, consequence string) {
	if _, said := s.unserved.LoadOrStore(target.Provider, true); !said {
		s.Log.Warn().Str("provider", target.Provider).Str("model", target.Model).
			Msg(consequence + ": this provider is not configured here, or its key is missing")
	}
}

// Execution is one pulled task on its way to its record. It is used by one goroutine.
type Execution struct {
	Task       record.Task
	Queue      string
	Evaluation *evaluations.Cached
	Place      plan.Run
	Judge      eval.Judge
	Documents  []eval.Document
	Dimension  string // of a panel: the dimensions asked for now, by ID
	Progress   store.Progress

	on     *Session
	halted *stop.Signal // given when no more calls of its evaluation may begin
	clock  struct {     // of Redis
		shown time.Time // zero: not seen yet
		at    time.Time // when it was seen, on this process's clock
	}
	at    share.Stage
	pulse *pulse.Pulse
	calls []record.Call // made and not yet recorded
	hand  *hand         // nil: no listener

	ended     record.Run // as this or another worker recorded it
	cancelled bool       // its evaluation was cancelled before it could be recorded
}

// New returns the run of a task that was pulled from a queue. ctx is the task handler's.
func New(ctx context.Context, on *Session, queue string) *Execution {
	return &Execution{Queue: queue, on: on, pulse: pulse.Of(ctx)}
}

// Calls notes that the run is about to make a call with a timeout. The handler counts as stuck pulse.Grace after the
// timeout.
func (r *Execution) Calls(timeout time.Duration) { r.pulse.Expect(timeout + pulse.Grace) }

// Waits notes that the run is about to wait for room under a limit, which may take any time. Steps ends this.
func (r *Execution) Waits() { r.pulse.Waits() }

// Steps notes that the run is about to take a step of bounded length.
func (r *Execution) Steps() { r.pulse.Expect(pulse.Step) }

// Take sets the run's task. From then on, the run's waits end when its evaluation is halted. Call it before the task is
// checked, so that a pause after the check is noticed, and call leave when the run is over.
func (r *Execution) Take(task record.Task) (leave func()) {
	r.Task = task
	if r.on.Observer.Handled != nil {
		r.hand = &hand{began: time.Now()}
	}
	r.halted, leave = r.on.Halts.Enter(task.Evaluation, task.Provider())
	return leave
}

// See records the time that Redis's clock shows.
func (r *Execution) See(shown time.Time) { r.clock.shown, r.clock.at = shown, time.Now() }

// Now returns the time on Redis's clock, used for all times that another process reads, because the clocks of workers
// differ. Before See it is this process's time.
func (r *Execution) Now() time.Time {
	if r.clock.shown.IsZero() {
		return time.Now()
	}
	return r.clock.shown.Add(time.Since(r.clock.at))
}

// Find sets the run's question and model from its evaluation, as of the given revision. The error is
// evaluations.ErrNoRun if the evaluation has no such run.
func (r *Execution) Find(ctx context.Context, revision record.Revision) error {
	of, place, err := r.on.Evaluations.Find(ctx, r.Task, revision)
	if err != nil {
		return err
	}
	r.Evaluation, r.Place = of, place
	r.Judge = of.Asked.JudgesOf(r.Task.Kind)[place.Judge]
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

// Beside returns another run of the evaluation, whose outcome is recorded while this one is carried out.
func (r *Execution) Beside(ctx context.Context, task record.Task) (*Execution, error) {
	other := &Execution{Task: task, Queue: r.Queue, on: r.on, pulse: r.pulse, halted: r.halted, clock: r.clock}
	other.Progress.Started, other.Progress.Writer = r.Progress.Started, r.on.Name()
	return other, other.Find(ctx, r.Evaluation.Record.Revision)
}

// Plan returns the plan that the run is part of.
func (r *Execution) Plan() *plan.Plan { return r.Evaluation.Plans[r.Task.Phase] }

// Settings returns the settings of the run's evaluation.
func (r *Execution) Settings() *record.Settings { return &r.Evaluation.Record.Settings }

// Scope returns the scope of a call that the run makes to target: the run's own model, a fallback model, or a model
// that makes JSON of an answer.
func (r *Execution) Scope(target eval.Judge) ratelimit.Scope {
	return r.Evaluation.Record.Call(r.Task.Kind, r.Place.Judge, target)
}

// Failures returns the number of failed calls of the current model. Answered calls, with a verdict or without, are not
// failures.
func (r *Execution) Failures() int {
	return r.Progress.Attempts - r.Progress.Answers - r.Progress.Fallen.Spent
}

// Move records the run's new stage in its worker's shares.
func (r *Execution) Move(to share.Stage) {
	if r.at != to {
		r.on.Shares.Move(r.Queue, r.at, to)
		r.at = to
	}
}

// Rest records that the run needs no slot now.
func (r *Execution) Rest() { r.Move(share.Resting) }

// Leave returns the run's share of its worker's slots.
func (r *Execution) Leave() { r.on.Shares.Leave(r.Queue, r.at) }

// Log returns a logger with the run's fields. It is built on demand, because most runs log nothing.
func (r *Execution) Log() *zerolog.Logger {
	with := r.on.Log.With().Str("evaluation", string(r.Task.Evaluation)).Str("run_id", r.Task.Shown())
	if r.Dimension != "" {
		with = with.Str("agent", r.Judge.Name).Str("dimension", r.Dimension)
	}
	log := with.Logger()
	return &log
}
