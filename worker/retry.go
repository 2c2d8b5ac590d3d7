package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/record"
)

// step is one answer wanted of one model, for which any number of calls may be
// made.
type step struct {
	target  eval.Judge // who is called
	stage   string     // what for
	request *providers.Request
}

// event is one about a call of the step.
func (s step) event(name string) Event {
	return Event{Event: name, Provider: s.target.Provider, Model: s.target.Model}
}

// gaveUp means that the answer will not come: from this model, in this way, or at all. A run
// fails with it; an interrupted run does not.
type gaveUp struct {
	class   providers.Class
	message string
	status  int           // HTTP status of the last call; 0: none was answered
	wait    time.Duration // that the evaluation's fallback did not allow; 0: it was no wait
	noJSON  bool          // providers.ErrNoJSON
}

func (g *gaveUp) Error() string { return fmt.Sprintf("%s: %s", g.class, g.message) }

// answered makes calls until one is answered. Its error is a *gaveUp when no more
// are to be made, and another one when the run is interrupted.
func (r *run) answered(ctx context.Context, s step) (*providers.Result, error) {
	if most := r.evaluation.record.Settings.Retry.MaxAttempts; r.progress.Job == nil && r.failures() >= most {
		return nil, &gaveUp{class: providers.Lost, message: fmt.Sprintf("its %d attempts were used up, and how they ended is not recorded", most)}
	}
	asked := s.request.Messages
	defer func() { s.request.Messages = asked }()
	for {
		s.request.Messages = r.insist(s, asked)
		result, err := r.call(ctx, s)
		if err != nil {
			if err = r.afterFailure(ctx, s, err); err != nil {
				return nil, err
			}
			continue
		}
		if result.Finish == providers.FinishRefused {
			return nil, &gaveUp{class: providers.Refused, message: refusal(result), status: 200}
		}
		return result, nil
	}
}

// refusal says that a model refused, with the provider's reason.
func refusal(result *providers.Result) string {
	if result.Reason == "" {
		return "the model refused to answer"
	}
	return "the model refused to answer: " + shorten(result.Reason)
}

// cutShort ends a run whose answer was truncated before it could be used; nil: it was not.
// Asked in the same way it would be truncated again.
func cutShort(s step, result *providers.Result) error {
	if result.Finish != providers.FinishTruncated {
		return nil
	}
	where := "its end"
	if bound := s.request.MaxOutputTokens; bound > 0 {
		where = fmt.Sprintf("%d tokens", bound)
	} else if result.Usage.Output > 0 {
		where = fmt.Sprintf("%d tokens", result.Usage.Output)
	}
	message := "the answer was cut off at " + where + "; raise max_completion_tokens"
	if result.Reason != "" {
		message += " (" + shorten(result.Reason) + ")"
	}
	return &gaveUp{class: providers.Malformed, message: message, status: 200}
}

// afterFailure decides what a failed call leads to: another one (nil), or the end
// of them. It waits out short delays.
func (r *run) afterFailure(ctx context.Context, s step, failure error) error {
	var failed *providers.Error
	if !errors.As(failure, &failed) {
		return failure // no call was made: put back, stopped, Redis away
	}
	retry := r.evaluation.record.Settings.Retry
	switch {
	case errors.Is(failure, providers.ErrNoJSON):
		return &gaveUp{class: failed.Class, message: failed.Message, noJSON: true}
	case ctx.Err() != nil: // the call was ended with the worker; another one will make it again
		return ctx.Err()
	case errors.Is(failure, ratelimit.ErrLost): // ended with its lease; it is made again under another
		if r.progress.Cut >= record.MaxCut {
			return cutOff()
		}
		return nil
	case r.stopsAll(s, failed):
		return r.goBack(0, "its provider is paused")
	}
	if r.inChain() {
		if handled, err := r.afterRefusal(ctx, s, failed); handled {
			return err
		}
	}
	if r.failures() >= retry.MaxAttempts || !failed.Class.Retryable() && !tooMany(failed) {
		return &gaveUp{class: failed.Class, message: failed.Message, status: failed.Status}
	}
	delay := r.hint(s, failed)
	if r.failures() > 0 {
		delay = max(delay, retry.Delay(r.failures(), rand.Float64()))
	}
	if tooMany(failed) && delay > 0 {
		delay += r.asides.yields(r.queue, asker{r.task.Evaluation, s.target.Target()})
	}
	e := s.event(EventRetry)
	e.Attempt, e.StatusCode, e.DelayS = r.attempt, &failed.Status, delay.Seconds()
	r.emit(e)
	return r.pause(ctx, delay, string(failed.Class))
}

// failures counts the failed calls of the current model. Calls that were answered, with a
// verdict or without, are no reason to give up.
func (r *run) failures() int {
	return r.progress.Attempts - r.progress.Answers - r.progress.Fallen.Spent
}
