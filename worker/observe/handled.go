package observe

import (
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
)

// EventRateLimitWait appears only in Handled: the run waits for DelayS instead of asking
// another model (record.Tally.RateLimitWaits).
const EventRateLimitWait = "rate_limit_wait"

// Handled describes what a worker did for a run while it had the run's task.
type Handled struct {
	Task         record.Task
	Queue        string
	Worker       string
	Began, Ended time.Time
	// First is when the run's first call was asked for, by any worker; zero: none was.
	First time.Time
	// Run is the outcome that this worker recorded; nil: it recorded none, and Why describes the result of the task in
	// a few words that many runs share.
	Run    *record.Run
	Why    string
	Delay  time.Duration // how long the task stays in its queue before it is pulled again
	Events []Event       // in the order in which they were reported
	Calls  []record.Call // calls that ended, in order; their Text and Error are as recorded
}
