// Package fallback decides which model may answer instead of a run's own, and how long a run waits before it asks that
// model. It remembers which providers refuse calls meanwhile.
package fallback

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/internal/run"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// aboutTurns is how much later than announced a wait for a limit may end and still count as the same wait. Workers take
// turns at a limit, and if one does not come the next is called after half a second.
const aboutTurns = 500 * time.Millisecond

// probeTime is how long others wait once a call has started after a cooldown.
const probeTime = time.Second

// Chain holds the fallback models of one run. It is used by one goroutine.
type Chain struct {
	on       *run.Session
	refusals *Refusals
	run      *run.Execution
	tooLong  time.Duration // the last wait for a limit that the run declined
}

// New returns a run's chain.
func New(on *run.Session, refusals *Refusals, r *run.Execution) *Chain {
	return &Chain{on: on, refusals: refusals, run: r}
}

// settings returns the evaluation's fallback settings; nil if no other model may answer.
func (c *Chain) settings() *record.Fallback { return c.run.Settings().Fallback }

// MaxWait returns how long the run waits before another model answers; 0: any time.
func (c *Chain) MaxWait() time.Duration {
	if !c.In() {
		return 0
	}
	return c.settings().MaxWait
}

// Targets returns the models that may answer, the run's own first, and the index of the one to ask now.
func (c *Chain) Targets() (targets []eval.Judge, at int) {
	targets = c.settings().Targets(c.run.Judge)
	// The models may have become fewer while the run was in its queue.
	return targets, min(c.run.Progress.Fallen.Asked, len(targets)-1)
}

// Window returns a model's context window in tokens; 0: unknown.
func (c *Chain) Window(target eval.Judge) int {
	of := c.on.Endpoints[target.Provider].Capabilities
	if of == nil {
		return 0
	}
	return of(target.Model).ContextWindow
}

// Next returns the index of the model to ask after the one at at gave up; len(targets): there is none. If a text was
// too long, that is a model known to accept more, or otherwise the first whose window is unknown. If a key or account
// was refused, it is a model of another provider. Models whose provider cannot be called from here are skipped.
func (c *Chain) Next(targets []eval.Judge, at int, over *run.GaveUp) int {
	unknown := len(targets)
	for next := at + 1; next < len(targets); next++ {
		target := targets[next]
		if _, able := c.on.Endpoints[target.Provider]; !able {
			c.on.SayUnserved(target, "fallbacks use the next model")
			continue
		}
		if record.PausesProvider(over.Class) && target.Provider == targets[at].Provider {
			continue // it has the same key
		}
		window := c.Window(target)
		if over.Class != providers.ContextLength || window > c.Window(targets[at]) {
			return next
		}
		if window == 0 {
			unknown = min(unknown, next)
		}
	}
	return unknown
}

// refusedTime is how long runs do not ask a provider that has refused the key or the account, if they can ask another.
const refusedTime = time.Minute

// Refusals holds the providers that refuse calls of evaluations, as a worker has met them. It is safe for concurrent
// use.
type Refusals struct{ by sync.Map } // refusedProvider by refuser

// Keep drops the refusals of all evaluations that are not active.
func (r *Refusals) Keep(active map[eval.ID]bool) {
	r.by.Range(func(key, _ any) bool {
		if !active[key.(refuser).evaluation] {
			r.by.Delete(key)
		}
		return true
	})
}

// note records a refusal unless an earlier one is still valid, and reports whether it is new.
func (r *Refusals) note(by refuser, over *run.GaveUp, now time.Time) (first bool) {
	before, known := r.by.Load(by)
	if !known || !now.Before(before.(refusedProvider).until) {
		r.by.Store(by, refusedProvider{over, now.Add(refusedTime)})
	}
	return !known
}

// refuser identifies a provider that refuses an evaluation's calls.
type refuser struct {
	evaluation eval.ID
	provider   string
}

// refusedProvider describes how a provider refused an evaluation's calls.
type refusedProvider struct {
	over  *run.GaveUp
	until time.Time
}

// NoteRefusal records that a provider refuses the evaluation's calls, if failure says so and another provider can be
// asked instead. It warns once.
func (c *Chain) NoteRefusal(target eval.Judge, failure error) {
	var failed *providers.Error
	if !errors.As(failure, &failed) || !record.PausesProvider(failed.Class) || !c.StandIn(target) {
		return
	}
	over := &run.GaveUp{Class: failed.Class, Message: failed.Message, Status: failed.Status}
	key := refuser{c.run.Task.Evaluation, target.Provider}
	if c.refusals.note(key, over, time.Now()) {
		c.on.Log.Warn().Str("evaluation", string(key.evaluation)).Str("provider", key.provider).Str("class", string(over.Class)).
			Msgf("provider %s refuses calls, %s; using fallback models, and trying it again every %s", key.provider, over.Message, refusedTime)
	}
}

// Refused returns why a provider is not asked now because another can be; nil: ask it.
func (c *Chain) Refused(target eval.Judge) *run.GaveUp {
	noted, known := c.refusals.by.Load(refuser{c.run.Task.Evaluation, target.Provider})
	if !known || time.Now().After(noted.(refusedProvider).until) || !c.StandIn(target) {
		return nil
	}
	return noted.(refusedProvider).over
}

// StandIn reports whether a model of another provider may still answer instead of the current one.
func (c *Chain) StandIn(target eval.Judge) bool {
	if !c.In() {
		return false
	}
	targets, at := c.Targets()
	return c.Next(targets, at, &run.GaveUp{Class: providers.Auth}) < len(targets) && targets[at].Provider == target.Provider
}

// FallTo makes the run ask another model, and stores that for the worker that continues the run
// after a crash.
func (c *Chain) FallTo(ctx context.Context, target eval.Judge, at int, over *run.GaveUp) error {
	f, state := c.settings(), &c.run.Progress.Fallen
	fell := record.Fell{
		Event: record.EventRateLimitFallback, Original: c.run.Judge.Target(), Fallback: target.Target(),
		Reason: record.ReasonRateLimitOrError, Class: over.Class, WaitS: over.Wait.Seconds(),
		Retries: state.Waits + state.Refused, At: c.run.Now().UTC(),
	}
	if f.MaxWait > 0 {
		seconds := f.MaxWait.Seconds()
		fell.MaxWaitS = &seconds
	}

	switch over.Class {
	case providers.ContextLength:
		fell.Event, fell.Reason = record.EventContextLengthFallback, ""
		state.ContextFallbacks++
	case providers.RateLimited, providers.QuotaDaily:
		state.RateLimitFallbacks++
	}

	state.Fell = append(state.Fell, fell)
	state.Asked, state.Waits, state.Until, state.Refused = at, 0, time.Time{}, 0
	state.Spent += c.run.Failures()
	c.run.Progress.Lacked, c.run.Progress.Unusable = "", 0
	c.run.Emit(observe.Event{Event: fell.Event, Class: over.Class, Fell: &fell})
	c.run.SayWait(zerolog.WarnLevel, run.FallsBack, c.run.Judge, over.Wait, func(e *zerolog.Event) {
		e.Str("fallback", target.Target()).Str("class", string(over.Class))
	})
	return c.run.Save(ctx)
}

// sayOver logs that the run no longer waits for a rate limit: the wait would be too long, or all of its retries are
// used up.
func (c *Chain) sayOver(target eval.Judge, wait time.Duration, retries int) {
	level, message := zerolog.ErrorLevel, run.WaitsUsedUp
	if c.settings().TooLong(wait) {
		level, message = zerolog.WarnLevel, run.WaitTooLong
	}
	c.run.SayWait(level, message, target, wait, func(e *zerolog.Event) {
		e.Int("retries", retries).Float64("max_wait_s", c.settings().MaxWait.Seconds())
	})
}

// In reports whether other models may answer instead of the current one. Once the current one has answered in prose, no
// other may.
func (c *Chain) In() bool {
	return c.settings() != nil && c.run.Progress.AnswerBy == ""
}

// Consent returns the function that decides whether a call to target accepts the waits that its limits impose: up to
// the evaluation's max_wait. nil: it accepts any wait. aside means that the run steps aside in a cooldown. Such a run
// may also find that one call has just started after the cooldown, and the others wait for its result.
func (c *Chain) Consent(target eval.Judge, aside bool) func(own time.Duration, first bool) bool {
	if !c.In() {
		return nil
	}

	f, state := c.settings(), &c.run.Progress.Fallen
	return func(own time.Duration, first bool) bool {
		now := c.run.Now()
		until := now.Add(own)
		switch wait, ok := f.LimitWait(state.Waits, own); {
		case !first || aside && own <= probeTime:
			// The run only waits for other calls, as long as its own limits would not delay it
			// too long.
			_, ok := f.LimitWait(0, own)
			return ok
		case state.Waits > 0 && !until.After(state.Until.Add(aboutTurns)) && (f.MaxWait == 0 || own <= f.MaxWait+aboutTurns):
			return true
		case !ok:
			c.tooLong = wait
			c.sayOver(target, wait, state.Waits)
			return false
		default:
			// A wait for the cooldown after a refusal is the run's wait for that refusal.
			if refused := state.Waits == 0 && !state.Until.IsZero(); !refused {
				c.run.EmitWait(target, wait)
			}
			state.Waits++
			state.Until = now.Add(wait)
			return true
		}
	}
}

// Declined returns the error of a call whose wait the run does not accept.
func (c *Chain) Declined(refusal *ratelimit.Refusal) *run.GaveUp {
	over := &run.GaveUp{
		Class: providers.RateLimited, Wait: max(c.tooLong, refusal.Wait),
		Message: fmt.Sprintf("limit %s requires a wait of %s", refusal.Limit, refusal.Wait.Round(time.Millisecond)),
	}
	c.tooLong = 0
	return over
}

// AfterRefusal handles a failed call if another model may answer instead. handled is false if the usual retry rules
// apply. Otherwise the run has waited for its next call (nil), or err says why there is none.
func (c *Chain) AfterRefusal(ctx context.Context, target eval.Judge, attempt int, failed *providers.Error) (handled bool, err error) {
	f, state := c.settings(), &c.run.Progress.Fallen
	over := &run.GaveUp{Class: failed.Class, Message: failed.Message, Status: failed.Status}
	switch failed.Class {
	case providers.RateLimited:
		wait, ok := f.RefusedWait(state.Refused, failed.RetryAfter)
		if !ok {
			over.Wait = wait
			c.sayOver(target, wait, state.Refused)
			return true, over
		}
		state.Refused++
		state.Until = c.run.Now().Add(wait)
		c.run.EmitWait(target, wait)
		c.run.Emit(observe.Event{
			Event: observe.EventRetry, Provider: target.Provider, Model: target.Model,
			Attempt: attempt, StatusCode: &failed.Status, DelayS: wait.Seconds(),
		})
		return true, c.run.Pause(ctx, wait, string(failed.Class))
	case providers.QuotaDaily:
		return true, over
	case providers.Ungrounded, providers.Unreasoned: // asked again, more firmly
		return false, nil
	}

	last := state.Asked >= len(f.Targets(c.run.Judge))-1
	if f.AfterRetries || last {
		return false, nil
	}
	return true, over
}
