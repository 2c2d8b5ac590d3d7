package ratelimit

import (
	"context"
	"fmt"
)

// closedPrefix begins the holder of an evaluation's closure.
const closedPrefix = "closed/"

// Close admits no call of an evaluation any more, in no process, from the moment
// it returns until Open: it pins a limit of none in flight, which every script
// sees. Calls in flight go on; those that wait keep waiting until their callers
// withdraw them. Closing twice is closing once.
func (l *Limiter) Close(ctx context.Context, evaluation string) error {
	limits := []Limit{{Scope: Scope{Evaluation: evaluation}, Kind: Concurrency}}
	if err := l.register(ctx, closedPrefix+evaluation, limits); err != nil {
		return fmt.Errorf("close limits of %s: %w", evaluation, err)
	}
	return nil
}

// Open takes back a Close. It is no error when the evaluation is not closed.
func (l *Limiter) Open(ctx context.Context, evaluation string) error {
	if err := l.pin(ctx, closedPrefix+evaluation, ""); err != nil {
		return fmt.Errorf("open limits of %s: %w", evaluation, err)
	}
	return nil
}
