package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/redistest"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// slowWay delays each command by up to 300 ms.
type slowWay struct{}

func (slowWay) DialHook(next redis.DialHook) redis.DialHook { return next }

func (slowWay) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (slowWay) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		time.Sleep(rand.N(300 * time.Millisecond))
		return next(ctx, cmd)
	}
}

// A worker whose lease is too short for the way to Redis does not start.
func TestWorkerRefusesALeaseThatIsTooShort(t *testing.T) {
	t.Parallel()
	b := setup(t, &fakeProvider{answer: firstWins})
	cfg := b.brief()
	client := redistest.New(t).Client()
	client.AddHook(slowWay{})
	cfg.Client, cfg.Lease = client, time.Second
	var tooShort *ratelimit.LeaseError
	if err := Run(t.Context(), cfg); !errors.As(err, &tooShort) {
		t.Errorf("Run = %v, want an error about the lease", err)
	}
}
