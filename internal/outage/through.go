package outage

import (
	"context"
	"time"
)

// AwayFor is how long an unavailable Redis is left alone.
const AwayFor = 500 * time.Millisecond

// Through calls do again after AwayFor for as long as it fails because Redis is
// unavailable, and returns any other result. It returns ctx's error if that ends first.
func Through(ctx context.Context, do func(context.Context) error) error {
	for {
		err := do(ctx)
		if !Is(err) {
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
