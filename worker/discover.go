package worker

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/outage"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/store"
)

// discover serves the queues of active evaluations, new ones within a second.
func (s *session) discover(ctx context.Context) {
	spell := outage.Spell{Log: s.log, Fails: "cannot list queues; retrying", Works: "listing queues again", Elsewhere: true}
	for {
		err := s.discoverOnce(ctx)
		if redis.HasErrorPrefix(err, "WRONGTYPE") {
			s.broken <- err
			return
		}
		spell.Note(ctx, err)
		select {
		case <-time.After(discoverEvery):
		case <-s.changed:
		case <-ctx.Done():
			return
		}
	}
}

func (s *session) discoverOnce(ctx context.Context) error {
	ids, err := s.store.Active(ctx)
	if err != nil {
		return err
	}
	s.keep(ids)
	if time.Since(s.looked) >= s.lookAfter { // for missed announcements
		if err := s.refresh(ctx, slices.Concat(ids, s.halts.held())...); err != nil {
			return err
		}
		s.looked, s.lookAfter = time.Now(), max(lookEvery, time.Duration(len(ids))*lookTimeEach)
	}
	s.quarantine.Keep(ids)
	limits, err := s.inForce(ctx, ids)
	if err != nil {
		return err
	}
	wanted := map[string]int{}         // by queue, how many of its calls may be in flight
	all := map[string]map[asker]bool{} // by queue with their runs
	for _, id := range ids {
		e, err := s.evaluations.load(ctx, id)
		switch {
		case errors.Is(err, store.ErrNoEvaluation), err != nil && s.quarantine.Takes(id, err):
			continue
		case err != nil:
			return err
		}
		s.quarantine.Release(id)
		s.mu.Lock()
		for _, timeout := range e.record.Settings.Timeouts {
			s.longest = max(s.longest, timeout)
		}
		s.mu.Unlock()
		for _, phase := range e.record.Phases {
			for i, queue := range phase.JudgeQueues {
				judge := e.asked.Asked(phase.Kind)[i]
				if all[queue] == nil {
					all[queue] = map[asker]bool{}
				}
				all[queue][asker{id, judge.Target()}] = true
				if s.serves(queue, judge.Provider) {
					wanted[queue] = max(wanted[queue], allowedInFlight(limits, e.record.Call(phase.Kind, i, judge)))
				}
			}
		}
	}
	for queue, most := range wanted { // all, before the first of them takes its share
		s.budget.allow(queue, most)
	}
	s.asides.share(all)
	s.mu.Lock()
	s.all = slices.Sorted(maps.Keys(all))
	for queue := range wanted {
		s.serve(queue)
	}
	s.mu.Unlock()
	s.endIdle(ctx)
	return nil
}

// keep forgets every evaluation that is not among ids.
func (s *session) keep(ids []eval.ID) {
	s.evaluations.keep(ids)
	active := make(map[eval.ID]bool, len(ids))
	for _, id := range ids {
		active[id] = true
	}
	s.refusals.Range(func(key, _ any) bool {
		if !active[key.(haltKey).evaluation] {
			s.refusals.Delete(key)
		}
		return true
	})
	s.dropped.Range(func(key, _ any) bool {
		if !active[key.(notSent).evaluation] {
			s.dropped.Delete(key)
		}
		return true
	})
}

// refresh drops cached evaluations that have changed. Their runs that wait for a call, and
// those of paused or cancelled evaluations, go back to their queues.
func (s *session) refresh(ctx context.Context, ids ...eval.ID) error {
	changed, err := s.evaluations.look(ctx, ids...)
	if err != nil {
		return err
	}
	for _, id := range changed {
		s.halts.end(id)
	}
	return s.halts.look(ctx, ids...)
}

// endIdle stops serving queues that have had no runs for a while: each costs Redis a look now
// and then. Only discover serves queues, so none can be served meanwhile.
func (s *session) endIdle(ctx context.Context) {
	var idle []string
	s.mu.Lock()
	for queue, wanted := range s.queues {
		if time.Since(wanted) > idleTime && s.budget.idle(queue) {
			delete(s.queues, queue)
			idle = append(idle, queue)
		}
	}
	s.mu.Unlock()
	for _, queue := range idle {
		giveBack, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
		if err := s.gate.Leave(giveBack, queue); err != nil {
			s.notGivenBack(err)
		}
		cancel()
		s.log.Info().Str("queue", queue).Msg("queue is idle, no longer served")
	}
}

// inForce returns the limits in force. They are read again when evaluations come or go, and
// every few seconds.
func (s *session) inForce(ctx context.Context, ids []eval.ID) ([]ratelimit.Limit, error) {
	slices.Sort(ids)
	if slices.Equal(ids, s.limits.of) && time.Since(s.limits.asked) < lookEvery {
		return s.limits.inForce, nil
	}
	if err := s.pin(ctx); err != nil {
		return nil, err
	}
	if err := enqueue.RegisterAgain(ctx, s.store, s.admin, s.log, ids); err != nil {
		return nil, err
	}
	limits, err := s.admin.InForce(ctx)
	if err == nil {
		s.limits.of, s.limits.asked, s.limits.inForce = ids, time.Now(), limits
	}
	return limits, err
}

// allowedInFlight returns the tightest bound on calls in flight for a call's scope.
func allowedInFlight(limits []ratelimit.Limit, call ratelimit.Scope) int {
	most := math.MaxInt
	for _, limit := range limits {
		if limit.Kind == ratelimit.Concurrency && limit.Matches(call) {
			most = min(most, int(limit.Max))
		}
	}
	return most
}

// serves reports whether this worker can and may execute a queue's runs.
func (s *session) serves(queue, provider string) bool {
	if _, ok := s.cfg.Endpoints[provider]; !ok {
		return false
	}
	return Serves(s.cfg.Queues, queue)
}

// offer tells commands that enqueue which providers are called here.
func (s *session) offer(ctx context.Context) {
	names := slices.Sorted(maps.Keys(s.cfg.Endpoints))
	for {
		if err := s.store.Offer(ctx, names, time.Now().Add(3*offerEvery)); err != nil && ctx.Err() == nil {
			s.log.Debug().Err(err).Msg("cannot announce this worker's providers; retrying")
		}
		select {
		case <-time.After(offerEvery):
		case <-ctx.Done():
			return
		}
	}
}

// serve has a queue's runs pulled. The caller holds s.mu.
func (s *session) serve(queue string) {
	if _, served := s.queues[queue]; !served {
		s.gate.Serve(queue)
		s.log.Info().Str("queue", queue).Msg("serving queue")
	}
	s.queues[queue] = time.Now()
}
