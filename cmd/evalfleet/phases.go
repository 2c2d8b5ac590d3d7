package main

import (
	"context"
	"errors"
	"time"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/outage"
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/results"
)

// choosePhase lets the phase of an evaluation begin that is due, all results before
// being in the sink; false: none is. What it compares is stored in the sink first, so
// that no result of the phase can be there without it, and whoever comes later, or once
// more after being killed, takes it from there.
func choosePhase(ctx context.Context, q *enqueue.Enqueuer, sink results.Sink, id eval.ID) (bool, error) {
	return q.Choose(ctx, id, func(ctx context.Context, e *eval.Evaluation, r record.Evaluation, phase int) (*plan.Choice, error) {
		before, err := choicesIn(ctx, sink, id)
		if err != nil {
			return nil, err
		}
		if phase < len(before) && before[phase] != nil {
			return before[phase], nil
		}
		found, err := results.Found(ctx, sink, id, e, phase)
		if err != nil {
			return nil, err
		}
		choice, err := plan.Choose(e, phase, r.Choices(), found)
		if err != nil {
			return nil, err
		}
		chosen, err := enqueue.Chosen(e, r, phase, choice)
		if err != nil {
			return nil, err
		}
		return sink.Choose(ctx, id, phase, chosen)
	})
}

// choicesIn are what an evaluation's phases compare that was chosen from results, as a
// sink has it; none where it does not have the evaluation.
func choicesIn(ctx context.Context, sink results.Reader, id eval.ID) ([]*plan.Choice, error) {
	stored, err := sink.Evaluation(ctx, id)
	if errors.Is(err, results.ErrNoEvaluation) {
		return nil, nil
	}
	return record.Evaluation{Phases: stored.Phases}.Choices(), err
}

// withChoicesOf is a record whose open phases are chosen where a sink knows what they
// compare.
func withChoicesOf(ctx context.Context, sink results.Reader, e *eval.Evaluation, r record.Evaluation) (record.Evaluation, error) {
	choices, err := choicesIn(ctx, sink, r.ID)
	for phase := range min(len(choices), len(r.Phases)) {
		if err == nil && r.Phases[phase].Open && choices[phase] != nil {
			r.Phases[phase], err = enqueue.Chosen(e, r, phase, choices[phase])
		}
	}
	return r, err
}

// follow collects until nothing more comes of the evaluation (as reached says), and
// lets its phases begin as those before them end.
func (e *ending) follow(ctx context.Context, collector *results.Collector, q *enqueue.Enqueuer, sink results.Sink) error {
	for {
		e.due = false
		if err := collector.Follow(ctx, e.reached); err != nil || !e.due {
			return err
		}
		_, err := choosePhase(ctx, q, sink, e.id)
		if err == nil {
			err = e.reread(ctx)
		}
		if err == nil {
			continue
		}
		if !outage.Is(err) && !errors.Is(err, results.ErrBusy) {
			return err
		}
		select { // the collector meets it as well, and says so
		case <-time.After(awayFor):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// reread takes the phases from the record.
func (e *ending) reread(ctx context.Context) error {
	r, err := e.store.Evaluation(ctx, e.id)
	if err != nil {
		return err
	}
	e.phases = r.Phases
	e.watch.replan(plannedRuns(r))
	return nil
}

// goal is how many runs are to end before anything else can happen: those of the phases
// before the one that is open, or all.
func (e *ending) goal() (runs int, open bool) {
	for _, phase := range e.phases {
		if phase.Open {
			return runs, true
		}
		runs += phase.Runs
	}
	return e.watch.planned(), false
}
