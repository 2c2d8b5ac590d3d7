package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/evalfleet/evalfleet/collect"
	"github.com/evalfleet/evalfleet/folder"
	"github.com/evalfleet/evalfleet/internal/exitcode"
	"github.com/evalfleet/evalfleet/internal/wording"
)

// ended is the error for an evaluation that has ended before all its runs had; nil for
// any other.
func (d *drain) ended(o collect.Outcome) error {
	switch {
	case o.Cancelled:
		return o.CancelledError("they are in " + d.folderOf(o.Record))
	case o.Known != nil:
		return nil
	case o.Early():
		return o.StoppedError(d.again, d.again)
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
	_, coded := exitcode.Of(err)
	var interrupted *collect.InterruptedError
	var unpriced *collect.UnpricedError
	switch {
	case coded, errors.Is(err, context.Canceled):
		return err
	case collect.IsEnding(err):
		return withCode(exitRunsFailed, err)
	case errors.As(err, &interrupted):
		return withCode(exitInterrupted, err)
	case errors.As(err, &unpriced):
		return usageError("the cost of %s of %s is unknown, because they were made without prices; leave budget out, or submit it anew with --%s",
			wording.Counted(unpriced.Calls, "recorded call"), unpriced.Evaluation, againFlag)
	}
	return folder.StoreError(err)
}
