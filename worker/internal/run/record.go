package run

import (
	"context"
	"errors"
	"time"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/worker/internal/evaluations"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// Record writes outcomes in one step, with the calls not stored yet. Outcomes of other runs than this one have Index,
// Generation and Dimension set. Record continues even if the worker is stopping or fenced: paid answers are kept, and
// the script records a run only once, from any worker.
func (r *Execution) Record(ctx context.Context, state eval.State, outcomes []record.Run) error {
	encoded := make([]store.Outcome, len(outcomes))
	calls := r.unsaved()
	for i := range outcomes {
		r.complete(&outcomes[i])
		var err error
		if encoded[i], err = store.Encode(r.Task.Evaluation, state, outcomes[i], calls); err != nil {
			return err
		}
		calls = nil // they are stored with the first
	}

	recorded, err := r.put(ctx, encoded)
	created := r.Evaluation.Record.Created
	switch {
	case errors.Is(err, store.ErrNoEvaluation):
		created, recorded = time.Time{}, make([]store.Recorded, len(encoded))
	case err != nil:
		return err
	}

	for i, o := range encoded {
		r.on.Ledger.Put(o, created, recorded[i].Entry)
	}
	r.on.Ledger.Stored(r.calls)
	if err != nil {
		return err
	}

	r.calls = nil
	for i, outcome := range outcomes {
		outcome.State = state.String()
		r.recorded(ctx, outcome, recorded[i])
	}

	return nil
}

// recorded does what follows from a recorded outcome, of the run itself or of a run that was asked together with it.
func (r *Execution) recorded(ctx context.Context, outcome record.Run, as store.Recorded) {
	e := observe.Event{Event: observe.EventSucceeded, ElapsedS: r.Elapsed().Seconds()}
	if outcome.Index == r.Task.Index {
		r.ended, r.cancelled = outcome, as.Cancelled
		if as.Once {
			r.hand.recorded(outcome)
		}
	} else {
		e.RunID, e.Dimension = outcome.RunID(r.Task.Evaluation).Short(), outcome.Dimension
	}
	if as.Streak >= record.MaxStreak {
		r.PauseProvider(ctx, record.Pause{Class: outcome.Class, Message: outcome.Error, Runs: as.Streak})
	}
	if as.Once && outcome.State == eval.StateSucceeded.String() {
		r.Emit(e)
	}
}

// Ended returns the recorded outcome, or reports that the run was cancelled first.
func (r *Execution) Ended() (outcome record.Run, cancelled bool) { return r.ended, r.cancelled }

// complete adds the fields that all outcomes of the run have in common.
func (r *Execution) complete(outcome *record.Run) {
	outcome.Phase, outcome.Kind, outcome.Queue, outcome.Name = r.Task.Phase, r.Task.Kind, r.Queue, r.Task.Name
	outcome.Judge, outcome.Model = r.Judge.Name, r.Judge.Target()
	outcome.Item, outcome.Trial = r.Evaluation.Asked.Items[r.Documents[0].Item].ID, r.Place.Trial
	for _, d := range r.Documents {
		outcome.Documents = append(outcome.Documents, d.ID)
		outcome.Candidates = append(outcome.Candidates, d.Candidate)
	}
	outcome.Attempts, outcome.Worker, outcome.Tally = r.Progress.Attempts, r.on.ID, r.Progress.Fallen.Tally
	outcome.Ended = r.Now().UTC()
	outcome.Started = r.Progress.Started.UTC()
	if r.Progress.Started.IsZero() || outcome.Started.After(outcome.Ended) { // Redis's clock was set back
		outcome.Started = outcome.Ended
	}
}

// put records outcomes in one step, and returns the result for each.
func (r *Execution) put(ctx context.Context, encoded []store.Outcome) (done []store.Recorded, err error) {
	err = r.Persist(ctx, func(ctx context.Context) (err error) {
		if len(encoded) > 1 {
			done, err = r.on.Store.PutAll(ctx, encoded)
			return err
		}
		one, err := r.on.Store.Put(ctx, encoded[0])
		done = []store.Recorded{one}
		return err
	})
	return done, err
}

// Elapsed returns the time since the run's first call was asked for; 0 if none was.
func (r *Execution) Elapsed() time.Duration {
	if r.Progress.Started.IsZero() {
		return 0
	}
	return max(0, r.Now().Sub(r.Progress.Started))
}

// PauseTime bounds the time for pausing or stopping something for the whole fleet.
const PauseTime = 5 * time.Second

// PauseProvider stops new calls to the run's provider for its evaluation, in every process, and logs that the first
// time. If it fails, the next run with the same failure tries again.
func (r *Execution) PauseProvider(ctx context.Context, why record.Pause) (paused bool) {
	ctx, release := r.on.Ledger.Lasting(ctx)
	defer release()
	ctx, cancel := context.WithTimeout(ctx, PauseTime)
	defer cancel()
	id, provider := r.Task.Evaluation, r.Judge.Provider
	why.At = r.Now().UTC()
	first, err := r.Steering().PauseProvider(ctx, id, provider, why)
	if first {
		r.Emit(observe.Event{Event: observe.EventPaused, Class: why.Class, Message: why.String()})
		r.on.Log.Warn().Str("evaluation", string(id)).Str("provider", provider).Str("class", string(why.Class)).
			Msgf("provider %s is paused for this evaluation, %s; %s, then run `evalfleet resume`", provider, why, why.Remedy())
	}
	paused = err == nil || errors.Is(err, store.ErrNoEvaluation)
	if !paused {
		r.Log().Debug().Err(err).Msg("cannot pause provider; the next failure retries")
	}
	r.on.Halts.EndOf(evaluations.Halted{Evaluation: id, Provider: provider})
	return paused
}

// Steering returns an Enqueuer, with which to pause and stop the run's evaluation for all workers.
func (r *Execution) Steering() *enqueue.Enqueuer {
	return &enqueue.Enqueuer{Store: r.on.Store, Limits: r.on.Admin, Log: r.on.Log}
}
