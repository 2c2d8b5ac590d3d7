package record

import (
	"time"

	"github.com/evalfleet/evalfleet/eval"
)

// Worker is what a worker tells of itself, beside its heartbeat. Nothing but Recorded, Lost and
// LivesOn is used to decide.
type Worker struct {
	V       int       `json:"v"` // 1
	Host    string    `json:"host"`
	Process int       `json:"process"` // its number on the host
	Version string    `json:"version"`
	Slots   int       `json:"slots"`
	Flying  int       `json:"in_flight"` // calls
	Waiting int       `json:"waiting"`   // calls that wait for admission
	Queues  []string  `json:"queues"`    // served
	Since   time.Time `json:"since"`     // by the worker's clock
	// Lease is how long its heartbeat holds when it beats.
	Lease    time.Duration `json:"lease_ns"`
	Stopping bool          `json:"stopping,omitempty"` // it takes no more runs
	// Recorded is the latest name of the limits' memory (ratelimit.Admin.Memory) for which the
	// worker has recorded again what Redis had lost: the outcomes and calls that it knew when that
	// memory began. Empty: for none yet. nil: a release that does not tell.
	Recorded *string `json:"recorded,omitempty"`
	// LivesOn: the process could not renew in time and continues under another ID, so that the runs
	// it held have met no death.
	LivesOn bool `json:"lives_on,omitempty"`
	// Lost are the evaluations that the worker keeps outcomes or calls of and has not found in
	// Redis by then.
	Lost []eval.ID `json:"lost,omitempty"`
}

// WorkerVersion is that of Worker.
const WorkerVersion = 1
