package worker

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/internal/rescue"
)

// recoverDead takes over what dead workers left in the queues that are served here.
// It looks twice in the time after which a worker counts as dead.
func (s *session) recoverDead(ctx context.Context) {
	rescuer := rescue.New(s.store, s.limiter, s.log)
	every := recoverEvery
	if s.cfg.Lease > 0 {
		every = min(every, s.cfg.Lease/2)
	}
	for {
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return
		}
		s.mu.Lock()
		queues := slices.Collect(maps.Keys(s.queues))
		s.mu.Unlock()
		if err := rescuer.Once(ctx, queues, s.filled); err != nil && ctx.Err() == nil {
			s.log.Debug().Err(err).Msg("cannot look for tasks of dead workers; trying again")
		}
	}
}
