package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/worker/internal/share"
	"github.com/evalfleet/evalfleet/worker/internal/stop"
)

// InPlace is the longest delay that a run waits out in the worker. It spends longer delays in its queue, so that others
// may be pulled meanwhile.
const InPlace = 10 * time.Second

// longestUnknown bounds a wait that an earlier release saved by its own worker's clock.
const longestUnknown = 10 * time.Minute

// ErrStopping is the cause with which waits of runs end when their worker stops.
var ErrStopping = errors.New("the worker stops")

// PutBack is the error with which a handler returns a task to its queue for a while. It does not count as a failure.
type PutBack struct {
	Delay time.Duration
	Why   string // the same for many runs
	Cause error  // instead of Why, if the run was interrupted
}

func (p *PutBack) Error() string {
	why := p.Why
	if p.Cause != nil {
		why = p.Cause.Error()
	}
	return fmt.Sprintf("back to the queue for %s: %s", p.Delay.Round(time.Millisecond), why)
}

// GaveUp means that no answer will come: from this model, in this way, or at all. A run fails with it; an interrupted
// run does not.
type GaveUp struct {
	Class   providers.Class
	Message string
	Status  int           // HTTP status of the last call; 0: none was answered
	Wait    time.Duration // wait that the evaluation's fallback did not allow; 0: another reason
	NoJSON  bool          // providers.ErrNoJSON
}

func (g *GaveUp) Error() string { return fmt.Sprintf("%s: %s", g.Class, g.Message) }

// CutOff returns the error of a run whose calls were cut off too often.
func CutOff() *GaveUp {
	return &GaveUp{
		Class:   providers.Lost,
		Message: fmt.Sprintf("%d calls were cut off before they were answered, because their worker or lease was lost", record.MaxCut),
	}
}

// Waiting returns a context for a wait for a call to begin. It is a child of ctx that also ends when no call may begin
// any more. Call release after the wait.
func (r *Execution) Waiting(ctx context.Context) (waiting context.Context, release func()) {
	return stop.Context(ctx, r.on.Stopping, r.halted)
}

// MayBegin returns why no call of the run may begin any more; nil if one may.
func (r *Execution) MayBegin() error {
	if err := r.on.Stopping.Given(); err != nil {
		return err
	}
	return r.halted.Given()
}

// Halted reports whether the run's evaluation is not active, or its provider is paused for the evaluation.
func (r *Execution) Halted() bool { return r.halted.Given() != nil }

// Pause waits for a short delay in place, and returns the run to its queue for a long one. The run holds no lease
// meanwhile.
func (r *Execution) Pause(ctx context.Context, delay time.Duration, why string) error {
	if delay <= 0 {
		return nil
	}
	if delay > InPlace {
		return r.GoBack(ctx, delay, why)
	}
	r.Move(share.Resting)
	r.Steps()
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-r.on.Stopping.Done():
	case <-r.halted.Done():
	case <-ctx.Done():
		return ctx.Err()
	}
	return r.GoBack(ctx, delay, r.MayBegin().Error())
}

// HeldBack returns what is left of the wait that another worker saved for the run.
func (r *Execution) HeldBack() time.Duration {
	if r.Progress.NotBefore.IsZero() {
		return 0
	}
	most := r.Progress.Delay
	if most == 0 {
		most = longestUnknown
	}
	return min(r.Progress.NotBefore.Sub(r.Now()), most)
}

// recordsAgain is how long a run stays in its queue if its answer may be known here but not in Redis.
const recordsAgain = time.Second

// Known returns nil if a call of the run may begin: Redis still has the record that the run was read from, with every
// answer of its evaluation that this worker knows. Otherwise Redis has lost data, and the run returns to its queue
// until the data is recorded again. memory names the memory of the limits under which the call begins; "": they have
// not been asked yet.
func (r *Execution) Known(ctx context.Context, memory string) error {
	agrees, err := r.on.Ledger.Agrees(ctx, r.Task.Evaluation, r.Evaluation.Record.Created, memory)
	if err != nil || agrees {
		return err
	}
	return r.GoBack(ctx, recordsAgain, "Redis has lost data, which is recorded again")
}

// GoBack saves what the next worker must know and returns the task to its queue.
func (r *Execution) GoBack(ctx context.Context, delay time.Duration, why string) error {
	r.Progress.NotBefore, r.Progress.Delay = r.Now().Add(delay), max(delay, time.Millisecond)
	if err := r.Save(ctx); err != nil {
		return err
	}
	return &PutBack{Delay: delay, Why: why}
}

// Save stores what the next worker must know of the run.
func (r *Execution) Save(ctx context.Context) error {
	var entry store.Entry
	calls := r.unsaved()
	err := r.Persist(ctx, func(ctx context.Context) (err error) {
		entry, err = r.on.Store.SaveProgress(ctx, r.Task, r.Progress, calls)
		return err
	})
	if err == nil || errors.Is(err, store.ErrTaken) {
		r.saved(calls, entry)
	}
	r.keepProgress(err, entry)
	return err
}

// keepProgress keeps the progress that was to be saved, unless another pull of the run has the run now. Redis may have
// lost the evaluation, which may be submitted again.
func (r *Execution) keepProgress(err error, entry store.Entry) {
	switch {
	case err == nil && r.Evaluation != nil:
		r.on.Ledger.PutProgress(r.Task, r.Progress, r.Evaluation.Record.Created, entry.Memory)
	case errors.Is(err, store.ErrNoEvaluation):
		r.on.Ledger.PutProgress(r.Task, r.Progress, time.Time{}, "")
	}
}

// SaveJob saves the run like Save, right after a job was submitted.
func (r *Execution) SaveJob(ctx context.Context) error {
	var entry store.Entry
	calls := r.unsaved()
	err := r.Persist(ctx, func(ctx context.Context) (err error) {
		entry, err = r.on.Store.SaveJob(ctx, r.Task, r.Progress, calls)
		return err
	})
	if err == nil {
		r.saved(calls, entry)
		r.keepProgress(nil, entry)
	}
	return err
}

// SaveCalls stores the calls of a run that is dropped if its evaluation still exists: otherwise their cost is not
// needed.
func (r *Execution) SaveCalls(ctx context.Context) error {
	calls := r.unsaved()
	if len(calls) == 0 {
		return nil
	}
	entry, err := r.on.Store.AppendCalls(ctx, r.Task.Evaluation, calls)
	if err != nil && !errors.Is(err, store.ErrNoEvaluation) {
		return err
	}
	r.saved(calls, entry)
	return nil
}

// unsaved returns the calls made so far that are not stored yet, by this run or by the ledger.
func (r *Execution) unsaved() []record.Call {
	r.calls = r.on.Ledger.Owed(r.calls)
	return r.calls
}

// saved records that an entry contains the calls.
func (r *Execution) saved(calls []record.Call, entry store.Entry) {
	if r.Evaluation != nil {
		r.on.Ledger.PutCalls(r.Task.Evaluation, calls, r.Evaluation.Record.Created, entry)
	}
	r.on.Ledger.Stored(calls)
	r.calls = nil
}

// Unsaved returns the number of calls that are not stored yet.
func (r *Execution) Unsaved() int { return len(r.unsaved()) }

// Persist makes a write that must not be lost: see ledger.Ledger.Persist.
func (r *Execution) Persist(ctx context.Context, write func(context.Context) error) error {
	return r.on.Ledger.Persist(ctx, func(ctx context.Context) error {
		r.Steps() // however often it is tried
		return write(ctx)
	})
}

// Keep adds a call to record, and reports it to the observers.
func (r *Execution) Keep(call record.Call) {
	r.Add(call)
	r.on.Observer.Call(call)
	r.hand.call(call)
}

// Add adds a call to record. The ledger records it if the run does not.
func (r *Execution) Add(call record.Call) {
	r.calls = append(r.calls, call)
	r.on.Ledger.Owe(r.Task.Evaluation, call)
}

// summaryRunes is how many characters of a reason or an answer people are shown; the results store has the whole text.
const summaryRunes = 300

// Shorten truncates a text to summaryRunes.
func Shorten(text string) string { return wording.Clip(text, summaryRunes) }
