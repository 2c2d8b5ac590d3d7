package record

import "time"

// KeptTime is how long asynq keeps the task of a run that has succeeded, so that people see it and
// its result in asynqmon.
const KeptTime = 10 * time.Minute

// Bounds on kept tasks, because each costs memory.
const (
	keptWhole = 10_000 // runs up to which an evaluation's tasks are all kept
	keptShare = 100    // of larger evaluations, one run in so many is kept
)

// Keeps reports whether the task of a phase's index-th run is kept for KeptTime
// after it has succeeded. Those of failed runs are always kept, in asynq's
// archive.
func (e Evaluation) Keeps(index int) bool {
	runs := 0
	for _, phase := range e.Phases {
		runs += phase.Runs
	}
	return runs <= keptWhole || index%keptShare == 0
}
