package record

import "time"

// Worker is what a worker tells of itself, beside its heartbeat. Nothing is decided
// by it.
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
}

// WorkerVersion is that of Worker.
const WorkerVersion = 1
