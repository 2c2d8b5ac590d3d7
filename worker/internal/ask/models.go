package ask

import (
	"context"
	"errors"
	"fmt"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/record"
	"github.com/evalfleet/evalfleet/worker/internal/run"
)

// windowMargin is by how much a request may be estimated to be larger than a
// model's context window and is sent nevertheless: estimates err, and an answer
// that it is too large costs nothing.
const windowMargin = 1.3

// askAny asks the run's model and, while one after the other gives up, those in
// its place. Its error is that of the last one asked.
func (a *Asker) askAny(ctx context.Context, q *question) (*record.Run, error) {
	for {
		targets, at := a.chain.Targets()
		outcome, err := a.askFitting(ctx, targets, at, q)
		var over *run.GaveUp
		if err == nil || !errors.As(err, &over) || over.NoJSON || a.run.Progress.AnswerBy == targets[at].Target() {
			return outcome, err // in the last case the model answered, and the JSON of it failed
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

// askFitting asks a model, unless another could answer and the request is surely
// too large for this one.
func (a *Asker) askFitting(ctx context.Context, targets []eval.Judge, at int, q *question) (*record.Run, error) {
	target := targets[at]
	if over := a.chain.Refused(target); over != nil {
		return nil, over
	}
	if window := a.chain.Window(target); window > 0 && at+1 < len(targets) {
		size := a.tokens.Expect(target.Target(), a.request(target, q))
		if float64(size) > windowMargin*float64(window) {
			return nil, &run.GaveUp{Class: providers.ContextLength, Message: fmt.Sprintf(
				"the request has about %d tokens, and %s accepts %d", size, target.Target(), window)}
		}
	}
	return a.askOne(ctx, target, q)
}
