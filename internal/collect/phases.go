package collect

import (
	"context"
	"errors"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/results"
)

// choosePhase starts the due phase of an evaluation, once all earlier results are in the results
// store. It returns false if none is due. It first stores the documents that the phase compares in
// the results store: no result of the phase can be stored without them. A process that comes later,
// or repeats this after being killed, reads them from there.
func choosePhase(ctx context.Context, q *enqueue.Enqueuer, db results.Store, id eval.ID) (bool, error) {
	return q.Choose(ctx, id, func(ctx context.Context, e *eval.Evaluation, r record.Evaluation, phase int) (*plan.Choice, error) {
		before, err := Choices(ctx, db, id)
		if err != nil {
			return nil, err
		}
		if phase < len(before) && before[phase] != nil {
			return before[phase], nil
		}
		found, err := results.Found(ctx, db, id, e, phase)
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
		return db.Choose(ctx, id, phase, chosen)
	})
}

// Choices returns, from a results store, the choices of what the phases of an evaluation compare.
// It returns none if the store does not have the evaluation.
func Choices(ctx context.Context, reader results.Reader, id eval.ID) ([]*plan.Choice, error) {
	stored, err := reader.Evaluation(ctx, id)
	if errors.Is(err, results.ErrNoEvaluation) {
		return nil, nil
	}
	return record.Evaluation{Phases: stored.Phases}.Choices(), err
}

// withChoicesOf returns r with the choices of open phases that the results store has.
func withChoicesOf(ctx context.Context, reader results.Reader, e *eval.Evaluation, r record.Evaluation) (record.Evaluation, error) {
	choices, err := Choices(ctx, reader, r.ID)
	for phase := range min(len(choices), len(r.Phases)) {
		if err == nil && r.Phases[phase].Open && choices[phase] != nil {
			r.Phases[phase], err = enqueue.Chosen(e, r, phase, choices[phase])
		}
	}
	return r, err
}
