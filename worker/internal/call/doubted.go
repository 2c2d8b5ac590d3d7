package call

import (
	"errors"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/record"
)

// doubted returns the failure of a call as it concerns the run. A refusal of the key or the
// account that only this run has met says nothing of the provider yet: it is of class Blocked,
// and no attempt, until others have been answered or refused.
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
	alone, guilty := doubts.Refused(id, s.Target.Provider, c.run.Task.RunID())
	if !alone {
		return err
	}

	own := *failed
	own.Class = providers.Blocked
	if guilty {
		c.run.Progress.Attempts++ // with the call before
		return &own
	}
	c.alone = true
	return &own
}

// Alone reports whether the call made last was refused for a reason that only this run has met
// so far.
func (c *Calls) Alone() bool { return c.alone }
