package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/record"
)

// windowMargin is by how much a request may be estimated to be larger than a
// model's context window and is sent nevertheless: estimates err, and an answer
// that it is too large costs nothing.
const windowMargin = 1.3

// aboutTurns is by how much a wait for a limit may end later than it was said and
// still be the same wait: workers take turns at a limit, and the next is called
// after half a second where one does not come.
const aboutTurns = 500 * time.Millisecond

// probeTime is for how long others wait once a call has started after a cooldown.
const probeTime = time.Second

// fallback is nil where no other model answers in the run's model's place.
func (r *run) fallback() *record.Fallback { return r.evaluation.record.Settings.Fallback }

// askAny asks the run's model and, while one after the other gives up, those in
// its place. Its error is that of the last one asked.
func (r *run) askAny(ctx context.Context, q *question) (*record.Run, error) {
	targets := r.fallback().Targets(r.judge)
	for {
		// The models may have become fewer while the run was in its queue.
		at := min(r.progress.Fallen.Asked, len(targets)-1)
		outcome, err := r.askFitting(ctx, targets, at, q)
		var over *gaveUp
		if err == nil || !errors.As(err, &over) || over.noJSON || r.progress.AnswerBy == targets[at].Target() {
			return outcome, err // in the last case the model answered, and the JSON of it failed
		}
		next := r.next(targets, at, over)
		if next == len(targets) {
			return nil, err
		}
		if err := r.fallTo(targets[next], next, over); err != nil {
			return nil, err
		}
	}
}

// askFitting asks a model, unless another could answer and the request is surely
// too large for this one.
func (r *run) askFitting(ctx context.Context, targets []eval.Judge, at int, q *question) (*record.Run, error) {
	target := targets[at]
	if over := r.refused(target); over != nil {
		return nil, over
	}
	if window := r.window(target); window > 0 && at+1 < len(targets) {
		size := r.tokens.expect(target.Target(), r.request(target, q))
		if float64(size) > windowMargin*float64(window) {
			return nil, &gaveUp{class: providers.ContextLength, message: fmt.Sprintf(
				"about %d tokens are asked of %s, which takes %d", size, target.Target(), window)}
		}
	}
	return r.askOne(ctx, target, q)
}

// window is a model's context window in tokens; 0: unknown.
func (r *run) window(target eval.Judge) int {
	of := r.cfg.Endpoints[target.Provider].Capabilities
	if of == nil {
		return 0
	}
	return of(target.Model).ContextWindow
}

// next returns the position of the model to ask after one that gave up; len(targets): there is
// none. After a text too long for it, that is a model known to take more, or otherwise the
// first whose window is unknown; after a refused key or account, a model of another provider.
// Models whose provider cannot be called from here are skipped.
func (r *run) next(targets []eval.Judge, at int, over *gaveUp) int {
	unknown := len(targets)
	for next := at + 1; next < len(targets); next++ {
		target := targets[next]
		if _, able := r.cfg.Endpoints[target.Provider]; !able {
			r.sayUnserved(target, "fallbacks use the next model")
			continue
		}
		if record.PausesProvider(over.class) && target.Provider == targets[at].Provider {
			continue // it has the same key
		}
		window := r.window(target)
		if over.class != providers.ContextLength || window > r.window(targets[at]) {
			return next
		}
		if window == 0 {
			unknown = min(unknown, next)
		}
	}
	return unknown
}

// refusedTime is how long runs that can ask another provider do not ask one that has
// refused the key or the account.
const refusedTime = time.Minute

// refusedProvider is how a provider refused an evaluation's calls.
type refusedProvider struct {
	over  *gaveUp
	until time.Time
}

// noteRefusal notes that a provider refuses the evaluation's calls, if that is how a call
// failed and another provider can be asked instead. It warns once.
func (r *run) noteRefusal(target eval.Judge, failure error) {
	var failed *providers.Error
	if !errors.As(failure, &failed) || !record.PausesProvider(failed.Class) || !r.standIn(target) {
		return
	}
	over := &gaveUp{class: failed.Class, message: failed.Message, status: failed.Status}
	key := haltKey{r.task.Evaluation, target.Provider}
	if before, known := r.refusals.Load(key); known && time.Now().Before(before.(refusedProvider).until) {
		return
	} else if !known {
		r.log.Warn().Str("evaluation", string(key.evaluation)).Str("provider", key.provider).Str("class", string(over.class)).
			Msgf("provider %s refuses calls, %s; asking fallback models instead, and it again every %s", key.provider, over.message, refusedTime)
	}
	r.refusals.Store(key, refusedProvider{over, time.Now().Add(refusedTime)})
}

// refused returns why a provider is not asked now because another can be; nil: it is.
func (r *run) refused(target eval.Judge) *gaveUp {
	noted, known := r.refusals.Load(haltKey{r.task.Evaluation, target.Provider})
	if !known || time.Now().After(noted.(refusedProvider).until) || !r.standIn(target) {
		return nil
	}
	return noted.(refusedProvider).over
}

// standIn reports whether a model of another provider may still answer instead of the current
// one.
func (r *run) standIn(target eval.Judge) bool {
	if !r.inChain() {
		return false
	}
	targets := r.fallback().Targets(r.judge)
	at := min(r.progress.Fallen.Asked, len(targets)-1)
	return r.next(targets, at, &gaveUp{class: providers.Auth}) < len(targets) && targets[at].Provider == target.Provider
}

// fallTo makes the run ask another model, and stores that for the worker that continues the run
// after a crash.
func (r *run) fallTo(target eval.Judge, at int, over *gaveUp) error {
	f, state := r.fallback(), &r.progress.Fallen
	fell := record.Fell{
		Event: record.EventRateLimitFallback, Original: r.judge.Target(), Fallback: target.Target(),
		Reason: record.ReasonRateLimitOrError, Class: over.class, WaitS: over.wait.Seconds(),
		Retries: state.Waits + state.Refused, At: time.Now().UTC(),
	}
	if f.MaxWait > 0 {
		seconds := f.MaxWait.Seconds()
		fell.MaxWaitS = &seconds
	}
	switch over.class {
	case providers.ContextLength:
		fell.Event, fell.Reason = record.EventContextLengthFallback, ""
		state.ContextFallbacks++
	case providers.RateLimited, providers.QuotaDaily:
		state.RateLimitFallbacks++
	}
	state.Fell = append(state.Fell, fell)
	state.Asked, state.Waits, state.Until, state.Refused = at, 0, time.Time{}, 0
	state.Spent += r.failures()
	r.progress.Lacked, r.progress.Unusable = "", 0
	r.emit(Event{Event: fell.Event, Class: over.class, Fell: &fell})
	return r.save()
}

// inChain reports whether other models may answer instead of the current one. Once one has
// answered in prose, they may not.
func (r *run) inChain() bool {
	return r.fallback() != nil && r.progress.AnswerBy == ""
}

// consent decides about the waits that its limits demand of a call to target: as long
// as the evaluation says, and not longer. nil: any. aside: the run steps aside in a
// cooldown; then it may also meet the moment in which one call has started after it and
// the others wait for what becomes of that.
func (r *run) consent(target eval.Judge, aside bool) func(own time.Duration, first bool) bool {
	if !r.inChain() {
		return nil
	}
	f, state := r.fallback(), &r.progress.Fallen
	return func(own time.Duration, first bool) bool {
		until := time.Now().Add(own)
		switch wait, ok := f.LimitWait(state.Waits, own); {
		case !first || aside && own <= probeTime:
			// The run only waits for other calls, as long as its own limits would not delay it
			// too long.
			_, ok := f.LimitWait(0, own)
			return ok
		case state.Waits > 0 && !until.After(state.Until.Add(aboutTurns)):
			return true
		case !ok:
			r.tooLong = wait
			return false
		default:
			// A wait for the cooldown after a refusal is the run's wait for that refusal.
			if refused := state.Waits == 0 && !state.Until.IsZero(); !refused {
				r.waits(target, wait)
			}
			state.Waits++
			state.Until = time.Now().Add(wait)
			return true
		}
	}
}

// declined is how a call ends for which the run does not wait.
func (r *run) declined(refusal *ratelimit.Refusal) *gaveUp {
	over := &gaveUp{
		class: providers.RateLimited, wait: max(r.tooLong, refusal.Wait),
		message: fmt.Sprintf("limit %s demands a wait of %s", refusal.Limit, refusal.Wait.Round(time.Millisecond)),
	}
	r.tooLong = 0
	return over
}

// afterRefusal decides about a call that failed where another model may answer
// instead. handled is false for what the rules of retry decide; else the run has
// waited for its next call (nil), or err says why there is none.
func (r *run) afterRefusal(ctx context.Context, s step, failed *providers.Error) (handled bool, err error) {
	f, state := r.fallback(), &r.progress.Fallen
	over := &gaveUp{class: failed.Class, message: failed.Message, status: failed.Status}
	switch failed.Class {
	case providers.RateLimited:
		wait, ok := f.RefusedWait(state.Refused, failed.RetryAfter)
		if !ok {
			over.wait = wait
			return true, over
		}
		state.Refused++
		state.Until = time.Now().Add(wait)
		r.waits(s.target, wait)
		e := s.event(EventRetry)
		e.Attempt, e.StatusCode, e.DelayS = r.attempt, &failed.Status, wait.Seconds()
		r.emit(e)
		return true, r.pause(ctx, wait, string(failed.Class))
	case providers.QuotaDaily:
		return true, over
	case providers.Ungrounded, providers.Unreasoned: // asked again, more firmly
		return false, nil
	}
	last := state.Asked >= len(f.Targets(r.judge))-1
	if f.AfterRetries || last {
		return false, nil
	}
	return true, over
}
