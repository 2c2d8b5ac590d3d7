package ask

import (
	"context"
	"errors"
	"fmt"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/worker/internal/run"
)

// windowMargin is the factor by which a request's estimated size may exceed a model's context window before the request
// is not sent. Estimates err, and a refusal of a request that is too large costs nothing.
const windowMargin = 1.3

// askAny asks the run's model and, when it gives up, its fallback models in order. Its error is that of the last model
// asked.
func (a *Asker) askAny(ctx context.Context, q *question) (*record.Run, error) {
	for {
		targets, at := a.chain.Targets()
		var outcome *record.Run
		err := a.unfit(targets, at, q)
		if err == nil {
			outcome, err = a.askOne(ctx, targets[at], q)
		}
		var over *run.GaveUp
		if err == nil || !errors.As(err, &over) || over.NoJSON || a.run.Progress.AnswerBy == targets[at].Target() {
			return outcome, err // AnswerBy: the model answered in prose, and only its JSON failed
		}
		next := a.chain.Next(targets, at, over)
		if next == len(targets) {
			return nil, err
		}
		if err := a.chain.FallTo(ctx, targets[next], next, over); err != nil {
			return nil, err
		}
	}
}

// unfit returns a *run.GaveUp if a model is not to be asked because another could answer: its provider refuses calls,
// or the request is surely too large for its context window. nil: ask the model.
func (a *Asker) unfit(targets []eval.Judge, at int, q *question) error {
	target := targets[at]
	if over := a.chain.Refused(target); over != nil {
		return over
	}
	if window := a.chain.Window(target); window > 0 && at+1 < len(targets) {
		size := a.tokens.Expect(target.Target(), a.request(target, q))
		if float64(size) > windowMargin*float64(window) {
			return &run.GaveUp{Class: providers.ContextLength, Message: fmt.Sprintf(
				"the request has about %d tokens, and %s accepts %d", size, target.Target(), window)}
		}
	}
	return nil
}
