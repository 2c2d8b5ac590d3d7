package ratelimit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Measured is a Jitter for limits on requests. The limiter replaces it by the margin that the provider's calls need,
// which it measures and shares with all processes. A program that does not know Measured reads it as its value: half a
// second.
const Measured = 500*time.Millisecond - 1

// Margin is the spread between the granted start of a provider's calls and their arrival.
//
// Send is how late a call may be written. It is measured exactly (Lease.Check) and enforced: a call that is later is
// void, and raises the margin. Path is how much longer than at its best the network takes, judged by how long
// connections take to open. Before anything was measured the margin is half a second. It falls to the greatest spread
// of the last minute, and rises as soon as a process has seen more.
//
// A change never lets a window have too many arrivals. Rates are paced so that within a window and the margin, no more
// calls start than the limit allows.
//
// While a margin falls by d, a call that started before may still be as late as the old margin allowed. The starts of a
// time longer by d could then arrive in one window, so none starts for d of it. When the path is found to vary by d
// more, it may have done so before: a pause of d takes back what the old pace let start. A longer time to send needs no
// pause, because no call was sent later than was allowed; only what is saved up is worth more then (rule.pauses).
// FuzzMarginsKeepTheWindow tests this.
type Margin struct{ Send, Path time.Duration }

// Total returns the spread that rates are paced for.
func (m Margin) Total() time.Duration { return m.Send + m.Path }

// The bounds of a margin. The least path covers what opening a connection does not show.
const (
	leastSend = 20 * time.Millisecond
	mostSend  = 450 * time.Millisecond
	leastPath = 50 * time.Millisecond
	mostPath  = 250 * time.Millisecond

	// firstWatch is how long calls are watched at least before the margin falls. The time grows to marginWatch, because
	// connections that are rarely opened need more.
	firstWatch  = 5 * time.Second
	marginWatch = time.Minute
	// marginEvery is how often a process publishes what it has seen.
	marginEvery = 2 * time.Second
)

var unmeasured = Margin{Send: mostSend, Path: leastPath}

// spare returns the margin that keeps a provider's window although calls are sent late, by up to late, and travel for
// different times, by up to path. It allows a quarter more for late, because the next call may be later than any seen.
// Both stay within their bounds.
func spare(late, path time.Duration) Margin {
	return Margin{
		Send: min(max(late*5/4, leastSend), mostSend).Round(time.Millisecond),
		Path: min(max(path, leastPath), mostPath).Round(time.Millisecond),
	}
}

// margins holds the margin of each provider, by name.
type margins map[string]Margin

func parseMargins(fields map[string]string) (margins, error) {
	all := margins{}
	for provider, text := range fields {
		var send, path int64
		if _, err := fmt.Sscan(text, &send, &path); err != nil {
			return nil, fmt.Errorf("margin of %s: %w", provider, err)
		}
		all[provider] = Margin{time.Duration(send) * time.Microsecond, time.Duration(path) * time.Microsecond}
	}
	return all, nil
}

// of returns the margin of a provider, which is the greatest of its accounts, or the greatest of all for a limit without a
// provider.
func (m margins) of(provider string) Margin {
	greatest := Margin{}
	for name, one := range m {
		if provider == "" || Contains(provider, name) {
			greatest.Send, greatest.Path = max(greatest.Send, one.Send), max(greatest.Path, one.Path)
		}
	}
	return cmp.Or(greatest, unmeasured)
}

// spread is what a process saw of a provider's calls since it last published that.
type spread struct {
	calls int
	late  time.Duration // the longest delay of a call's sending
	path  time.Duration // the longest that a connection took to open
	best  time.Duration // the shortest time ever; 0: unknown
	told  time.Time
}

// note records how late the lease's call is about to be written, and whether that is too late. The caller holds the
// Limiter's lock.
func (l *Limiter) note(e *Lease, late time.Duration, tooLate bool) {
	if !e.measured {
		return
	}
	s := l.spreadOf(e.call.Provider)
	s.calls++
	s.late = max(s.late, late)
	if tooLate {
		select {
		case l.late <- struct{}{}:
		default:
		}
	}
}

// Connected records how long a connection to the call's provider took to open. Call it for each connection that the
// call opens. Limits with a Measured Jitter estimate from it how much longer than at its best a request travels; for
// other limits it has no effect.
func (e *Lease) Connected(took time.Duration) {
	e.limiter.mu.Lock()
	defer e.limiter.mu.Unlock()
	s := e.limiter.spreadOf(e.call.Provider)
	s.path = max(s.path, took)
	if s.best == 0 || took < s.best {
		s.best = took
	}
}

func (l *Limiter) spreadOf(provider string) *spread {
	s := l.spreads[provider]
	if s == nil {
		s = &spread{}
		l.spreads[provider] = s
	}
	return s
}

// measure publishes the spreads seen, at intervals, until ctx ends.
func (l *Limiter) measure(ctx context.Context) error {
	every := time.NewTicker(marginEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
		case <-l.late:
		case <-ctx.Done():
			return nil
		}
		if err := l.tellMargins(ctx); err != nil {
			l.outage(ctx, err)
		}
	}
}

// tellMargins publishes the spread seen of each provider if it may change a margin. After an error, the next call
// publishes it again.
func (l *Limiter) tellMargins(ctx context.Context) error {
	seen := map[string]Margin{}
	l.mu.Lock()
	for provider, s := range l.spreads {
		if s.calls > 0 {
			seen[provider] = spare(s.late, s.path-s.best)
		}
	}

	l.mu.Unlock()
	if len(seen) == 0 {
		return nil
	}
	registry, err := l.load(ctx)
	if err != nil {
		return err
	}

	for provider, wanted := range seen {
		known, is := registry.margins[provider]
		least := known == spare(0, 0)
		raises := wanted.Send > known.Send || wanted.Path > known.Path
		l.mu.Lock()
		recently := known.Send < mostSend && time.Since(l.spreads[provider].told) < firstWatch
		l.mu.Unlock()
		if is && !raises && (least || recently) {
			continue
		}
		told, err := l.tellMargin(ctx, registry, provider, wanted)
		if err != nil {
			return err
		}
		if !told {
			continue // the registry has changed: next time
		}
		l.mu.Lock()
		s := l.spreads[provider]
		s.calls, s.late, s.path, s.told = 0, 0, s.best, time.Now()
		l.mu.Unlock()
	}

	return nil
}

// marginRequest is the argument of the margin script, which lua/margin.lua describes.
type marginRequest struct {
	Version  string       `json:"version"`
	Channel  string       `json:"channel"`
	Provider string       `json:"provider"`
	Send     int64        `json:"send"`
	Path     int64        `json:"path"`
	Most     int64        `json:"most"`
	First    int64        `json:"first"`
	Watch    int64        `json:"watch"`
	Rates    []marginRate `json:"rates,omitempty"`
}

type marginRate struct {
	Stretch float64 `json:"stretch"`
	Gain    float64 `json:"gain"`
	Step    float64 `json:"step"`
}

// tellMargin runs the margin script for a provider; done is false if the registry has changed.
func (a access) tellMargin(ctx context.Context, in *registry, provider string, wanted Margin) (done bool, err error) {
	keys, arg := a.keys.margin(in, provider, wanted)
	reply, err := integers(marginScript.Run(ctx, a.client, keys, arg).Slice())
	if err != nil {
		return false, fmt.Errorf("publish the margin of %s: %w", provider, err)
	}
	return len(reply) == 3, nil
}

func (k keys) margin(in *registry, provider string, wanted Margin) (keys []string, arg string) {
	keys = []string{k.registry(), k.alive(), k.margins(), k.changes()}
	var rates []marginRate
	for _, r := range in.keeping(provider) {
		keys, rates = append(keys, r.state), append(rates, r.pauses())
	}
	text, err := json.Marshal(marginRequest{
		Rates: rates, Version: in.version, Channel: k.wake(""), Provider: provider, Send: wanted.Send.Microseconds(),
		Path: wanted.Path.Microseconds(),
		Most: mostSend.Microseconds(), First: firstWatch.Microseconds(), Watch: marginWatch.Microseconds(),
	})
	if err != nil {
		panic(err) // all of its values can be encoded
	}
	return keys, string(text)
}

func (r *registry) keeping(provider string) (rates []*rule) {
	for _, rule := range r.rules {
		if rule.measured && (rule.Provider == "" || Contains(rule.Provider, provider)) {
			rates = append(rates, rule)
		}
	}
	return rates
}

// pauses returns how the pause of a rate depends on the change of its margin. A window's burst b of N continues while
// the rate pauses. When the margin rises, b-1 calls are worth longer intervals than those by which they were counted. A
// bucket's burst is a whole number; a bucket that holds a single call is paced alike at every margin, and does not
// pause.
func (r *rule) pauses() marginRate {
	switch {
	case r.Window.Length == 0 && r.Burst == 1:
		return marginRate{}
	case r.Window.Length == 0:
		return marginRate{Stretch: 1, Step: r.interval}
	}
	n, b := float64(scaled(r.Max, r.Window.Length, r.Period)), float64(r.burst)
	return marginRate{Stretch: max(1, n/max(1, n-b+1)), Gain: (b - 1) / max(1, n-b+1)}
}

// settled returns a limit with the margin of its provider as its jitter, and whether the limit's jitter is Measured.
func (m margins) settled(l Limit) (Limit, bool) {
	if l.Jitter != Measured || l.Kind != Requests {
		return l, false
	}
	if l.Window.Length == 0 && l.Burst == 0 { // without a Burst, the bucket counts as larger than what is saved up
		l.Jitter = 0
		return l, false
	}
	l.Jitter = m.of(l.Provider).Total()
	return l, true
}

// sendWithin returns how late after its granted start a call under the rule may be written; 0: any time.
func (r *rule) sendWithin() time.Duration {
	switch {
	case r.leased():
		return 0
	case r.way == byQuota:
		return quotaSpread
	case r.measured:
		return r.margin.Send
	}
	return r.Jitter
}

// leastJitter returns the time that a call may take from its start until it is written: the least that its rates and
// quotas allow; 0: any.
func leastJitter(rules []*rule) time.Duration {
	var least time.Duration
	for _, r := range rules {
		if within := r.sendWithin(); within > 0 && (least == 0 || within < least) {
			least = within
		}
	}
	return least
}

// measures reports whether one of the rules keeps a measured margin.
func measures(rules []*rule) bool {
	return slices.ContainsFunc(rules, func(r *rule) bool { return r.measured })
}
