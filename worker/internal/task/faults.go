package task

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/hibiken/asynq"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/worker/internal/run"
)

// Every loop in which a run makes calls is bounded by counts that are stored with
// its progress, because the run may have another worker each time:
//
//	calls that failed           Attempts − Answers − Fallen.Spent ≤ max_attempts
//	answers of no use           Unusable ≤ ask.MaxRepairs, for each model asked
//	refusals (429)              Cooled ≤ call.MaxCooled, then they count as attempts;
//	                            with a fallback, Fallen.Refused ≤ max_retries
//	models in its place         Fallen.Asked < their number
//	calls cut off               Cut ≤ record.MaxCut
//	failures of this program    Faults ≤ record.MaxFaults
//	workers that died           Deaths ≤ record.MaxDeaths
//	turns, and the prose that
//	JSON is made of             Said and Answer: each is kept before the next call
//	dimensions asked together   Taken: from then on they are asked for singly
//	jobs at the provider        Job: one at a time, and each counts as a call
//
// A handler saves them whenever it lets go of a run that is not recorded. One that
// cannot, because its process has ended, is counted as a death.

// panicked is a panic of a handler.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// survive, when deferred, turns a panic of its function into the function's error.
func survive(err *error) {
	if value := recover(); value != nil {
		*err = &panicked{value, debug.Stack()}
	}
}

// faulted counts a failure of evalfleet itself, caused by cause, and ends the run when the count has reached the
// maximum. Before that the run returns to its queue. A task whose count cannot be stored is archived: otherwise it
// would be retried without end.
func (p *pull) faulted(ctx context.Context, cause error) error {
	p.calls.Land(cause)
	p.run.Progress.Faults++
	log := p.run.Log().Error().Err(cause).Int("faults", p.run.Progress.Faults)
	var broke *panicked
	if errors.As(cause, &broke) {
		log = log.Bytes("stack", broke.stack)
	}
	log.Msg("evalfleet failed at a run")
	if p.run.Evaluation != nil && p.usedUp() {
		err := p.giveUp(ctx, p.lost(cause))
		var back *run.PutBack
		if err == nil || errors.As(err, &back) {
			return err
		}
		cause = err
	}

	switch err := p.run.Save(ctx); {
	case errors.Is(err, store.ErrNoEvaluation):
		return asynq.RevokeTask
	case err != nil && !errors.Is(err, store.ErrTaken), p.run.Progress.Faults > record.MaxFaults:
		return fmt.Errorf("%w: %w", cause, asynq.SkipRetry)
	}

	return &run.PutBack{Delay: time.Second, Cause: cause}
}

// usedUp reports whether the run has reached the maximum number of failures of evalfleet itself.
func (p *pull) usedUp() bool {
	most := min(record.MaxFaults, p.run.Settings().Retry.MaxAttempts)
	return p.run.Progress.Faults >= most || p.run.Failures() >= most
}

// lost returns the error of a run that evalfleet itself failed to handle too often.
func (p *pull) lost(cause error) *run.GaveUp {
	return &run.GaveUp{Class: providers.Lost, Message: fmt.Sprintf("evalfleet failed %d times at this run: %v", p.run.Progress.Faults, cause)}
}
