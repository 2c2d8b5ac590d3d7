package collect

import (
	"errors"
	"fmt"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Outcome says how far an evaluation has come, and how following it ended.
type Outcome struct {
	Record  record.Evaluation
	Planned int // runs
	Ended   int // runs that are in the results store
	// Cancelled means that the evaluation was cancelled before all its runs had ended.
	Cancelled bool
	// Stopped is record.StoppedByBudget if its budget leaves no room for another call; Budget and
	// Spent are in nano-USD then. It is record.StoppedByUntil if its best candidates are Known.
	Stopped       string
	Budget, Spent int64
	Known         *results.Known
	// Paused holds the providers that the fleet has paused, if only their runs are left.
	Paused map[string]record.Pause
}

// Early reports whether the fleet stopped the evaluation before all its runs had ended.
func (o Outcome) Early() bool { return o.Stopped != "" || len(o.Paused) > 0 }

// Why returns why the fleet stopped the evaluation; Early must be true.
func (o Outcome) Why() results.Stop {
	why := results.Stop{At: time.Now().UTC()}
	if o.Known != nil {
		why.Known = o.Known
	} else if o.Stopped != "" {
		why.Budget, why.Spent = o.Budget, o.Spent
	} else {
		why.Paused = o.Paused
	}
	return why
}

// InterruptedError means that the context ended before the evaluation did. Results in the results
// store remain there, and the rest is in Redis.
type InterruptedError struct {
	Outcome
	Cause error // why it had stopped before; nil: it had not
}

func (e *InterruptedError) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("interrupted: %v", e.Cause)
	}
	return fmt.Sprintf(
		"interrupted: %s of %s runs of %s are in its results store, the rest in Redis", wording.Count(e.Ended),
		wording.Count(e.Planned), e.Record.ID,
	)
}

var (
	// ErrCancelled means that an evaluation was cancelled before all its runs had ended.
	ErrCancelled = errors.New("the evaluation was cancelled")
	// ErrStopped means that the fleet stopped an evaluation before all its runs had ended.
	ErrStopped = errors.New("the evaluation has stopped")
)

// IsEnding reports whether err means that an evaluation ended before all its runs had.
func IsEnding(err error) bool { return errors.Is(err, ErrCancelled) || errors.Is(err, ErrStopped) }

func (o Outcome) recorded() string {
	return fmt.Sprintf("%s of %s runs are recorded", wording.Count(o.Ended), wording.Count(o.Planned))
}

// CancelledError returns the error for a cancelled evaluation; what ends the sentence.
func (o Outcome) CancelledError(what string) error {
	return fmt.Errorf("%w: %s; %s", ErrCancelled, o.recorded(), what)
}

// StoppedError returns the error for an evaluation that has stopped early. raise says how to go on with a higher
// budget; resume is the command that resumes it.
func (o Outcome) StoppedError(raise, resume string) error {
	what, how := o.Why().String()+"; "+o.recorded(), "resume with: "+resume
	if o.Stopped != "" {
		what, how = o.Why().String()+", "+o.recorded(), raise
	}
	return fmt.Errorf("%w: %s; %s", ErrStopped, what, how)
}
