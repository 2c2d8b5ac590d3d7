package ask

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/internal/call"
	"github.com/evalfleet/evalfleet/worker/internal/run"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// answered makes calls until one is answered. Its error is a *run.GaveUp if no more calls are to be made; any other
// error means that the run was interrupted.
func (a *Asker) answered(ctx context.Context, s call.Step) (*providers.Result, error) {
	if most := a.run.Settings().Retry.MaxAttempts; a.run.Progress.Job == nil && a.run.Failures() >= most {
		return nil, &run.GaveUp{
			Class: providers.Lost, Message: fmt.Sprintf("all %d attempts were used, and how they ended is not recorded", most),
		}
	}
	asked := s.Request.Messages
	defer func() { s.Request.Messages = asked }()
	for {
		s.Request.Messages = a.insist(s, asked)
		result, err := a.calls.Make(ctx, s)
		if err != nil {
			if err = a.afterFailure(ctx, s, err); err != nil {
				return nil, err
			}
			continue
		}
		if result.Finish == providers.FinishRefused {
			return nil, &run.GaveUp{Class: providers.Refused, Message: refusal(result), Status: 200}
		}
		return result, nil
	}
}

// refusal returns a sentence that the model refused, with the provider's reason.
func refusal(result *providers.Result) string {
	if result.Reason == "" {
		return "the model refused to answer"
	}
	return "the model refused to answer: " + run.Shorten(result.Reason)
}

// cutShort returns an error that ends a run whose answer was truncated before it could be used; nil: it was not. The
// same request would lead to a truncated answer again.
func cutShort(s call.Step, result *providers.Result) error {
	if result.Finish != providers.FinishTruncated {
		return nil
	}
	where := "its end"
	if bound := s.Request.MaxOutputTokens; bound > 0 {
		where = fmt.Sprintf("%d tokens", bound)
	} else if result.Usage.Output > 0 {
		where = fmt.Sprintf("%d tokens", result.Usage.Output)
	}
	message := "the answer was cut off at " + where + "; raise max_completion_tokens"
	if result.Reason != "" {
		message += " (" + run.Shorten(result.Reason) + ")"
	}
	return &run.GaveUp{Class: providers.Malformed, Message: message, Status: 200}
}

// afterFailure decides what follows from a failed call: another call (nil), or the end of the calls. It waits out short
// delays.
func (a *Asker) afterFailure(ctx context.Context, s call.Step, failure error) error {
	var failed *providers.Error
	if !errors.As(failure, &failed) {
		return failure // no call was made: put back, stopped, Redis unreachable
	}
	retry := a.run.Settings().Retry
	switch {
	case errors.Is(failure, providers.ErrNoJSON):
		return &run.GaveUp{Class: failed.Class, Message: failed.Message, NoJSON: true}
	case ctx.Err() != nil: // the call ended with the worker; another worker will repeat it
		return ctx.Err()
	case errors.Is(failure, ratelimit.ErrLost): // the call ended with its lease, and is repeated under another
		if a.run.Progress.Cut >= record.MaxCut {
			return run.CutOff()
		}
		return nil
	case a.calls.StopsAll(s, failed):
		return a.run.GoBack(ctx, 0, "its provider is paused")
	case a.calls.Alone():
		return a.run.GoBack(ctx, a.run.Settings().Retry.InitialDelay, "its provider refuses it; others are asked first")
	case a.noSuchModel(ctx, s, failed):
		return a.run.GoBack(ctx, 0, "its provider is paused")
	case a.calls.Excused(), a.calls.InOutage() && a.run.Failures() < retry.MaxAttempts:
		return a.calls.AfterExcuse(ctx)
	}

	if a.chain.In() {
		if handled, err := a.chain.AfterRefusal(ctx, s.Target, a.calls.Attempt(), failed); handled {
			return err
		}
	}

	blockedAgain := failed.Class == providers.Blocked && a.run.Failures() > 1 // it is about this request
	if a.run.Failures() >= retry.MaxAttempts || blockedAgain || !failed.Class.Retryable() && !call.TooMany(failed) {
		return &run.GaveUp{Class: failed.Class, Message: withRemedy(s.Target, failed), Status: failed.Status}
	}
	delay := a.calls.Hint(s, failed)
	if a.run.Failures() > 0 {
		delay = max(delay, retry.Delay(a.run.Failures(), rand.Float64()))
	}
	if call.TooMany(failed) && delay > 0 {
		delay += a.calls.Yields(s.Target)
	}
	e := s.Event(observe.EventRetry)
	e.Attempt, e.StatusCode, e.DelayS = a.calls.Attempt(), &failed.Status, delay.Seconds()
	a.run.Emit(e)
	if failed.Class == providers.RateLimited {
		a.run.SayWait(zerolog.InfoLevel, run.WaitBegins, s.Target, delay, nil)
	}
	return a.run.Pause(ctx, delay, string(failed.Class))
}
