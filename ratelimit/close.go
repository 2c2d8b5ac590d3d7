package ratelimit

import (
	"context"
	"fmt"
	"strings"
)

// closedPrefix begins the holder of a closure.
const closedPrefix = "closed/"

// closure is the holder of the closure of an evaluation, or of a provider for it.
func closure(of Scope) string {
	holder := closedPrefix + of.Evaluation
	if of.Provider != "" {
		holder += "/provider/" + of.Provider
	}
	return holder
}

// Close admits no call of an evaluation any more, in no process, from the moment
// it returns until Open: it pins a limit of none in flight, which every script
// sees. With a Provider it is the evaluation's calls of that one alone. Calls in
// flight go on; those that wait keep waiting until their callers withdraw them.
// Closing twice is closing once.
func (l *Limiter) Close(ctx context.Context, of Scope) error {
	limit := Limit{Scope: Scope{Evaluation: of.Evaluation, Provider: of.Provider}, Kind: Concurrency}
	if err := l.register(ctx, closure(of), []Limit{limit}); err != nil {
		return fmt.Errorf("close limits of %s: %w", limit.Scope, err)
	}
	return nil
}

// Open takes back the Close of the same scope, and of no other. It is no error
// when it is not closed.
func (l *Limiter) Open(ctx context.Context, of Scope) error {
	if err := l.pin(ctx, closure(of), ""); err != nil {
		return fmt.Errorf("open limits of %s: %w", of, err)
	}
	return nil
}

// OpenAll takes back every Close of an evaluation, of its providers too.
func (l *Limiter) OpenAll(ctx context.Context, evaluation string) error {
	whole := closure(Scope{Evaluation: evaluation})
	holders, err := l.client.HKeys(ctx, l.keys.registry()).Result()
	if err != nil {
		return fmt.Errorf("open limits of evaluation %s: %w", evaluation, err)
	}
	for _, holder := range holders {
		if holder != whole && !strings.HasPrefix(holder, whole+"/") {
			continue
		}
		if err := l.pin(ctx, holder, ""); err != nil {
			return fmt.Errorf("open limits of evaluation %s: %w", evaluation, err)
		}
	}
	return nil
}
