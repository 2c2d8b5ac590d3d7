package worker

import (
	"cmp"
	"context"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/record"
)

const (
	// tellEvery is how often a worker reports its state; a report is valid for as long as a
	// heartbeat by default.
	tellEvery = 3 * time.Second
	toldHolds = ratelimit.DefaultLease
)

// tell publishes this worker's state until its last call has ended.
func (s *session) tell(ctx context.Context) {
	host, _ := os.Hostname() // otherwise unknown
	of := record.Worker{
		V: record.WorkerVersion, Host: host, Process: os.Getpid(), Version: s.cfg.Version,
		Slots: s.cfg.Slots, Queues: []string{}, Since: time.Now().UTC(), Lease: cmp.Or(s.cfg.Lease, ratelimit.DefaultLease),
	}
	for {
		of.Flying, of.Waiting, of.Stopping = s.budget.inFlight(), s.limiter.Waiting(), s.stopping.Err() != nil
		if s.mu.TryLock() { // it is held while queues end, which lasts
			of.Queues = append([]string{}, slices.Sorted(maps.Keys(s.queues))...)
			s.mu.Unlock()
		}
		if err := s.store.Tell(ctx, s.id, of, toldHolds); err != nil && ctx.Err() == nil {
			s.log.Debug().Err(err).Msg("cannot publish this worker's state; retrying")
		}
		select {
		case <-time.After(tellEvery):
		case <-ctx.Done():
			return
		}
	}
}
