package collect

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/redisx/outage"
	"github.com/evalfleet/evalfleet/ratelimit"
)

const (
	// SettleTime is how long calls in flight have to end after Redis has lost an evaluation, before
	// its runs can be pulled again.
	SettleTime = 3 * time.Second
	// settleMost is how long workers have that are too slow to record their answers in SettleTime.
	settleMost = time.Minute
)

// Settle returns the function enqueue.Submission.Settle for an evaluation that Redis may have lost.
// It waits until every live worker has recorded again what it knows of the evaluation.
func Settle(s *store.Store, limits *ratelimit.Admin, id eval.ID, log zerolog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		for began := time.Now(); ; {
			var late []string
			memory, _, err := limits.Memory(ctx)
			if err == nil {
				late, _, err = unrecorded(ctx, s, limits, memory, id)
			}
			waited := time.Since(began)
			if waited >= SettleTime && err == nil && len(late) == 0 {
				return nil
			}
			if waited >= settleMost {
				log.Warn().Err(err).Strs("workers", late).Str("evaluation", string(id)).
					Msg("these workers have not recorded again what they know of it: answers that only they have may be asked for again")
				return nil
			}
			if err := outage.Pause(ctx, askWorkers); err != nil {
				return err
			}
		}
	}
}
