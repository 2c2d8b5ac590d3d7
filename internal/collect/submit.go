package collect

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/redisx/outage"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Submit submits an evaluation with the runs already recorded in its results store (nil: none yet),
// which are not asked again, and with its jobs that have not ended, which go back to their runs. If
// the results store has the evaluation, further results go there too. Call Restoration.Restore next.
func Submit(ctx context.Context, q *enqueue.Enqueuer, s enqueue.Submission, recorded results.Reader) (enqueue.Receipt, error) {
	id := s.Evaluation.ID()
	if recorded != nil {
		var err error
		if s.Choices, err = Choices(ctx, recorded, id); err != nil {
			return enqueue.Receipt{}, err
		}
		if s.Jobs, err = recorded.Jobs(ctx, id); err != nil {
			return enqueue.Receipt{}, err
		}
		s.Recorded = recordedIn(ctx, recorded, id, len(plan.Phases(s.Evaluation)))
		switch _, err := recorded.Evaluation(ctx, id); {
		case err == nil:
			s.ResultsID = recorded.ID()
		case !errors.Is(err, results.ErrNoEvaluation):
			return enqueue.Receipt{}, err
		}
	}
	return q.Submit(ctx, s)
}

// Submit submits an evaluation to the fleet. recorded is as in the function Submit. s.Lost says
// that Redis has had it before, as recorded runs do. If closed is true, its budget or a daily quota
// is closed. It opens once Once has drained what waits in Redis, because that was used as well.
func (f *Collector) Submit(
	ctx context.Context, s enqueue.Submission, recorded results.Reader,
) (receipt enqueue.Receipt, closed bool, err error) {
	id, known := s.Evaluation.ID(), s.Lost
	if recorded != nil {
		if _, err := Spent(ctx, id, s.Settings, recorded); err != nil {
			return receipt, false, err
		}
		counts, err := recorded.Counts(ctx, id)
		if err != nil {
			return receipt, false, err
		}
		for _, phase := range counts {
			known = known || phase.Succeeded+phase.Failed > 0
		}
	}

	limits := f.Limits()
	if known {
		s.Settle = Settle(f.Store, limits, id, f.Log)
	}
	if err := limits.Remember(ctx); err != nil {
		return receipt, false, err
	}
	memory, _, err := limits.Memory(ctx)
	if err != nil {
		return receipt, false, err
	}

	receipt, err = Submit(ctx, &enqueue.Enqueuer{Store: f.Store, Limits: limits, Log: f.Log}, s, recorded)
	if err == nil && recorded == nil { // it has no calls, and cannot know others
		err = limits.Reseed(
			ctx, string(id), memory,
			func(ratelimit.Scope, time.Time, time.Time, []string) (int64, bool, error) { return 0, false, nil },
		)
	}
	if err == nil && s.Settings.Budget() > 0 && receipt.Created && !known {
		err = limits.TellSpent(ctx, string(id), memory, 0)
	}
	if err != nil && !errors.Is(err, ratelimit.ErrMemory) { // after ErrMemory, it stays closed until it is restored
		return receipt, false, err
	}

	closed, unsure, err := toRestore(ctx, limits, id, s.Settings.Budget() > 0)
	return receipt, closed || unsure && recorded != nil, err
}

// recordedIn yields the runs whose outcomes a results store has.
func recordedIn(ctx context.Context, reader results.Reader, id eval.ID, phases int) iter.Seq2[enqueue.Recorded, error] {
	return func(yield func(enqueue.Recorded, error) bool) {
		for phase := range phases {
			for run, err := range reader.States(ctx, id, phase) {
				if !yield(enqueue.Recorded{Phase: phase, Index: run.Index, State: run.State, Generation: run.Generation}, err) {
					return
				}
			}
		}
	}
}

// Resubmitting follows an evaluation to its end. If Redis loses it, it is submitted again; results
// in the results store are kept. It waits while Redis is unavailable or refuses commands for now.
// follow and submit return the errors of this package.
func Resubmitting(ctx context.Context, log zerolog.Logger, id eval.ID, follow, submit func(context.Context) error) error {
	log = log.With().Str("evaluation", string(id)).Logger()
	refused := outage.Spell{Log: log, Fails: "cannot submit the evaluation again; retrying", Works: "the evaluation is submitted again"}
	resubmit := func(ctx context.Context) error {
		err := submit(ctx)
		if err == nil || outage.Temporary(err) {
			refused.Note(ctx, err)
		}
		return err
	}

	for lost := false; ; {
		step := follow
		if lost {
			step = resubmit
		}
		err := outage.Through(ctx, step)
		switch {
		case err == nil && lost:
			lost = false
		case errors.Is(err, results.ErrNoEvaluation), errors.Is(err, store.ErrNoEvaluation):
			log.Warn().Msg("Redis has lost the evaluation; submitting it again")
			lost = true
		default:
			return err
		}
	}
}
