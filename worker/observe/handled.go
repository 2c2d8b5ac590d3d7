package observe

import (
	"time"

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
