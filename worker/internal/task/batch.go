package task

import (
	"context"
	"errors"
	"slices"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/queue/gate"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/worker/internal/ask"
	"github.com/evalfleet/evalfleet/worker/internal/call"
	"github.com/evalfleet/evalfleet/worker/internal/fallback"
	"github.com/evalfleet/evalfleet/worker/internal/run"
)

// mate is a run that is asked in one batch with the run of the pull, or that run itself.
type mate struct {
	enqueue.Pending
	position int // in the queue
}

// mates returns the runs of the leader's batch that have not ended, the leader among them, in the order of their queue.
// to is the position before which they are; 0: all.
func (p *pull) mates(ctx context.Context, to int) ([]mate, error) {
	r, plan := p.run, p.run.Plan()
	span := *r.Task.Batch
	if to > 0 {
		span.To = to
	}
	span.To = min(span.To, plan.Len(r.Queue))
	states, err := p.by.Worker.Store.StatesIn(ctx, r.Task.Evaluation, r.Task.Phase, plan.Spans(r.Queue, span.From, span.To))
	if err != nil {
		return nil, err
	}

	var mates []mate
	for i := span.From; i < span.To; i++ {
		other := plan.At(r.Queue, i)
		state, generation := record.ParseStateByte(states.Of(other.Index))
		if other.Judge == r.Place.Judge && state == eval.StateNone && generation == r.Task.Generation {
			mates = append(mates, mate{enqueue.Pending{Run: other, Generation: generation}, i})
		}
	}
	return mates, nil
}

// taskOf returns the task of a run of the batch.
func (p *pull) taskOf(of mate) record.Task {
	t := p.run.Task
	next := enqueue.TaskOf(t.Evaluation, p.run.Evaluation.Asked, t.Phase, t.Kind, of.Run)
	next.Generation = of.Generation
	return next
}

// batchedRun is a run of a batch while the batch is submitted or taken apart.
type batchedRun struct {
	*run.Execution
	*ask.Batched
}

// beside returns a run of the batch with its request. The error is a *run.GaveUp if it cannot be asked in a batch.
func (p *pull) beside(ctx context.Context, of mate) (*batchedRun, error) {
	r := p.run
	if of.Index != p.run.Task.Index {
		var err error
		if r, err = p.run.Beside(ctx, p.taskOf(of)); err != nil {
			return nil, err
		}
	}
	chain := fallback.New(p.by.Worker, &p.by.refusals, r)
	asker := ask.New(p.by.Worker, p.by.Caller.Tokens, r, p.by.Caller.Of(r, chain), chain)
	asked, err := asker.Batched(ctx)
	return &batchedRun{r, asked}, err
}

// unsubmitted returns the runs of the leader's batch while none is submitted: those before the first that has a task of
// its own, because that run may lead the others, and before the first that leads a batch already: its task may have been
// dropped by a pause, or lost.
func (p *pull) unsubmitted(ctx context.Context) ([]mate, error) {
	mates, err := p.mates(ctx, 0)
	if err != nil {
		return nil, err
	}

	tasks, ids := make([]record.Task, len(mates)), make([]string, len(mates))
	for i, of := range mates {
		tasks[i] = p.taskOf(of)
		ids[i] = tasks[i].ID()
	}
	own, err := gate.Pullable(ctx, p.by.Worker.Store.Client(), p.run.Queue, ids)
	if err != nil {
		return nil, err
	}
	leading, err := p.by.Worker.Store.Leading(ctx, p.run.Task.Evaluation)
	if err != nil {
		return nil, err
	}

	for i, of := range mates {
		if (own[ids[i]] || leading[tasks[i].RunID().Short()]) && of.Index != p.run.Task.Index {
			return mates[:i], nil
		}
	}
	return mates, nil
}

// lines returns the requests to submit. Runs that cannot be asked in a batch, or need no call, are left out.
func (p *pull) lines(ctx context.Context) ([]call.Line, error) {
	mates, err := p.unsubmitted(ctx)
	if err != nil {
		return nil, err
	}
	var lines []call.Line
	for _, of := range mates {
		asked, err := p.beside(ctx, of)
		var over *run.GaveUp
		switch {
		case errors.As(err, &over):
			continue
		case err != nil:
			return nil, err
		case p.free(ctx, asked):
			continue
		}
		lines = append(lines, call.Line{
			Request: asked.Request, Index: of.Index, Generation: of.Generation, Position: of.position,
		})
	}
	return lines, nil
}

// free reports whether a run of the batch ends without a paid call: its winner is decided, or the answer is known.
func (p *pull) free(ctx context.Context, r *batchedRun) bool {
	if r.Task.Kind == eval.KindPairwise {
		if _, _, decided := r.Evaluation.Asked.Decided(r.Documents[0], r.Documents[1]); decided {
			return true
		}
	}
	return r.Batched.Known(ctx)
}

// passOn lets the next run of the leader's group lead, because the leader ends without a call.
func (p *pull) passOn(ctx context.Context) error {
	if p.run.Task.Batch == nil {
		return nil
	}
	mates, err := p.unsubmitted(ctx)
	if err != nil || len(mates) < 2 {
		return err
	}
	return p.pushLeader(ctx, mates[1])
}

// askInBatch submits the batch that the run leads, or takes the answers of the one that was submitted. over is false if
// the run itself is to be asked alone now. Runs that the batch did not answer are pushed, and are ordinary runs then.
//
// The leader is recorded last: as long as it is not, its batch is polled and taken apart again.
func (p *pull) askInBatch(ctx context.Context) (over bool, err error) {
	r := p.run
	if r.Progress.Taken {
		return false, nil
	}
	if r.Settings().Batch == nil || !p.calls.TakesBatches(r.Judge) {
		if p.mayBeAsked() {
			return false, p.asker.Unable(ctx, r.Judge)
		}
		p.sayNoBatches()
		if err := p.calls.Withdraw(ctx); err != nil {
			return false, err
		}
		return false, p.dissolve(ctx, nil)
	}

	batch, err := p.asker.AskBatch(ctx, p.lines)
	var gave *run.GaveUp
	switch {
	case errors.As(err, &gave):
		r.Log().Warn().Str("class", string(gave.Class)).Msg("the runs of a batch are asked one by one: " + gave.Message)
		return false, p.dissolve(ctx, nil)
	case err != nil:
		if job := r.Progress.Job; job != nil && job.To < r.Task.Batch.To {
			return false, errors.Join(p.pushRest(ctx, *job), err)
		}
		return false, err
	}
	return p.takeApart(ctx, batch)
}

// mayBeAsked reports whether the batch that the run leads may be at its provider, so that a worker that cannot poll it
// must leave it to others.
func (p *pull) mayBeAsked() bool {
	r := p.run
	if r.Settings().Batch == nil { // its evaluation was submitted anew without batches
		return false
	}
	if job := r.Progress.Job; job != nil {
		return job.Left(r.Now()) > 0
	}
	return r.Now().Sub(r.Progress.Submitting) < r.Settings().Batch.Deadline
}

// takeApart records the outcomes that a batch's answers contain, and the leader's last.
func (p *pull) takeApart(ctx context.Context, batch *call.Batch) (over bool, err error) {
	mates, err := p.mates(ctx, batch.Job.To)
	if err != nil {
		return false, err
	}
	if err := p.calls.Settle(ctx, batch); err != nil {
		return false, err
	}
	leads := func(of mate) bool { return of.Index == p.run.Task.Index }
	for _, of := range mates {
		answer, answered := batch.Answer(of.Index, of.Generation)
		if leads(of) || !answered {
			continue
		}
		if _, err := p.take(ctx, of, batch.Job, answer); err != nil {
			return false, err
		}
	}

	if err := p.dissolve(ctx, &batch.Job); err != nil {
		return false, err
	}
	at := slices.IndexFunc(mates, leads)
	if at < 0 {
		return true, nil // recorded by another worker
	}
	answer, answered := batch.Answer(p.run.Task.Index, p.run.Task.Generation)
	if !answered {
		answer = call.Answer{Err: &providers.Error{Class: providers.Cancelled, Message: "the batch has no answer to it"}}
	}
	return p.take(ctx, mates[at], batch.Job, answer)
}

// take records what a batch has answered to a run, and reports whether the run has ended. The calls of one that has not
// are stored.
func (p *pull) take(ctx context.Context, of mate, job record.Job, answer call.Answer) (ended bool, err error) {
	asked, err := p.beside(ctx, of)
	var over *run.GaveUp
	if errors.As(err, &over) {
		return false, nil // it was in no batch
	}
	if err != nil {
		return false, err
	}

	state, leads := eval.StateSucceeded, of.Index == p.run.Task.Index
	outcome, err := asked.Outcome(ctx, job, answer, leads)
	if errors.As(err, &over) {
		state, outcome, err = eval.StateFailed, &record.Run{Class: over.Class, Error: over.Message}, nil
	}
	if err != nil && leads {
		return false, p.run.Save(ctx)
	}
	if err != nil {
		return false, asked.Persist(ctx, asked.SaveCalls)
	}
	outcome.Index, outcome.Generation, outcome.Dimension = of.Index, of.Generation, asked.Dimension
	return true, asked.Record(ctx, state, []record.Run{*outcome})
}

// dissolve pushes the runs of the leader's batch that have not ended, except the leader, and notes that they are asked
// one by one from now on. job is the batch that has ended; nil: none was answered.
func (p *pull) dissolve(ctx context.Context, job *record.Job) error {
	var mates []mate
	var err error
	if job != nil {
		mates, err = p.mates(ctx, job.To)
	} else {
		mates, err = p.unsubmitted(ctx)
	}
	if err != nil {
		return err
	}
	var open []enqueue.Pending
	for _, of := range mates {
		if of.Index != p.run.Task.Index {
			open = append(open, of.Pending)
		}
	}
	err = p.run.Persist(ctx, func(ctx context.Context) error { return p.push(ctx, open, nil) })
	if err != nil {
		return err
	}
	p.takenOnce()
	return nil
}

// pushRest pushes the task of a batch for the runs of the group that did not fit into the one that was submitted.
func (p *pull) pushRest(ctx context.Context, job record.Job) error {
	mates, err := p.mates(ctx, 0)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(mates, func(of mate) bool { return of.position >= job.To })
	if at < 0 {
		return nil
	}
	return p.pushLeader(ctx, mates[at])
}

// pushLeader pushes the task of a batch for a run of the group and those after it.
func (p *pull) pushLeader(ctx context.Context, of mate) error {
	return p.run.Persist(ctx, func(ctx context.Context) error {
		return p.push(ctx, []enqueue.Pending{of.Pending}, &record.Span{From: of.position, To: p.run.Task.Batch.To})
	})
}

// push pushes runs of the run's queue; batch is what they lead.
func (p *pull) push(ctx context.Context, runs []enqueue.Pending, batch *record.Span) error {
	q := &enqueue.Enqueuer{Store: p.by.Worker.Store, Log: p.by.Worker.Log, Queued: p.by.Worker.Queued()}
	return q.Push(ctx, p.run.Evaluation.Record, p.run.Evaluation.Asked, p.run.Task.Phase, runs, batch)
}

// sayNoBatches logs once that this worker cannot submit batches to the run's model.
func (p *pull) sayNoBatches() {
	if _, said := p.by.noBatches.LoadOrStore(p.run.Judge.Target(), true); !said {
		p.by.Worker.Log.Warn().Str("provider", p.run.Judge.Provider).Str("model", p.run.Judge.Model).
			Msg("batches are on, but this provider has none here; asking for each run separately")
	}
}
