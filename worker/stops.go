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
// that the run asks, until a person has done something about it: a call of that
// one, or of the one that makes JSON of its answers. Of one that stands in for it,
// it is only the end of what was wanted of that.
func (r *run) stopsAll(s step, failed *providers.Error) bool {
	ours := s.target.Provider == r.judge.Provider || r.progress.AnswerBy != ""
	return record.PausesProvider(failed.Class) && ours && !r.standIn(s.target)
}

// wordsOf is what a provider said, and who, where it is not the one that is asked.
func (r *run) wordsOf(s step, failed *providers.Error) string {
	if s.target.Provider == r.judge.Provider {
		return failed.Message
	}
	return s.target.Target() + " says: " + failed.Message
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
		r.emit(Event{Event: EventPaused, Class: why.Class, Message: why.String()})
		r.log.Warn().Str("evaluation", string(id)).Str("provider", provider).Str("class", string(why.Class)).
			Msgf("provider %s is paused for this evaluation, %s; %s, then run `evalfleet resume`", provider, why, why.Remedy())
	}
	if err != nil && !errors.Is(err, store.ErrNoEvaluation) {
		r.logger().Debug().Err(err).Msg("cannot pause provider; the next failure retries")
	}
	r.halts.endThose(func(key haltKey) bool { return key == haltKey{id, provider} })
}
