package worker

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/internal/gate"
	"github.com/evalfleet/evalfleet/internal/record"
)

// recoverDead returns the tasks of workers whose heartbeat lapsed. They have
// fenced their calls by then. asynq's own recovery takes up to two minutes and
// uses up a retry.
//
// It also takes the limits out of force that dead workers pinned.
func (s *session) recoverDead(ctx context.Context) {
	swept := false
	for {
		select {
		case <-time.After(recoverEvery):
		case <-ctx.Done():
			return
		}
		err := s.recoverOnce(ctx)
		if err == nil {
			err = s.buryDead(ctx)
		}
		if err == nil && !swept {
			err = s.sweep(ctx)
			swept = err == nil
		}
		if err != nil && ctx.Err() == nil {
			s.log.Debug().Err(err).Msg("cannot look for tasks of dead workers; trying again")
		}
	}
}

func (s *session) recoverOnce(ctx context.Context) error {
	s.mu.Lock()
	queues := slices.Collect(maps.Keys(s.queues))
	s.mu.Unlock()
	for _, queue := range queues {
		var dead []string
		returned, err := gate.Recover(ctx, s.cfg.Client, queue, func(ctx context.Context, owners []string) (map[string]bool, error) {
			alive, err := s.limiter.Alive(ctx)
			for _, owner := range owners {
				if err == nil && !alive[owner] {
					dead = append(dead, owner)
				}
			}
			return alive, err
		})
		for _, task := range returned {
			if err := s.countDeath(ctx, task); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
		if len(returned) > 0 {
			s.filled(queue)
			s.log.Warn().Str("queue", queue).Strs("workers", dead).Int("tasks", len(returned)).Msg("returned the tasks of dead workers")
		}
	}
	return nil
}

// countDeath notes that a worker died holding a task's run. Whoever returned the
// task counts it, under a token that makes a repeated command count once.
func (s *session) countDeath(ctx context.Context, task string) error {
	id, generation, err := record.ParseTaskID(task)
	if err != nil {
		return nil // not one of ours: the queue may be shared
	}
	_, err = s.store.Died(ctx, id, generation, newID())
	return err
}
