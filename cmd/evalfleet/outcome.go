package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/evalfleet/evalfleet/collect"
	"github.com/evalfleet/evalfleet/internal/wording"
)

var (
	// errCancelled is returned for an evaluation that was cancelled while it was waited for.
	errCancelled = errors.New("the evaluation was cancelled")
	// errStopped is returned for one that the fleet has stopped.
	errStopped = errors.New("the evaluation has stopped")
)

// isEnding reports whether err says that an evaluation ended before all its runs had.
func isEnding(err error) bool { return errors.Is(err, errCancelled) || errors.Is(err, errStopped) }

// recorded says how many runs are recorded.
func recorded(o collect.Outcome) string {
	return fmt.Sprintf("%d of %d runs are recorded", o.Ended, o.Planned)
}

// cancelledError is the error for a cancelled evaluation; what ends the sentence.
func cancelledError(o collect.Outcome, what string) error {
	return withCode(exitRunsFailed, fmt.Errorf("%w: %s; %s", errCancelled, recorded(o), what))
}

// stoppedError is the error for an evaluation that has stopped early. raised is the
// command that submits it with a higher budget, goOn the one that resumes it.
func stoppedError(o collect.Outcome, raised, goOn string) error {
	what, how := o.Why().String()+"; "+recorded(o), "resume with: "+goOn
	if o.Stopped != "" {
		what, how = o.Why().String()+", "+recorded(o), "raise budget in the evaluation file and resume with: "+raised
	}
	return withCode(exitRunsFailed, fmt.Errorf("%w: %s; %s", errStopped, what, how))
}

// ended is the error for an evaluation that has ended before all its runs had; nil for
// any other.
func (d *drain) ended(o collect.Outcome) error {
	switch {
	case o.Cancelled:
		return cancelledError(o, "they are in "+d.folderOf(o.Record))
	case o.Early():
		return stoppedError(o, d.again, d.again)
	}
	return nil
}

// failure gives an error of package collect its exit code and its words.
func (d *drain) failure(err error) error {
	var interrupted *collect.InterruptedError
	if errors.As(err, &interrupted) && interrupted.Cause == nil {
		return withCode(exitInterrupted, fmt.Errorf("interrupted: %d of %d runs of %s are in %s, the rest is in Redis",
			interrupted.Ended, interrupted.Planned, interrupted.Record.ID, d.folderOf(interrupted.Record)))
	}
	return collectError(err)
}

// collectError gives an error of package collect its exit code.
func collectError(err error) error {
	var coded *exitError
	var interrupted *collect.InterruptedError
	var unpriced *collect.UnpricedError
	switch {
	case errors.As(err, &coded), errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &interrupted):
		return withCode(exitInterrupted, err)
	case errors.As(err, &unpriced):
		return usageError("the cost of %s of %s is unknown, because they were made without prices; leave budget out, or submit it anew with --%s",
			wording.Counted(unpriced.Calls, "recorded call"), unpriced.Evaluation, againFlag)
	}
	return sinkError(err)
}
