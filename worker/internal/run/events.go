package run

import (
	"cmp"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// hand gathers what to report as the run's observe.Handled. A nil hand gathers nothing.
type hand struct {
	began  time.Time
	events []observe.Event
	calls  []record.Call
	run    *record.Run // the recorded outcome, if this worker recorded it
}

func (h *hand) event(e observe.Event) {
	if h != nil {
		h.events = append(h.events, e)
	}
}

func (h *hand) call(c record.Call) {
	if h != nil {
		h.calls = append(h.calls, c)
	}
}

func (h *hand) recorded(outcome record.Run) {
	if h != nil {
		h.run = &outcome
	}
}

// LetGo reports what was done for the run. If the run was not recorded, why is the reason and delay says how long it
// waits in its queue. LetGo reports nothing for a task that was dropped before anything began.
func (r *Execution) LetGo(why string, delay time.Duration) {
	h := r.hand
	if h == nil || len(h.events)+len(h.calls) == 0 {
		return
	}
	now := r.Now()
	told := observe.Handled{
		Task: r.Task, Queue: r.Queue, Worker: r.on.ID, Began: now.Add(-time.Since(h.began)).UTC(),
		Ended: now.UTC(), First: r.Progress.Started.UTC(),
		Run: h.run, Events: h.events, Calls: h.calls,
	}
	if h.run == nil {
		told.Why, told.Delay = why, delay
	}
	r.on.Observer.Handled(told)
}

// Emit completes an event and passes it to the observers.
func (r *Execution) Emit(e observe.Event) {
	if r.unheard() {
		return
	}
	e = r.completed(e)
	r.hand.event(e)
	if r.on.Observer.Event != nil {
		r.on.Observer.Event(e)
	}
}

// EmitQueueing reports that a call waits for admission.
func (r *Execution) EmitQueueing(target eval.Judge) {
	if r.unheard() {
		return
	}
	r.Emit(observe.Event{
		Event: observe.EventQueueing, Provider: target.Provider, Model: target.Model, QueueDepth: r.on.Shares.Depth(r.Queue),
	})
}

// EmitSlots emits an event about a lease with the number of calls in flight, from which it subtracts the ending ones.
func (r *Execution) EmitSlots(e observe.Event, lease *ratelimit.Lease, ending int64) {
	if r.unheard() {
		return
	}
	n := max(0, lease.InFlight()-ending)
	e.ActiveSlots = &n
	r.Emit(e)
}

// EmitWait counts a wait of the run for its own model that could have gone to another model.
func (r *Execution) EmitWait(target eval.Judge, wait time.Duration) {
	r.Progress.Fallen.RateLimitWaits++
	r.on.Observer.Wait(target)
	r.SayWait(zerolog.InfoLevel, WaitBegins, target, wait, nil)
	if r.hand != nil {
		r.hand.event(r.completed(observe.Event{
			Event: observe.EventRateLimitWait, Provider: target.Provider, Model: target.Model, DelayS: wait.Seconds(),
		}))
	}
}

func (r *Execution) unheard() bool { return r.on.Observer.Event == nil && r.hand == nil }

// completed returns an event with the fields that all events of the run have in common.
func (r *Execution) completed(e observe.Event) observe.Event {
	e.Time = time.Now().UTC() // of this process, whose events are in order; Now differs a little from run to run
	e.Evaluation, e.Worker = r.Task.Evaluation, r.on.ID
	e.RunID = cmp.Or(e.RunID, r.Task.Shown())
	if r.Dimension != "" {
		e.Agent, e.Dimension = r.Judge.Name, cmp.Or(e.Dimension, r.Dimension)
	}
	if e.Model == "" { // not about a single call
		e.Provider, e.Model = r.Judge.Provider, r.Judge.Model
	}
	return e
}
