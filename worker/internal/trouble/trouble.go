// Package trouble tells trouble that every call of a provider has from the failures of single
// runs, and trouble of this worker from that of the provider.
//
// It watches how a worker's calls end. Calls that fail one after another, with no answer between
// them, are reported to the limiter, which knows the answers to other workers. If others have had
// some, the trouble is this worker's own: it makes no calls of the provider but for one now and
// then, and gives the runs back. Otherwise no worker makes any, but for one at a time.
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
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

const (
	// enough is how many calls in a row, or of different runs, must fail before they are no
	// single run's failures. One run less has to fail twice.
	enough = 3
	// never is how many calls in a row must fail to reach a provider that has answered no worker
	// before it is not asked again: where no server has been, none comes by itself.
	never = 5
	// lately is how long after an answer one call that says that its provider is down is no
	// evidence of it.
	lately = 10 * time.Second
	// recently is how recent an answer to another worker makes trouble on the way to a provider,
	// or with its key, this worker's own.
	recently = 2 * time.Minute
	// tellEvery is how often answers are told to other workers.
	tellEvery = 5 * time.Second
	// firstPause and longestPause bound the time after which a worker with trouble of its own
	// tries one call. It doubles, also where the trouble is back within longestPause: with too few
	// descriptors one call succeeds and several do not.
	firstPause, longestPause = time.Second, time.Minute
	// refusedEvery is how often refusals as one too many are reported.
	refusedEvery = time.Second
	// proveTime is how long the outcome of that call is waited for before another is tried.
	proveTime = 30 * time.Second
)

// Troubles keeps what a worker has found out about its providers. It is safe for concurrent use.
type Troubles struct {
	limiter *ratelimit.Limiter
	log     zerolog.Logger
	hold    func(queue string, most int) // tasks of the queue that may be held; below 0: any
	leave   func(provider string)        // ends the waits of runs for calls of the provider

	mu     sync.Mutex // guards all below; not held during I/O
	of     map[ratelimit.Scope]*target
	queues map[string][]string // of each provider, those that only its runs are in
}

// target is a provider, or a model of one.
type target struct {
	since    time.Time    // when the first of the failed calls ended; zero: none failed since an answer
	runs     []eval.RunID // of those that failed, the first few that had not failed before
	failed   int          // calls
	evidence int          // failed calls of those runs
	reported time.Time    // when they were last
	refused  time.Time    // when a refusal as one too many was reported
	answered time.Time    // when a call was answered last; zero: none was
	told     time.Time    // when that was told last
	out      time.Time    // since when calls of every worker wait, as this one knows; zero: they do not
	own      *own         // trouble of this worker alone; nil: none
	ended    struct {     // the last such trouble
		at    time.Time // zero: there was none
		pause time.Duration
	}
}

// own is trouble that only this worker has with a provider.
type own struct {
	since time.Time
	pause time.Duration
	next  time.Time // when one call may be tried
	class providers.Class
	words string
}

// New returns the troubles of a worker.
func New(limiter *ratelimit.Limiter, log zerolog.Logger, hold func(queue string, most int), leave func(provider string)) *Troubles {
	return &Troubles{limiter: limiter, log: log, hold: hold, leave: leave, of: map[ratelimit.Scope]*target{}}
}

// Ended is a call that has ended.
type Ended struct {
	Run      eval.RunID
	Fresh    bool // no call of the run has failed before, but for excused ones
	Provider string
	Model    string
	Began    time.Time        // on this process's own clock
	Waited   bool             // for a cooldown
	Failed   *providers.Error // nil: it was answered
	// Waits: the run's evaluation waits for the end of outages.
	Waits bool
	Again time.Duration // after which a failed call is made again at first
}

// scope returns whose calls a failure of a kind concerns.
func (e Ended) scope(k Kind) ratelimit.Scope {
	if k == OfProvider || k == OfRequest {
		return ratelimit.Scope{Provider: e.Provider, Model: e.Model}
	}
	return ratelimit.Scope{Provider: e.Provider}
}

// report describes the failed calls of a kind. lasted is the time since the first of them ended.
func (e Ended) report(k Kind, lasted time.Duration) ratelimit.Failing {
	return ratelimit.Failing{Scope: e.scope(k), Class: string(e.Failed.Class), Message: e.Failed.Message, For: lasted}
}

// Finding is whose fault a failed call is.
type Finding struct {
	Own bool // this worker's: another can make the call
	Out bool // the provider's: the call is made again when it answers
	Way bool // not the run's: nothing was sent
	// Charged: the call tried whether an outage is over, and failed in a way that may be the
	// run's fault. Otherwise runs that always fail in this way would last as long as an outage.
	Charged bool
	// Since is when this worker learnt of the outage.
	Since time.Time
	// Never: calls in a row have not reached the provider, for some time, and no worker is known
	// to have had an answer from it.
	Never bool
	Again bool // likewise, but for the time: one call should be tried, after a while
	Over  bool // the caller has no patience left for the outage
}

// Note notes how a call ended, and finds whose fault it is if it failed: the run's, unless the
// finding says another.
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

// refused notes a call that a rate limit or quota refused, so that status can show the provider's
// message if it answers no call for a minute.
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

// failed notes a failed call, and reports it if it is not the only one.
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
	}
	t.mu.Unlock()

	if kind == OfProvider && !e.Waits {
		return Finding{}
	}
	if !suffices && !t.suspended(ctx, e) {
		return Finding{Way: kind == OfWay && e.Waits}
	}
	t.mu.Lock()
	of.reported = now
	t.mu.Unlock()

	found, err := t.limiter.Report(ctx, report)
	if err != nil {
		t.log.Debug().Err(err).Msg("cannot tell other workers of failed calls")
		return Finding{}
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

// suspended reports whether other workers have found an outage that the call met too.
func (t *Troubles) suspended(ctx context.Context, e Ended) bool {
	out, err := t.limiter.Suspended(ctx, ratelimit.Scope{Provider: e.Provider, Model: e.Model})
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

// begin notes a failed call as this worker's own trouble.
func (t *Troubles) begin(e Ended, kind Kind) {
	t.mu.Lock()
	of := t.target(ratelimit.Scope{Provider: e.Provider})
	now := time.Now()
	first := of.own == nil
	switch {
	case first:
		pause := firstPause
		if !of.ended.at.IsZero() && now.Sub(of.ended.at) < longestPause {
			pause = min(2*of.ended.pause, longestPause)
		}
		of.own = &own{since: now, pause: pause, next: now.Add(pause)}
	case e.Began.After(of.own.since):
		of.own.pause = min(2*of.own.pause, longestPause)
		of.own.next = now.Add(of.own.pause)
	}
	of.own.class, of.own.words = e.Failed.Class, e.Failed.Message
	pause := of.own.pause
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

// answered ends the troubles of an answered call's provider and model. A call that began before
// this worker's own trouble says nothing of it.
func (t *Troubles) answered(ctx context.Context, e Ended) {
	now, tell, over := time.Now(), e.Waited, false
	t.mu.Lock()
	for _, scope := range []ratelimit.Scope{{Provider: e.Provider}, {Provider: e.Provider, Model: e.Model}} {
		of := t.target(scope)
		tell = tell || of.failed > 0 || !of.out.IsZero() || now.Sub(of.told) >= tellEvery
		if of.own != nil && e.Began.After(of.own.since) {
			of.ended.at, of.ended.pause = now, of.own.pause
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
	ended, err := t.limiter.Answered(ctx, ratelimit.Scope{Provider: e.Provider, Model: e.Model})
	if err != nil {
		t.log.Debug().Err(err).Msg("cannot tell other workers of an answer")
	}
	if ended {
		t.log.Info().Str("provider", e.Provider).Str("model", e.Model).Msg("the provider answers again")
	}
}

// MayCall reports whether this worker may make a call of a provider now. If it has trouble of its
// own, one call may be made now and then.
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
	of.own.next = now.Add(max(proveTime, of.own.pause))
	return true
}

// Own lists the providers that only this worker cannot call, with the reason of each.
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

// Serve says which queues have the runs of one provider alone, by provider: their tasks are not
// pulled while this worker has trouble with the provider.
func (t *Troubles) Serve(queues map[string][]string) {
	t.mu.Lock()
	t.queues = queues
	t.mu.Unlock()
	for provider := range queues { // also those without trouble: it may have ended while a queue was not served
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

// apply holds the queues of a provider back, as its trouble demands now: one task of each may be
// pulled where a call may be tried.
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

// providers lists those that this worker has trouble of its own with. t.mu is held.
func (t *Troubles) providers() (names []string) {
	for scope, of := range t.of {
		if of.own != nil {
			names = append(names, scope.Provider)
		}
	}
	slices.Sort(names)
	return names
}

// target returns what is known of a scope. t.mu is held.
func (t *Troubles) target(scope ratelimit.Scope) *target {
	of := t.of[scope]
	if of == nil {
		of = &target{}
		t.of[scope] = of
	}
	return of
}
