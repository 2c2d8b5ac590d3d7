package ask

import (
	"context"
	"fmt"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/worker/internal/call"
	"github.com/evalfleet/evalfleet/worker/internal/run"
)

// converse makes one model answer the open turns of a prompt, one call each. Every answer is
// stored before the next turn is asked, so that no turn is paid for again after a crash. Its
// errors are those of answered.
func (a *Asker) converse(ctx context.Context, target eval.Judge, q *question) (*record.Run, error) {
	for {
		s := call.Step{Target: target, Stage: call.StageAnswer, Request: a.request(target, q)}
		s.Request.Complete = q.Written.Complete
		result, err := a.answered(ctx, s)
		if err != nil {
			return nil, err
		}

		last := len(a.run.Progress.Said)+1 == len(q.Written.Turns)
		switch {
		case last:
			return a.said(target, result), nil
		case len(result.Others) > 0:
			return nil, &run.GaveUp{Class: providers.BadRequest, Status: 200, Message: "a turn got several answers, " +
				"so it is unclear which one the next turn continues: ask for one answer, or use a single turn"}
		case len(result.Text) > record.MaxAnswer:
			return nil, &run.GaveUp{Class: providers.Malformed, Status: 200, Message: fmt.Sprintf(
				"the answer to a turn has %d bytes; at most %d are kept", len(result.Text), record.MaxAnswer)}
		}

		a.run.Progress.Said = append(a.run.Progress.Said, result.Text)
		if err := a.run.Save(ctx); err != nil {
			return nil, err
		}
		q.Messages = q.Written.At(a.run.Progress.Said)
	}
}

// said returns the outcome of a prompt: the answers to its earlier turns and result, the answer to the last.
func (a *Asker) said(target eval.Judge, result *providers.Result) *record.Run {
	outcome := &record.Run{AnsweredBy: target.Target(), Finish: string(result.Finish)}
	all := append(append(a.run.Progress.Said, result.Text), result.Others...)
	if len(all) == 1 {
		outcome.Answer = result.Text
	} else {
		outcome.Answers = all
	}
	return outcome
}
