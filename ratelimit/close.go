package ratelimit

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
)

// closedPrefix begins the holder of a closure.
const closedPrefix = "closed/"

// Closure is the effect of one Close: it closes an evaluation, or a provider for it.
type Closure struct {
	Scope
	holder string
}

// Close stops admitting calls of an evaluation, in every process, from the moment it returns
// until Open: it pins a limit of none in flight, which every script sees. With a Provider it
// closes only the evaluation's calls to that provider. Calls in flight continue; waiting calls
// keep waiting until their callers withdraw them.
//
// Each Close of a whole evaluation is a separate closure, so an Open decided earlier, or whose
// command arrives late, does not undo it.
func (a *Admin) Close(ctx context.Context, of Scope) error {
	limit := Limit{Scope: Scope{Evaluation: of.Evaluation, Provider: of.Provider}, Kind: Concurrency}
	holder := closedPrefix + of.Evaluation
	if of.Provider != "" {
		holder += "/provider/" + of.Provider
	} else {
		holder += "/whole/" + rand.Text()[:10]
	}
	if _, err := a.register(ctx, holder, []Limit{limit}, ""); err != nil {
		return fmt.Errorf("close limits of %s: %w", limit.Scope, err)
	}
	return nil
}

// Closures returns every closure of an evaluation and of its providers.
func (a *Admin) Closures(ctx context.Context, evaluation string) ([]Closure, error) {
	holders, err := a.client.HKeys(ctx, a.keys.registry()).Result()
	if err != nil {
		return nil, fmt.Errorf("read closures of evaluation %s: %w", evaluation, err)
	}
	var closures []Closure
	for _, holder := range holders {
		rest, ok := strings.CutPrefix(holder, closedPrefix+evaluation)
		if !ok || rest != "" && rest[0] != '/' {
			continue
		}
		provider, _ := strings.CutPrefix(rest, "/provider/")
		if provider == rest {
			provider = ""
		}
		closures = append(closures, Closure{Scope{Evaluation: evaluation, Provider: provider}, holder})
	}
	return closures, nil
}

// Closed returns those of some evaluations that have a closure, of the whole evaluation or for a provider.
func (a *Admin) Closed(ctx context.Context, evaluations ...string) (closed []string, err error) {
	registry, err := a.load(ctx)
	if err != nil {
		return nil, fmt.Errorf("read closures: %w", err)
	}
	is := map[string]bool{}
	for holder := range registry.holders {
		if rest, ok := strings.CutPrefix(holder, closedPrefix); ok {
			evaluation, _, _ := strings.Cut(rest, "/")
			is[evaluation] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(evaluations), func(evaluation string) bool { return !is[evaluation] }), nil
}

// Open removes the given closures, and no others. It is no error if they are gone already.
func (a *Admin) Open(ctx context.Context, closures ...Closure) error {
	for _, closure := range closures {
		if _, err := a.pin(ctx, closure.holder, "", ""); err != nil {
			return fmt.Errorf("open limits of %s: %w", closure.Scope, err)
		}
	}
	return nil
}
