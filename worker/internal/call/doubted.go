package call

import (
	"errors"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/providers"
)

// doubted returns the failure of a call as it affects the run. If only this run has had its key or account refused,
// that says nothing about the provider yet. The class is then Blocked, and the call does not count as an attempt, until
// others have been answered or refused.
func (c *Calls) doubted(s Step, err error) error {
	doubts, id := &c.by.Worker.Doubts, c.run.Task.Evaluation
	var failed *providers.Error
	if err == nil {
		doubts.Answered(id, s.Target)
		return nil
	}
	if !errors.As(err, &failed) || !record.PausesProvider(failed.Class) || failed.Status == 0 || c.chain.In() {
		return err
	}
	alone, guilty := doubts.Refused(id, s.at(), c.run.Task.RunID())
	if !alone {
		return err
	}

	own := *failed
	own.Class = providers.Blocked
	if guilty {
		c.run.Progress.Attempts++ // counts the previous call, too
		return &own
	}
	c.alone = true
	return &own
}

// Alone reports whether the last call was refused for a reason that has affected only this run so far.
func (c *Calls) Alone() bool { return c.alone }
