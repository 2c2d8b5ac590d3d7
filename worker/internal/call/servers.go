package call

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/record"
	"github.com/evalfleet/evalfleet/worker/internal/run"
)

// StopsAll reports whether a failed call stops all runs of the run's provider until a person
// has acted: a call to that provider, or to the one that turns its answers into JSON. A failed
// call to a fallback model ends only the attempt at that model.
func (c *Calls) StopsAll(s Step, failed *providers.Error) bool {
	ours := s.Target.Provider == c.run.Judge.Provider || c.run.Progress.AnswerBy != ""
	return (record.PausesProvider(failed.Class) || c.gone) && ours && !c.chain.StandIn(s.Target)
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
// calls, others wait until one of them has been tried again, and c.gone is set if that one
// met none either.
func (c *Calls) noteServer(ctx context.Context, target eval.Judge, failure error) {
	met, again := c.by.servers.met(target.Provider, failure), c.run.Settings().Retry.InitialDelay
	c.gone = errors.Is(failure, providers.ErrNoServer) && met.absent >= maxAbsent && time.Since(met.since) >= again
	if met.absent != maxAbsent || c.gone {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), run.PauseTime)
	defer cancel()
	if err := c.by.Worker.Limiter.Cool(ctx, ratelimit.Scope{Provider: target.Provider}, again); err != nil {
		c.by.Worker.Log.Warn().Err(err).Msg("cannot share a cooldown with other workers")
	}
}

// wordsOf is the provider's message, with the provider's name if it is not the one asked.
func (c *Calls) wordsOf(s Step, failed *providers.Error) string {
	if s.Target.Provider == c.run.Judge.Provider {
		return failed.Message
	}
	return s.Target.Target() + " says: " + failed.Message
}
