package worker

import (
	"context"
	"fmt"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/record"
)

// converse makes one model answer the open turns of a prompt, one call each. Every answer is
// stored before the next turn is asked, so that no turn is paid for again after a crash. Its
// errors are those of answered.
func (r *run) converse(ctx context.Context, target eval.Judge, q *question) (*record.Run, error) {
	for {
		s := step{target, stageAnswer, r.request(target, q)}
		s.request.Complete = q.Written.Complete
		result, err := r.answered(ctx, s)
		if err != nil {
			return nil, err
		}
		last := len(r.progress.Said)+1 == len(q.Written.Turns)
		switch {
		case last:
			return r.said(target, result), nil
		case len(result.Others) > 0:
			return nil, &gaveUp{class: providers.BadRequest, status: 200, message: "several answers came to one turn of several, " +
				"and which of them the next follows is not said: ask for one, or in one turn"}
		case len(result.Text) > record.MaxAnswer:
			return nil, &gaveUp{class: providers.Malformed, status: 200, message: fmt.Sprintf(
				"the answer to a turn has %d bytes, more than the %d that are kept", len(result.Text), record.MaxAnswer)}
		}
		r.progress.Said = append(r.progress.Said, result.Text)
		if err := r.save(); err != nil {
			return nil, err
		}
		q.Messages = q.Written.At(r.progress.Said)
	}
}

// said is the outcome of a prompt with the answer to its last turn.
func (r *run) said(target eval.Judge, result *providers.Result) *record.Run {
	outcome := &record.Run{AnsweredBy: target.Target(), Finish: string(result.Finish)}
	all := append(append(r.progress.Said, result.Text), result.Others...)
	if len(all) == 1 {
		outcome.Answer = result.Text
	} else {
		outcome.Answers = all
	}
	return outcome
}

// callTo is the scope of a call that the run makes to a model: its own, one in its
// place, or one that makes JSON of an answer.
func (r *run) callTo(target eval.Judge) ratelimit.Scope {
	return r.evaluation.record.Call(r.task.Kind, r.place.Judge, target)
}
