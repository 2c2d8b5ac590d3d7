package worker

import (
	"context"
	"errors"
	"time"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/internal/store"
	"github.com/evalfleet/evalfleet/providers"
)

// stopsAll reports whether a failed call is the end of all runs of the provider
// that the run asks, until a person has done something about it. Of another
// provider it is only the end of what was wanted of that one.
func (r *run) stopsAll(s step, failed *providers.Error) bool {
	return record.PausesProvider(failed.Class) && s.target.Provider == r.judge.Provider
}

// pauseTime bounds what is told to the fleet beside a run's own commands.
const pauseTime = 5 * time.Second

// pauseProvider has no further call of the run's provider begun for its evaluation,
// anywhere, and says so if nobody has before. Where that fails, the next run that
// meets the same does it.
func (r *run) pauseProvider(why record.Pause) {
	ctx, cancel := context.WithTimeout(r.life.lasting, pauseTime)
	defer cancel()
	id, provider := r.task.Evaluation, r.judge.Provider
	why.At = time.Now().UTC()
	stop := &enqueue.Enqueuer{Store: r.store, Limits: r.limiter, Log: r.log}
	first, err := stop.PauseProvider(ctx, id, provider, why)
	if first {
		r.log.Warn().Str("evaluation", string(id)).Str("provider", provider).Str("class", string(why.Class)).
			Msgf("provider %s is paused for this evaluation, %s; %s, then `evalfleet resume` goes on", provider, why, why.Remedy())
	}
	if err != nil && !errors.Is(err, store.ErrNoEvaluation) {
		r.logger().Debug().Err(err).Msg("provider is not paused; the next failure does it")
	}
	r.halts.endThose(func(key haltKey) bool { return key == haltKey{id, provider} })
}
