package worker

import (
	"cmp"
	"errors"
	"time"

	"github.com/hibiken/asynq"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/record"
)

// EventRateLimitWait appears only in Handled: the run waits for DelayS instead of asking
// another model (record.Tally.RateLimitWaits).
const EventRateLimitWait = "rate_limit_wait"

// Handled is what a worker did for a run, from the moment it had the run's task to
// the moment it let go of it.
type Handled struct {
	Task         record.Task
	Queue        string
	Worker       string
	Began, Ended time.Time
	// First is when the run's first call was asked for, by whichever worker did; zero:
	// none was.
	First time.Time
	// Run is the outcome that this worker recorded; nil: it recorded none, and Why says
	// what became of the task, in a few words that hold for many runs.
	Run    *record.Run
	Why    string
	Delay  time.Duration // that the task spends in its queue before it is pulled again
	Events []Event       // in the order in which they were told
	Calls  []record.Call // that ended, in order; their Text and Error are as recorded
}

// hand gathers what a run's Handled tells. A nil one gathers nothing.
type hand struct {
	began  time.Time
	events []Event
	calls  []record.Call
	run    *record.Run // as it was recorded, once and by this worker
}

func (h *hand) event(e Event) {
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

// takeInHand starts collecting the run's events, if there is a listener.
func (r *run) takeInHand() {
	if r.cfg.Handled != nil {
		r.hand = &hand{began: time.Now()}
	}
}

// letGo reports what was done for a run whose handler returns err. It reports nothing for a
// task that was dropped before anything began.
func (r *run) letGo(err error) {
	h := r.hand
	if h == nil || len(h.events)+len(h.calls) == 0 {
		return
	}
	told := Handled{
		Task: r.task, Queue: r.queue, Worker: r.id, Began: h.began.UTC(), Ended: time.Now().UTC(), First: r.progress.Started.UTC(),
		Run: h.run, Events: h.events, Calls: h.calls,
	}
	var back *putBack
	switch {
	case h.run != nil:
	case errors.As(err, &back):
		told.Why, told.Delay = cmp.Or(back.why, "interrupted"), back.delay
	case errors.Is(err, asynq.RevokeTask):
		told.Why = "dropped"
	default:
		told.Why = "recorded before"
	}
	r.cfg.Handled(told)
}

// waits counts a wait that the run makes instead of asking another model.
func (r *run) waits(target eval.Judge, wait time.Duration) {
	r.progress.Fallen.RateLimitWaits++
	r.cfg.Waits(target)
	if r.hand != nil {
		r.hand.event(r.completed(Event{Event: EventRateLimitWait, Provider: target.Provider, Model: target.Model, DelayS: wait.Seconds()}))
	}
}
