package call

import (
	"context"
	"errors"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/internal/evaluations"
	"github.com/evalfleet/evalfleet/worker/internal/run"
	"github.com/evalfleet/evalfleet/worker/internal/trouble"
)

// MaxExcused is how many of a run's calls may fail without counting as attempts, in outages and on workers with trouble
// of their own.
const MaxExcused = 60

// StopsAll reports whether a failed call stops all runs of the run's provider until a person acts. The call must be to
// that provider, or to the one that turns its answers into JSON. A failed call to a fallback model ends only the
// attempt at that model.
func (c *Calls) StopsAll(s Step, failed *providers.Error) bool {
	ours := s.Target.Provider == c.run.Judge.Provider || c.run.Progress.AnswerBy != ""
	stops := record.PausesProvider(failed.Class) || c.found.Never || c.found.Over
	return stops && ours && !c.found.Own && !c.chain.StandIn(s.Target)
}

// noteTrouble determines whose fault a failed call is, before its lease lets another call start.
func (c *Calls) noteTrouble(ctx context.Context, s Step, lease *ratelimit.Lease, failure error) {
	var failed *providers.Error
	switch {
	case errors.Is(failure, providers.ErrNoJSON), errors.Is(failure, ratelimit.ErrLost), ctx.Err() != nil: // not evidence
		return
	case failure != nil && !errors.As(failure, &failed):
		return
	case errors.Is(failure, providers.ErrAgain):
		failed = nil
	}

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), run.PauseTime)
	defer cancel()
	retry := c.run.Settings().Retry
	c.found = c.by.Troubles.Note(ctx, trouble.Ended{
		Run: c.run.Task.RunID(), Fresh: c.run.Failures() == 0,
		Provider: s.at(), Model: s.Target.Model, Tier: s.Target.Tier(),
		Began: c.flight.began, Waited: waitedForCooldown(lease), Failed: failed,
		Waits: c.waitsForOutages(), Again: retry.InitialDelay,
	})
	if c.found.Out && time.Since(c.found.Since) >= c.run.Settings().Outage && time.Since(c.run.Evaluation.Read) >= c.run.Settings().Outage {
		c.found.Over = true
	}
	if c.found.Again {
		if err := c.by.Worker.Limiter.Cool(ctx, ratelimit.Scope{Provider: s.at()}, retry.InitialDelay); err != nil {
			c.by.Worker.Log.Warn().Err(err).Msg("cannot share a cooldown with other workers")
		}
	}
}

func waitedForCooldown(lease *ratelimit.Lease) bool {
	_, waited := ratelimit.CooldownScope(lease.BoundBy())
	return waited
}

// waitsForOutages reports whether calls that fail in an outage are repeated at its end. If another model may answer,
// the run does not wait.
func (c *Calls) waitsForOutages() bool { return c.run.Settings().Outage > 0 && !c.chain.In() }

// Excused reports whether the last call failed through no fault of its run: in an outage, or because of trouble that
// only this worker has. At most MaxExcused calls of a run are excused.
func (c *Calls) Excused() bool {
	return (c.found.Own || c.found.Out && !c.found.Charged || c.found.Way) && c.run.Progress.Excused < MaxExcused
}

// InOutage reports whether the last call failed in an outage.
func (c *Calls) InOutage() bool { return c.found.Out }

// AfterExcuse returns the run to its queue. Another worker can make its next call. In an outage, another run can try
// next whether it is over, in case this request causes the failure.
func (c *Calls) AfterExcuse(ctx context.Context) error {
	switch {
	case c.found.Own:
		return c.leaveToOthers(ctx)
	case c.found.Way:
		return c.run.Pause(ctx, c.run.Settings().Retry.InitialDelay, "its provider was not reached")
	}
	return c.run.GoBack(ctx, outageBack, "its provider is down")
}

// outageBack is how long a run stays in its queue after it has met an outage.
const outageBack = 2 * time.Second

// sharedPause is how long a run waits if this worker may pull it again, because its queue has runs of other providers
// too.
const sharedPause = time.Second

// leaveToOthers returns the run to its queue, because this worker cannot call its provider.
func (c *Calls) leaveToOthers(ctx context.Context) error {
	delay := time.Duration(0)
	if c.by.Troubles.Serves(c.run.Queue) {
		delay = sharedPause
	}
	return c.run.GoBack(ctx, delay, evaluations.ErrElsewhere.Error())
}

// wordsOf returns the provider's message, with the provider's name if it is not the one asked.
func (c *Calls) wordsOf(s Step, failed *providers.Error) string {
	if s.Target.Provider == c.run.Judge.Provider {
		return failed.Message
	}
	return s.Target.Target() + " says: " + failed.Message
}
