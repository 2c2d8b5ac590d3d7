package outage

import (
	"context"
	"time"
)

// AwayFor is the pause before trying an unavailable Redis again.
const AwayFor = 500 * time.Millisecond

// Through calls do repeatedly, with pauses of AwayFor, while its error is Temporary. It returns any other
// result, or ctx's error if that ends first. It is for processes that Redis has served before.
func Through(ctx context.Context, do func(context.Context) error) error {
	for {
		err := do(ctx)
		if !Temporary(err) {
			return err
		}
		if err := Pause(ctx, AwayFor); err != nil {
			return err
		}
	}
}

// Pause blocks for d, and returns ctx's error if ctx ended meanwhile.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}
