package observe

import (
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
)

// Names of events.
const (
	EventQueued    = "queued"    // a run was put into its queue
	EventStarted   = "started"   // a pulled run begins
	EventQueueing  = "queueing"  // a call waits for admission, however briefly
	EventAcquired  = "acquired"  // the call has its lease
	EventReleased  = "released"  // the lease is given back
	EventRetry     = "retry"     // another call will be made
	EventTimeout   = "timeout"   // a call took too long
	EventSucceeded = "succeeded" // the run succeeded
	EventFailed    = "failed"    // the run failed
	EventPaused    = "paused"    // the run's provider is paused for its evaluation, after a failure of the run
	EventStopped   = "stopped"   // the evaluation is stopped: its budget has no room for another call
)

// Event is one line of the event log.
type Event struct {
	Time       time.Time `json:"time"`
	Event      string    `json:"event"`
	Evaluation eval.ID   `json:"evaluation"`
	RunID      string    `json:"run_id"` // record.Task.Shown
	Provider   string    `json:"provider"`
	Account    string    `json:"account,omitempty"` // where the call is made: openai/eu; empty: the provider has no accounts
	Model      string    `json:"model"`
	Agent      string    `json:"agent,omitempty"`     // of a panel
	Dimension  string    `json:"dimension,omitempty"` // of a panel; several are separated by commas
	Worker     string    `json:"worker,omitempty"`    // empty if a submission has queued the run
	// QueueDepth, for queueing, is how many pushed runs of the run's queue are waiting, including this one. It counts
	// the runs of all workers that were in the queue at this worker's last pull, and those in this worker.
	QueueDepth int `json:"queue_depth,omitempty"`
	// ActiveSlots, of acquired and released, is how many calls are in flight in all workers under the narrowest bound
	// on them (ratelimit.Lease.InFlight). An acquired call is included, a released one is not. 0 without a bound.
	ActiveSlots  *int64          `json:"active_slots,omitempty"`
	Attempt      int             `json:"attempt,omitempty"`
	StatusCode   *int            `json:"status_code,omitempty"` // 0 without a response
	DelayS       float64         `json:"delay_s,omitempty"`
	TimeoutS     float64         `json:"timeout_s,omitempty"`
	ElapsedS     float64         `json:"elapsed_s,omitempty"`
	Class        providers.Class `json:"class,omitempty"`
	Message      string          `json:"message,omitempty"` // why: of paused and stopped, and of released after a kill
	*record.Fell                 // of a fallback
}

// Queued returns the event of a run that was put into its queue.
func Queued(t record.Task, at time.Time) Event {
	provider, model, _ := strings.Cut(t.Model, ":")
	return Event{
		Time: at.UTC(), Event: EventQueued, Evaluation: t.Evaluation, RunID: t.Shown(), Provider: provider, Model: model,
		Agent: t.Agent, Dimension: t.Dimension,
	}
}
