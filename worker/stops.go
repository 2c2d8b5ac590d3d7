package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/record"
	"github.com/evalfleet/evalfleet/store"
)

// stopsAll reports whether a failed call stops all runs of the run's provider until a person
// has acted: a call to that provider, or to the one that turns its answers into JSON. A failed
// call to a stand-in only ends the attempt at that stand-in.
func (r *run) stopsAll(s step, failed *providers.Error) bool {
	ours := s.target.Provider == r.judge.Provider || r.progress.AnswerBy != ""
	return (record.PausesProvider(failed.Class) || r.gone) && ours && !r.standIn(s.target)
}

// maxAbsent is how many calls in a row may meet no server at their provider's address
// before others wait, and after the first delay of a retry the provider is paused: where no
// server has been, none comes by itself.
const maxAbsent = 5

// server is what a worker knows of the server at a provider's address.
type server struct {
	answered bool // a call, with whatever
	absent   int  // calls that met none, before
	since    time.Time
}

// servers are those of a worker's providers. It is safe for concurrent use.
type servers struct {
	mu sync.Mutex
	by map[string]server
}

// met notes how a call of a provider ended, and returns the updated knowledge.
func (s *servers) met(provider string, failure error) server {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.by[provider]
	var failed *providers.Error
	switch {
	case now.answered:
		return now
	case failure == nil || errors.As(failure, &failed) && failed.Status > 0:
		now = server{answered: true}
	case errors.Is(failure, providers.ErrNoServer):
		if now.absent++; now.absent == 1 {
			now.since = time.Now()
		}
	default:
		return now
	}
	if s.by == nil {
		s.by = map[string]server{}
	}
	s.by[provider] = now
	return now
}

// noteServer notes whether a server listens at a provider's address. If none has for some
// calls, others wait until one of them has been tried again, and r.gone is set if that one
// met none either.
func (r *run) noteServer(ctx context.Context, target eval.Judge, failure error) {
	met, again := r.servers.met(target.Provider, failure), r.evaluation.record.Settings.Retry.InitialDelay
	r.gone = errors.Is(failure, providers.ErrNoServer) && met.absent >= maxAbsent && time.Since(met.since) >= again
	if met.absent != maxAbsent || r.gone {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pauseTime)
	defer cancel()
	if err := r.limiter.Cool(ctx, ratelimit.Scope{Provider: target.Provider}, again); err != nil {
		r.log.Warn().Err(err).Msg("cannot share a cooldown with other workers")
	}
}

// wordsOf is the provider's message, with the provider's name if it is not the one asked.
func (r *run) wordsOf(s step, failed *providers.Error) string {
	if s.target.Provider == r.judge.Provider {
		return failed.Message
	}
	return s.target.Target() + " says: " + failed.Message
}

// pauseTime bounds the time for telling the fleet, apart from a run's own commands.
const pauseTime = 5 * time.Second

// pauseProvider stops new calls to the run's provider for its evaluation, in every process, and
// logs it the first time. If that fails, the next run that meets the same failure does it.
func (r *run) pauseProvider(why record.Pause) {
	ctx, cancel := context.WithTimeout(r.life.lasting, pauseTime)
	defer cancel()
	id, provider := r.task.Evaluation, r.judge.Provider
	why.At = time.Now().UTC()
	stop := &enqueue.Enqueuer{Store: r.store, Limits: r.admin, Log: r.log}
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
