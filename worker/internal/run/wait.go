package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evalfleet/evalfleet/internal/wording"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/record"
	"github.com/evalfleet/evalfleet/store"
	"github.com/evalfleet/evalfleet/worker/internal/share"
	"github.com/evalfleet/evalfleet/worker/internal/stop"
)

// InPlace is the longest delay that a run waits out with the worker; longer
// ones it spends in its queue, so that others may be pulled meanwhile.
const InPlace = 10 * time.Second

// longestUnknown bounds a wait that an earlier release saved, by its own worker's clock.
const longestUnknown = 10 * time.Minute

// ErrStopping is the cause with which waits of runs end when their worker stops.
var ErrStopping = errors.New("the worker stops")

// PutBack sends a task back to its queue for a while. It is no failure.
type PutBack struct {
	Delay time.Duration
	Why   string // the same for many runs
	Cause error  // in the place of Why, where the run was interrupted
}

func (p *PutBack) Error() string {
	why := p.Why
	if p.Cause != nil {
		why = p.Cause.Error()
	}
	return fmt.Sprintf("back to the queue for %s: %s", p.Delay.Round(time.Millisecond), why)
}

// GaveUp means that the answer will not come: from this model, in this way, or at all. A run
// fails with it; an interrupted run does not.
type GaveUp struct {
	Class   providers.Class
	Message string
	Status  int           // HTTP status of the last call; 0: none was answered
	Wait    time.Duration // that the evaluation's fallback did not allow; 0: it was no wait
	NoJSON  bool          // providers.ErrNoJSON
}

func (g *GaveUp) Error() string { return fmt.Sprintf("%s: %s", g.Class, g.Message) }

// CutOff ends a run whose calls were cut off too often.
func CutOff() *GaveUp {
	return &GaveUp{Class: providers.Lost, Message: fmt.Sprintf("%d calls were cut off before they were answered, because their worker or lease was lost", record.MaxCut)}
}

// Waiting returns a context for a wait for a call to begin: a child of ctx that also ends when
// none may begin any more. release must be called at the end of the wait.
func (r *Run) Waiting(ctx context.Context) (waiting context.Context, release func()) {
	return stop.Context(ctx, r.on.Stopping, r.halted)
}

// MayBegin returns why no call of the run may begin any more; nil: one may.
func (r *Run) MayBegin() error {
	if err := r.on.Stopping.Given(); err != nil {
		return err
	}
	return r.halted.Given()
}

// Halted reports whether the run's evaluation, or its provider for it, is not active.
func (r *Run) Halted() bool { return r.halted.Given() != nil }

// Pause waits a short delay in place and sends the run back for a long one, in
// either case without a lease.
func (r *Run) Pause(ctx context.Context, delay time.Duration, why string) error {
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

// HeldBack returns how much is left of the wait that another worker saved.
func (r *Run) HeldBack() time.Duration {
	if r.Progress.NotBefore.IsZero() {
		return 0
	}
	most := r.Progress.Delay
	if most == 0 {
		most = longestUnknown
	}
	return min(r.Progress.NotBefore.Sub(r.Now()), most)
}

// recordsAgain is how long a run stays away whose answer may be known here and not in Redis.
const recordsAgain = time.Second

// Known returns nil if a call of the run may begin: Redis still has the record that the run was
// read from, with every answer of its evaluation that this worker knows. Otherwise Redis has lost
// data, and the run goes back until that is recorded again. memory is that of the limits under
// which the call begins; "": they have not been asked yet.
func (r *Run) Known(ctx context.Context, memory string) error {
	agrees, err := r.on.Ledger.Agrees(ctx, r.Task.Evaluation, r.Evaluation.Record.Created, memory)
	if err != nil || agrees {
		return err
	}
	return r.GoBack(ctx, recordsAgain, "Redis has lost data, which is recorded again")
}

// GoBack keeps what the next worker must know and sends the task back.
func (r *Run) GoBack(ctx context.Context, delay time.Duration, why string) error {
	r.Progress.NotBefore, r.Progress.Delay = r.Now().Add(delay), max(delay, time.Millisecond)
	if err := r.Save(ctx); err != nil {
		return err
	}
	return &PutBack{Delay: delay, Why: why}
}

// Save keeps what the next worker must know, whenever it comes.
func (r *Run) Save(ctx context.Context) error {
	var entry store.Entry
	calls := r.unsaved()
	err := r.Persist(ctx, func(ctx context.Context) (err error) {
		entry, err = r.on.Store.SaveProgress(ctx, r.Task, r.Progress, calls)
		return err
	})
	if err == nil || errors.Is(err, store.ErrTaken) {
		r.saved(calls, entry)
	}
	return err
}

// SaveJob is Save of a run whose job was just submitted.
func (r *Run) SaveJob(ctx context.Context) error {
	var entry store.Entry
	calls := r.unsaved()
	err := r.Persist(ctx, func(ctx context.Context) (err error) {
		entry, err = r.on.Store.SaveJob(ctx, r.Task, r.Progress, calls)
		return err
	})
	if err == nil {
		r.saved(calls, entry)
	}
	return err
}

// SaveCalls stores the calls of a run that is dropped, where its evaluation is still there:
// otherwise their cost is not needed.
func (r *Run) SaveCalls(ctx context.Context) error {
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
func (r *Run) unsaved() []record.Call {
	r.calls = r.on.Ledger.Owed(r.calls)
	return r.calls
}

// saved notes that an entry has calls.
func (r *Run) saved(calls []record.Call, entry store.Entry) {
	if r.Evaluation != nil {
		r.on.Ledger.PutCalls(r.Task.Evaluation, calls, r.Evaluation.Record.Created, entry)
	}
	r.on.Ledger.Stored(calls)
	r.calls = nil
}

// Unsaved is the number of calls that are not stored yet.
func (r *Run) Unsaved() int { return len(r.unsaved()) }

// Persist makes a write that must not be lost.
func (r *Run) Persist(ctx context.Context, write func(context.Context) error) error {
	return r.on.Ledger.Persist(ctx, func(ctx context.Context) error {
		r.Steps() // however often it is tried
		return write(ctx)
	})
}

// Keep notes a call that is to be recorded, and tells of it.
func (r *Run) Keep(call record.Call) {
	r.Add(call)
	r.on.Observer.Call(call)
	r.hand.call(call)
}

// Add notes a call that is to be recorded. The ledger records it if the run does not.
func (r *Run) Add(call record.Call) {
	r.calls = append(r.calls, call)
	r.on.Ledger.Owe(r.Task.Evaluation, call)
}

// summaryRunes is how much of a reason or an answer people are shown; the results store has it
// all.
const summaryRunes = 300

// Shorten cuts a text to what people are shown.
func Shorten(text string) string { return wording.Clip(text, summaryRunes) }
