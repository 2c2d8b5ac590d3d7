package worker

import (
	"context"
	"time"

	"github.com/evalfleet/evalfleet/internal/rescue"
)

// unpinTime bounds the last command of a session, whose Redis may be away.
const unpinTime = 2 * time.Second

// pin pins the limits of the worker's configuration. Pinned already they change
// nothing: it is done again for a Redis that has lost them.
func (s *session) pin(ctx context.Context) error {
	if len(s.cfg.Limits) == 0 {
		return nil
	}
	return s.worker.Admin.Register(ctx, rescue.Holder(s.worker.ID), s.cfg.Limits)
}

// unpin undoes pin. If it fails, another worker does it once this one's heartbeat has lapsed.
func (s *session) unpin(ctx context.Context) {
	if len(s.cfg.Limits) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unpinTime)
	defer cancel()
	if err := s.worker.Admin.Unregister(ctx, rescue.Holder(s.worker.ID)); err != nil {
		s.worker.Log.Warn().Err(err).Msg("cannot unpin the limits of this worker's configuration; another worker does it once this one has ended")
	}
}
