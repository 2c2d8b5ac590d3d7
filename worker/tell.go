package worker

import (
	"cmp"
	"context"
	"os"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/ratelimit"
)

const (
	// tellEvery is how often a worker reports its state; a report is valid for as long as a
	// heartbeat by default.
	tellEvery = 3 * time.Second
	toldHolds = ratelimit.DefaultLease
	// livesOnHolds is how long others can read that a worker lives on under another ID. By then
	// they have returned its tasks.
	livesOnHolds = 10 * time.Minute
)

// tell publishes this worker's state until its last call has ended.
func (s *session) tell(ctx context.Context) {
	host, _ := os.Hostname() // otherwise unknown
	of := record.Worker{
		V: record.WorkerVersion, Host: host, Process: os.Getpid(), Version: s.cfg.Version,
		Slots: s.cfg.Slots, Since: time.Now().UTC(), Lease: cmp.Or(s.cfg.Lease, ratelimit.DefaultLease),
	}

	fenced := s.life.previous
	for {
		if fenced != "" {
			before := record.Worker{V: record.WorkerVersion, Host: host, Process: of.Process, Version: of.Version, LivesOn: true}
			if err := s.worker.Store.Tell(ctx, fenced, before, livesOnHolds); err == nil {
				fenced = ""
			}
		}
		of.Flying, of.Waiting, of.Stopping = s.worker.Shares.InFlight(), s.worker.Limiter.Waiting(), s.worker.Stopping.Given() != nil
		of.Queues = s.queues.serving()
		recorded := s.life.ledger.Recorded()
		of.Recorded, of.Lost = &recorded, s.life.ledger.Lost()
		if err := s.worker.Store.Tell(ctx, s.worker.ID, of, toldHolds); err != nil && ctx.Err() == nil {
			s.worker.Log.Debug().Err(err).Msg("cannot publish this worker's state; retrying")
		}
		timer := time.NewTimer(tellEvery)
		select {
		case <-timer.C:
		case <-s.life.ledger.Confirmed():
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}
