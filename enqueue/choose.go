package enqueue

import (
	"context"
	"fmt"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
)

// Due returns the phase that can now be chosen: it is open, and every run of the earlier phases has
// ended. due is false if there is none.
func Due(r record.Evaluation, standing store.Standing) (phase int, due bool) {
	for i, p := range r.Phases {
		if p.Open {
			return i, standing.Status != "" && standing.Status != record.StatusCancelled
		}
		for queue, runs := range p.Queues {
			if standing.Ended(i, queue) < runs {
				return 0, false
			}
		}
	}
	return 0, false
}

// Choose starts the due phase of an evaluation. choose computes its documents from the results,
// which must all be in the results store by now, and stores them there permanently. Choose may be
// repeated after any failure, and several processes may call it at once: the phase is written once.
// It returns false if no phase is due.
func (q *Enqueuer) Choose(
	ctx context.Context, id eval.ID,
	choose func(ctx context.Context, e *eval.Evaluation, r record.Evaluation, phase int) (*plan.Choice, error),
) (bool, error) {
	e, err := q.Store.Questions(ctx, id)
	if err != nil {
		return false, err
	}

	for {
		r, err := q.Store.WithChoices(ctx, id)
		if err != nil {
			return false, err
		}
		standings, err := q.Store.Standings(ctx, []eval.ID{id})
		if err != nil {
			return false, err
		}
		phase, due := Due(r, standings[id])
		if !due {
			return false, nil
		}
		choice, err := choose(ctx, e, r, phase)
		if err != nil {
			return false, err
		}
		chosen, err := Chosen(e, r, phase, choice)
		if err != nil {
			return false, err
		}
		// Another process may have been faster, or retried runs.
		if written, err := q.Store.Choose(ctx, r, phase, chosen); err != nil || !written {
			if err != nil {
				return false, err
			}
			continue
		}
		q.Log.Info().Str("evaluation", string(id)).Int("phase", phase).Int("runs", chosen.Runs).Msg("chose the pairs of the phase")
		return true, q.start(ctx, id)
	}
}

// Chosen returns an open phase of r with the documents that it compares, and the resulting runs.
func Chosen(e *eval.Evaluation, r record.Evaluation, phase int, choice *plan.Choice) (record.Phase, error) {
	of := r
	of.Phases = append([]record.Phase{}, r.Phases[:phase+1]...)
	chosen := &of.Phases[phase]
	chosen.Choice, chosen.Chosen = choice, true
	plans, err := Plans(e, of)
	if err != nil {
		return record.Phase{}, err
	}
	if len(plans) <= phase {
		return record.Phase{}, fmt.Errorf("phase %d of %s is beyond its limit", phase, r.ID)
	}
	fill(chosen, plans[phase])
	return *chosen, nil
}
