// Package trouble distinguishes trouble that affects every call of a provider from the failures of single runs, and
// trouble of this worker from trouble of the provider.
//
// It watches how a worker's calls end. Calls that fail one after another, with no answer between them, are reported to
// the limiter, which knows the answers to other workers. If others have had some, the trouble is this worker's own: it
// makes only an occasional call of the provider and returns the runs to their queues. Otherwise all workers stop
// calling it, except for one call at a time.
//
// It changes no runs: package call decides what a failed call costs its run.
package trouble

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/backoff"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

const (
	// enough is how many calls in a row, or of different runs, must fail before the cause is not a single run. With one
	// run less, one of them has to fail twice.
	enough = 3
	// never is how many calls in a row must fail to reach a provider that has answered no worker before it is no longer
	// called. Waiting does not help if there never was a server.
	never = 5
	// lately is how long after an answer a single call that says that the provider is down is not evidence of it.
	lately = 10 * time.Second
	// recently is how recent an answer to another worker must be. Only then is trouble on the way to a provider, or
	// with its key, this worker's own, and only then does trouble with its answers stay this worker's own.
	recently = 2 * time.Minute
	// tellEvery is how often answers are reported to other workers.
	tellEvery = 5 * time.Second
	// refusedEvery is how often refusals because of too many requests are reported.
	refusedEvery = time.Second
	// proveTime is how long the worker waits for the outcome of that call before it tries another.
	proveTime = 30 * time.Second
)

// pauses are the times after which a worker with trouble of its own tries one call. They grow even if the trouble
// returns within the longest of them: with too few file descriptors one call succeeds and several do not.
var pauses = backoff.Waits{First: time.Second, Longest: time.Minute, Factor: 2}

// Troubles holds what a worker has found out about its providers. It is safe for concurrent use.
type Troubles struct {
	limiter *ratelimit.Limiter
	log     zerolog.Logger
	hold    func(queue string, most int) // tasks of the queue that may be held; below 0: any
	leave   func(provider string)        // ends the waits of runs for calls of the provider

	mu     sync.Mutex // guards all below; not held during I/O
	of     map[ratelimit.Scope]*target
	queues map[string][]string // by provider, the queues that have only its runs
}

// target is a provider, or a model of one.
type target struct {
	since    time.Time    // when the first of the failed calls ended; zero: none failed since an answer
	runs     []eval.RunID // of the failed calls, the first few runs that had not failed before
	failed   int          // calls
	evidence int          // failed calls of those runs
	reported time.Time    // when the failed calls were last reported
	refused  time.Time    // when a refusal because of too many requests was last reported
	answered time.Time    // when a call was answered last; zero: none was
	told     time.Time    // when an answer was last reported
	out      time.Time    // since when calls of every worker wait, as far as this one knows; zero: they do not
	own      *own         // trouble of this worker alone; nil: none
	ended    struct {     // the last such trouble
		at     time.Time // zero: there was none
		pauses int
	}
}

// own is trouble that only this worker has with a provider.
type own struct {
	since  time.Time
	pauses int       // begun, with those of trouble that ended shortly before
	next   time.Time // when one call may be tried
	class  providers.Class
	words  string
}

// rest begins the next pause.
func (o *own) rest(now time.Time) {
	o.pauses++
	o.next = now.Add(o.pause())
}

// pause returns the length of the latest pause.
func (o *own) pause() time.Duration { return pauses.After(o.pauses - 1) }

// New returns the troubles of a worker. hold limits how many tasks of a queue may be held; leave ends the waits of runs
// for calls of a provider.
func New(limiter *ratelimit.Limiter, log zerolog.Logger, hold func(queue string, most int), leave func(provider string)) *Troubles {
	return &Troubles{limiter: limiter, log: log, hold: hold, leave: leave, of: map[ratelimit.Scope]*target{}}
}

// Ended is a call that has ended.
type Ended struct {
	Run      eval.RunID
	Fresh    bool // no call of the run has failed before, except excused ones
	Provider string
	Model    string
	Tier     string           // service tier that was asked for; empty: the standard one
	Began    time.Time        // on this process's own clock
	Waited   bool             // the call waited for a cooldown
	Failed   *providers.Error // nil: it was answered
	// Waits: the run's evaluation waits for outages to end.
	Waits bool
	Again time.Duration // the initial delay before a failed call is repeated
}

// calls returns the scope of the calls that are served like this one. A tier of a model lacks capacity by itself.
func (e Ended) calls() ratelimit.Scope {
	return ratelimit.Scope{Provider: e.Provider, Model: e.Model, Tier: e.Tier}
}

// scope returns the scope of the calls that a failure of a kind affects.
func (e Ended) scope(k Kind) ratelimit.Scope {
	if k == OfProvider || k == OfRequest {
		return e.calls()
	}
	return ratelimit.Scope{Provider: e.Provider}
}

// report describes the failed calls of a kind. lasted is the time since the first of them ended.
func (e Ended) report(k Kind, lasted time.Duration) ratelimit.Failing {
	return ratelimit.Failing{Scope: e.scope(k), Class: string(e.Failed.Class), Message: e.Failed.Message, For: lasted}
}

// Finding says whose fault a failed call is.
type Finding struct {
	Own bool // this worker's: another can make the call
	Out bool // the provider's: the call is repeated when it answers
	Way bool // not the run's: nothing was sent
	// Charged: the call tried whether an outage is over, and failed in a way that may be the run's fault. Without the
	// charge, runs that always fail in this way would last as long as an outage.
	Charged bool
	// Since is when this worker learned of the outage.
	Since time.Time
	// Never: calls in a row have not reached the provider, for some time, and no worker is known to have had an answer
	// from it.
	Never bool
	Again bool // as Never, but for a shorter time: one more call should be tried after a delay
	Over  bool // the evaluation no longer waits for the outage to end
}

// Note records how a call ended, and says whose fault it is if it failed: the run's, unless the finding says otherwise.
func (t *Troubles) Note(ctx context.Context, e Ended) Finding {
	if e.Failed == nil {
		t.answered(ctx, e)
		return Finding{}
	}
	switch kind := KindOf(e.Failed); kind {
	case OfNothing:
		return Finding{}
	case OfRequest:
		if e.Failed.Class == providers.RateLimited || e.Failed.Class == providers.QuotaDaily {
			t.refused(ctx, e)
		} else {
			t.answered(ctx, e)
		}
		return Finding{}
	default:
		return t.failed(ctx, e, kind)
	}
}

// refused records a call that a rate limit or quota refused, so that status can show the provider's message if it
// answers no call for a minute.
func (t *Troubles) refused(ctx context.Context, e Ended) {
	t.mu.Lock()
	now := time.Now()
	of := t.target(e.scope(OfRequest))
	if of.since.IsZero() {
		of.since = now
	}
	known := now.Sub(of.refused) < refusedEvery
	if !known {
		of.refused = now
	}
	lasted := now.Sub(of.since)
	t.mu.Unlock()
	if known {
		return
	}
	if _, err := t.limiter.Report(ctx, e.report(OfRequest, lasted)); err != nil {
		t.log.Debug().Err(err).Msg("cannot tell others of refused calls")
	}
}

// failed records a failed call, and reports it if it is not the only one.
func (t *Troubles) failed(ctx context.Context, e Ended, kind Kind) Finding {
	t.mu.Lock()
	now := time.Now()
	of := t.target(e.scope(kind))
	if of.since.IsZero() {
		of.since = now
	}
	of.failed++
	if e.Fresh && len(of.runs) < enough && !slices.Contains(of.runs, e.Run) {
		of.runs = append(of.runs, e.Run)
	}
	if slices.Contains(of.runs, e.Run) {
		of.evidence++
	}
	report := e.report(kind, now.Sub(of.since))
	suffices, failed := of.suffices(e, kind, now), of.failed
	switch kind {
	case OfProcess:
		report.Own = true
	case OfWay, OfAccount:
		report.Within = recently
	case OfProvider:
		if !of.reported.IsZero() {
			report.Since = now.Sub(of.reported)
		}
		// Others report an answer only every tellEvery, and their calls may take minutes, while this worker may try its
		// next call after a second.
		if t.target(ratelimit.Scope{Provider: e.Provider}).own != nil {
			report.Since = max(report.Since, recently)
		}
	}
	t.mu.Unlock()

	if kind == OfProvider && !e.Waits {
		return Finding{}
	}
	if !suffices && !t.suspended(ctx, e) {
		return Finding{Way: kind == OfWay && e.Waits}
	}

	found, err := t.limiter.Report(ctx, report)
	if err != nil {
		t.log.Debug().Err(err).Msg("cannot tell other workers of failed calls")
		return Finding{}
	}
	if !found.Own { // only now: calls that fail together ask about the same time
		t.mu.Lock()
		of.reported = now
		t.mu.Unlock()
	}

	switch {
	case found.Own:
		t.begin(e, kind)
		return Finding{Own: true}
	case kind == OfAccount:
		return Finding{}
	case kind == OfWay && !found.Answered:
		return Finding{Way: e.Waits, Never: failed >= never && report.For >= e.Again, Again: failed == never && report.For < e.Again}
	case !e.Waits:
		return Finding{}
	}
	return t.suspend(ctx, e, kind, found.First)
}

// suspended reports whether other workers have found an outage that affected this call too.
func (t *Troubles) suspended(ctx context.Context, e Ended) bool {
	out, err := t.limiter.Suspended(ctx, e.calls())
	if err != nil {
		t.log.Debug().Err(err).Msg("cannot ask whether a provider is suspended")
	}
	return out && e.Waits
}

// suffices reports whether the calls that failed are evidence of more than a run's failure.
func (of *target) suffices(e Ended, kind Kind, now time.Time) bool {
	switch {
	case of.own != nil || !of.out.IsZero(), kind == OfProcess, kind == OfAccount:
		return true
	case kind == OfWay:
		return of.failed >= enough
	case len(of.runs) >= enough, len(of.runs) == enough-1 && of.evidence > enough:
		return true
	}
	return saysDown(e.Failed) && (of.evidence > 1 || now.Sub(of.answered) > lately)
}

// suspend stops the calls of every worker.
func (t *Troubles) suspend(ctx context.Context, e Ended, kind Kind, first bool) Finding {
	scope := e.scope(kind)
	if err := t.limiter.Suspend(ctx, scope); err != nil {
		t.log.Warn().Err(err).Msg("cannot share an outage with other workers")
		return Finding{}
	}
	t.mu.Lock()
	of := t.target(scope)
	if of.out.IsZero() {
		of.out = time.Now()
	}
	since := of.out
	t.mu.Unlock()

	if first {
		t.log.Warn().Str("provider", e.Provider).Str("model", e.Model).Str("class", string(e.Failed.Class)).
			Msgf("%s has no answers: %s; its calls wait, and one at a time is tried", scope, e.Failed.Message)
	}
	return Finding{Out: true, Since: since, Charged: e.Waited && kind == OfProvider && !saysDown(e.Failed)}
}

// begin records a failed call as this worker's own trouble.
func (t *Troubles) begin(e Ended, kind Kind) {
	t.mu.Lock()
	of := t.target(ratelimit.Scope{Provider: e.Provider})
	now := time.Now()
	first := of.own == nil
	switch {
	case first:
		of.own = &own{since: now}
		if !of.ended.at.IsZero() && now.Sub(of.ended.at) < pauses.Longest {
			of.own.pauses = of.ended.pauses
		}
		of.own.rest(now)
	case e.Began.After(of.own.since):
		of.own.rest(now)
	}
	of.own.class, of.own.words = e.Failed.Class, e.Failed.Message
	pause := of.own.pause()
	t.mu.Unlock()

	t.apply(e.Provider)
	if first {
		t.leave(e.Provider)
		why := "other workers have answers"
		if kind == OfProcess {
			why = "the cause is on this machine"
		}
		t.log.Warn().Str("provider", e.Provider).Str("class", string(e.Failed.Class)).Dur("next", pause).
			Msgf("this worker cannot call provider %s: %s; %s, so its runs go back to their queues, and one call at a time is tried",
				e.Provider, e.Failed.Message, why)
	}
}

// answered ends the troubles of an answered call's provider and model. A call that began before this worker's own
// trouble says nothing about it.
func (t *Troubles) answered(ctx context.Context, e Ended) {
	now, tell, over := time.Now(), e.Waited, false
	t.mu.Lock()
	for _, scope := range []ratelimit.Scope{{Provider: e.Provider}, e.calls()} {
		of := t.target(scope)
		tell = tell || of.failed > 0 || !of.out.IsZero() || now.Sub(of.told) >= tellEvery
		if of.own != nil && e.Began.After(of.own.since) {
			of.ended.at, of.ended.pauses = now, of.own.pauses
			of.own, over = nil, true
		}
		*of = target{answered: now, told: of.told, own: of.own, ended: of.ended}
		if tell {
			of.told = now
		}
	}
	t.mu.Unlock()

	if over {
		t.apply(e.Provider)
		t.log.Info().Str("provider", e.Provider).Msg("the provider answers this worker again")
	}
	if !tell {
		return
	}
	ended, err := t.limiter.Answered(ctx, e.calls())
	if err != nil {
		t.log.Debug().Err(err).Msg("cannot tell other workers of an answer")
	}
	if ended {
		t.log.Info().Str("provider", e.Provider).Str("model", e.Model).Msg("the provider answers again")
	}
}

// MayCall reports whether this worker may make a call of a provider now. If it has trouble of its own, it may make one
// call from time to time.
func (t *Troubles) MayCall(provider string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.of[ratelimit.Scope{Provider: provider}]
	if of == nil || of.own == nil {
		return true
	}
	now := time.Now()
	if now.Before(of.own.next) {
		return false
	}
	of.own.next = now.Add(max(proveTime, of.own.pause()))
	return true
}

// Own returns the providers that only this worker cannot call, with the reason for each.
func (t *Troubles) Own() map[string]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all map[string]string
	for _, provider := range t.providers() {
		if all == nil {
			all = map[string]string{}
		}
		of := t.of[ratelimit.Scope{Provider: provider}].own
		all[provider] = string(of.class) + ": " + of.words
	}
	return all
}

// Serve sets which queues have the runs of one provider alone, by provider. Their tasks are not pulled while this
// worker has trouble with the provider.
func (t *Troubles) Serve(queues map[string][]string) {
	t.mu.Lock()
	t.queues = queues
	t.mu.Unlock()
	for provider := range queues { // even those without trouble, which may have ended while a queue was not served
		t.apply(provider)
	}
}

// Serves reports whether tasks of a queue are pulled as usual.
func (t *Troubles) Serves(queue string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, provider := range t.providers() {
		if slices.Contains(t.queues[provider], queue) {
			return false
		}
	}
	return true
}

// apply limits the tasks held of a provider's queues as its trouble requires now. If a call may be tried, one task of
// each queue may be pulled.
func (t *Troubles) apply(provider string) {
	t.mu.Lock()
	most := -1
	if of := t.target(ratelimit.Scope{Provider: provider}); of.own != nil {
		most = 0
		if !time.Now().Before(of.own.next) {
			most = 1
		}
	}
	queues := t.queues[provider]
	t.mu.Unlock()
	for _, queue := range queues {
		t.hold(queue, most)
	}
}

// providers returns the providers with which only this worker has trouble. The caller holds t.mu.
func (t *Troubles) providers() (names []string) {
	for scope, of := range t.of {
		if of.own != nil {
			names = append(names, scope.Provider)
		}
	}
	slices.Sort(names)
	return names
}

// target returns what is known about a scope. The caller holds t.mu.
func (t *Troubles) target(scope ratelimit.Scope) *target {
	of := t.of[scope]
	if of == nil {
		of = &target{}
		t.of[scope] = of
	}
	return of
}
