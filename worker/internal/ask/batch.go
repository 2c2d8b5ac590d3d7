package ask

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/worker/internal/call"
	"github.com/evalfleet/evalfleet/worker/internal/run"
)

// undecided is how long a batch is looked for that may have been submitted. Some providers tell only when another batch
// has ended, which takes up to a day.
const undecided = 25 * time.Hour

// Batched is a run's request in a batch, and how its answer is read.
type Batched struct {
	call.Step
	by       *Asker
	question *question
}

// Batched returns the run's request in a batch. Its error is a *run.GaveUp if the run cannot be asked in one.
func (a *Asker) Batched(ctx context.Context) (*Batched, error) {
	q, err := a.question(ctx, a.run.Place.Dimension)
	if err != nil {
		return nil, err
	}
	s := call.Step{Target: a.run.Judge, Stage: call.StageVerdict, Request: a.request(a.run.Judge, q)}
	if q.Written != nil || a.run.Task.Kind == eval.KindRuns {
		s.Stage = call.StageAnswer
	}
	if q.Written != nil {
		s.Request.Complete = q.Written.Complete
	}
	if a.inTwo(s) || q.Written != nil && len(q.Written.Turns) != 1 {
		return nil, &run.GaveUp{Class: providers.BadRequest, Message: "it takes several calls"}
	}
	s.Target = call.InBatches(s.Target)
	return &Batched{s, a, q}, nil
}

// Known reports whether an earlier answer to the request is recorded, with which the run ends without a paid call.
func (b *Batched) Known(ctx context.Context) bool { return b.by.calls.Known(ctx, b.Step) }

// Outcome keeps the record of the run's call in a batch, and returns the outcome that its answer contains. The error is
// a *run.GaveUp if the run has failed; any other error means that the run is to be asked alone.
func (b *Batched) Outcome(ctx context.Context, job record.Job, answer call.Answer, leads bool) (*record.Run, error) {
	if err := b.by.calls.Take(ctx, b.Step, job, answer, leads); err != nil {
		return nil, err
	}
	result, may := answer.Result, b.by.chain.In() // another model may answer
	switch {
	case result.Finish == providers.FinishRefused && !may:
		return nil, &run.GaveUp{Class: providers.Refused, Message: refusal(result), Status: 200}
	case result.Finish == providers.FinishRefused:
		return nil, errors.New(refusal(result))
	case b.question.Written != nil:
		return b.by.said(b.by.run.Judge, result), nil
	}
	outcome, err := b.by.taken(b.question, b.by.run.Judge, result)
	if cut := cutShort(b.Step, result); err != nil && cut != nil && !may {
		return nil, cut
	}
	return outcome, err
}

// AskBatch asks for the answers of a batch that the run leads. lines are the requests to submit. Its error is a
// *run.GaveUp if the runs are to be asked alone; any other error means that the run was interrupted.
func (a *Asker) AskBatch(ctx context.Context, lines func(context.Context) ([]call.Line, error)) (*call.Batch, error) {
	s := call.Step{Target: call.InBatches(a.run.Judge), Stage: call.StageBatch}
	for {
		deadline := a.run.Settings().Batch.Deadline
		since, begun := a.run.Progress.Started, a.run.Progress.Submitting
		if !begun.IsZero() { // a batch that may exist is looked for longer, because its runs must not be asked twice
			since, deadline = begun, max(deadline, undecided)
		}
		if a.run.Progress.Job == nil && a.run.Now().Sub(since) > deadline {
			return nil, &run.GaveUp{
				Class: providers.Timeout, Message: fmt.Sprintf("no batch was accepted in %s", deadline),
			}
		}
		batch, err := a.calls.Batch(ctx, s, lines)
		if err != nil {
			err = a.afterFailure(ctx, s, err)
		}
		if batch != nil || err != nil {
			return batch, err
		}
	}
}
