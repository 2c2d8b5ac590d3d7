package record

import (
	"time"

	"github.com/evalfleet/evalfleet/eval"
)

// Worker is what a worker reports of itself with each heartbeat. Only Recorded, Lost and LivesOn are
// used for decisions; the rest is shown to people.
type Worker struct {
	V       int       `json:"v"` // 1
	Host    string    `json:"host"`
	Process int       `json:"process"` // process ID
	Version string    `json:"version"`
	Slots   int       `json:"slots"`
	Flying  int       `json:"in_flight"` // calls in flight
	Waiting int       `json:"waiting"`   // calls waiting for admission
	Queues  []string  `json:"queues"`    // served
	Since   time.Time `json:"since"`     // by the worker's clock
	// Lease is how long a heartbeat is valid.
	Lease    time.Duration `json:"lease_ns"`
	Stopping bool          `json:"stopping,omitempty"` // it takes no more runs
	// Recorded names the latest memory of the limits (ratelimit.Admin.Memory) for which the worker
	// has recorded what Redis had lost: the outcomes and calls that it knew when that memory began.
	// Empty: none yet. nil: the worker's release does not report it.
	Recorded *string `json:"recorded,omitempty"`
	// LivesOn means that the process could not renew in time and continues under another ID. So it
	// has not died while it had its runs.
	LivesOn bool `json:"lives_on,omitempty"`
	// Lost lists the evaluations whose outcomes or calls the worker keeps, and which it had not
	// found in Redis by then.
	Lost []eval.ID `json:"lost,omitempty"`
}

// WorkerVersion is the version of Worker's JSON.
const WorkerVersion = 1
