package config

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers/catalog"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Defaults for the limits of a provider. They are how it counts a limit per minute, the jitter
// between a grant and its request's arrival, that for tokens, and the time zone of its days.
const (
	defaultWindow = time.Minute
	defaultJitter = ratelimit.Measured
	tokensJitter  = 500 * time.Millisecond
	defaultZone   = "UTC"
)

// limits reads the limits of one scope; more holds the scope's further keys.
func (y *yamlFile) limits(v value, scope ratelimit.Scope, c *concurrency, more keys) {
	c.scopes = append(c.scopes, scopePlace{scope, v.key})
	var all, minutely []limit
	window, jitter := ratelimit.Window{Shape: ratelimit.Sliding, Length: defaultWindow}, defaultJitter
	daily := limit{Limit: ratelimit.Limit{Scope: scope, Kind: ratelimit.Requests, Resets: defaultZone}}
	perMinute := func(kind ratelimit.Kind) func(value) {
		return func(v value) {
			if n, ok := y.amount(v); ok {
				minutely = append(minutely, limit{Limit: ratelimit.Limit{Scope: scope, Kind: kind, Max: n, Period: time.Minute}, at: v.place})
			}
		}
	}
	shape := map[string]place{} // keys that only say how the other limits count
	var adapts place
	known := keys{
		"max_concurrency": func(v value) {
			if n, ok := y.amount(v); ok {
				all = append(all, limit{Limit: ratelimit.Limit{Scope: scope, Kind: ratelimit.Concurrency, Max: n}, at: v.place})
			}
		},
		"adaptive": func(v value) {
			if y.boolean(v) {
				adapts = v.key
			}
		},
		"rate_limit": func(v value) {
			if rate, ok := y.rateLimit(v, scope); ok {
				all = append(all, limit{Limit: rate, at: v.place})
			}
		},
		"requests_per_minute":      perMinute(ratelimit.Requests),
		"tokens_per_minute":        perMinute(ratelimit.Tokens),
		"input_tokens_per_minute":  perMinute(ratelimit.InputTokens),
		"output_tokens_per_minute": perMinute(ratelimit.OutputTokens),
		"enqueued_tokens": func(v value) {
			if n, ok := y.amountUpTo(v, min(math.MaxInt, ratelimit.EnqueuedTokens.Greatest())); ok {
				all = append(all, limit{Limit: ratelimit.Limit{Scope: scope, Kind: ratelimit.EnqueuedTokens, Max: n}, at: v.place})
			}
			if scope.Provider == "" {
				y.refuse(v.key, "set it for the provider", "not allowed in a group")
			}
		},
		"window": func(v value) { window, shape["window"] = y.window(v), v.key },
		"jitter": func(v value) { jitter, shape["jitter"] = y.duration(v, 0), v.key },
		"requests_per_day": func(v value) {
			daily.Max, _ = y.amount(v)
			daily.at = v.place
		},
		"day_resets": func(v value) {
			daily.Resets, daily.zoneAt, shape["day_resets"] = y.zone(v), v.place, v.key
		},
	}
	for key, read := range more {
		known[key] = read
	}
	y.mapping(v, known)

	switch {
	case adapts == (place{}):
	case scope.Provider == "":
		y.refuse(adapts, "set it for the provider", "not allowed in a group")
	case !y.has(v, "max_concurrency"):
		y.refuse(adapts, "add max_concurrency, the maximum of the limit", "max_concurrency is missing")
	}
	rated := false
	for i, l := range all {
		all[i].Adaptive = l.Kind == ratelimit.Concurrency && adapts != (place{})
		if l.Burst > 0 {
			rated, all[i].Jitter = true, jitter
		}
	}
	if window.Shape == "" {
		jitter = 0
	}
	for _, l := range minutely {
		l.Window, l.Jitter = window, jitter
		if l.Kind != ratelimit.Requests && jitter == ratelimit.Measured {
			l.Jitter = tokensJitter
		}
		all = append(all, l)
	}
	if len(minutely) == 0 {
		y.shapesNothing(shape, "window", "a limit per minute")
		if !rated {
			y.shapesNothing(shape, "jitter", "a limit per minute, or the burst of a rate_limit")
		}
	}
	if daily.Max > 0 {
		all = append(all, daily)
	} else if daily.at == (place{}) {
		y.shapesNothing(shape, "day_resets", "requests_per_day")
	}
	for _, l := range all {
		if y.admits(l) {
			c.limits = append(c.limits, l)
		}
	}
}

// amount reads a limit's amount, at least 1; ok is false for anything else.
func (y *yamlFile) amount(v value) (n int64, ok bool) { return y.amountUpTo(v, math.MaxInt32) }

func (y *yamlFile) amountUpTo(v value, most int64) (n int64, ok bool) {
	before := len(y.problems)
	n = int64(y.integer(v, 1, int(most)))
	return n, len(y.problems) == before
}

// shapesNothing warns about a key that has no effect because the key it modifies is absent.
func (y *yamlFile) shapesNothing(shape map[string]place, key, what string) {
	if at, ok := shape[key]; ok {
		y.warn(at, "set "+what+" beside it, or remove it", "%s has no effect here", key)
	}
}

// admits refuses a limit that no call can meet.
func (y *yamlFile) admits(l limit) bool {
	if inWindow := float64(l.Max) * l.Window.Length.Seconds() / l.Period.Seconds(); l.Window.Shape != "" && inWindow < 1 {
		what := strings.TrimSuffix(strings.ReplaceAll(string(l.Kind), "_", " "), "s")
		y.refuse(l.at, "use a longer window, or more "+what+"s a minute",
			"%d per minute is less than one %s in a window of %s", l.Max, what, l.Window.Length)
		return false
	}
	if err := l.Validate(); err != nil {
		y.refuse(l.at, "", "%v", err)
		return false
	}
	return true
}

// rateLimit reads {qps, burst}: a token bucket.
func (y *yamlFile) rateLimit(v value, scope ratelimit.Scope) (ratelimit.Limit, bool) {
	const leastQPS = 1.0 / (24 * 60 * 60)
	qps, burst := 0.0, 0
	y.mapping(v, keys{
		"qps":   func(v value) { qps = y.number(v, leastQPS, "a number of requests per second, at least one per day") },
		"burst": func(v value) { burst = y.integer(v, 1, math.MaxInt32) },
	})
	if qps == 0 {
		y.refuse(v.key, "add qps, for example {qps: 8, burst: 16}", "qps is missing")
		return ratelimit.Limit{}, false
	}
	if qps > 1e6 {
		y.refuse(v.key, "omit the limit", "more than a million requests per second")
		return ratelimit.Limit{}, false
	}
	// A fraction becomes a longer period, rounded up so that the rate is not exceeded.
	rate, period := int64(1), time.Duration(math.Ceil(float64(time.Second)/qps))
	if qps == math.Trunc(qps) {
		rate, period = int64(qps), time.Second
	}
	return ratelimit.Limit{Scope: scope, Kind: ratelimit.Requests, Max: rate, Period: period, Burst: int64(burst)}, true
}

// window reads sliding:D, fixed:D or bucket.
func (y *yamlFile) window(v value) ratelimit.Window {
	word, _ := scalar(v.node)
	if word == string(ratelimit.Bucket) {
		return ratelimit.Window{}
	}
	if w, ok := parseWindow(word); ok {
		return w
	}
	y.mismatch(v, "sliding:60s, fixed:60s or bucket")
	return ratelimit.Window{}
}

func parseWindow(word string) (ratelimit.Window, bool) {
	shape, length, _ := strings.Cut(word, ":")
	w := ratelimit.Window{Shape: ratelimit.Shape(shape), Length: defaultWindow}
	if w.Shape != ratelimit.Sliding && w.Shape != ratelimit.Fixed {
		return w, false
	}
	if length != "" {
		d, err := time.ParseDuration(length)
		if err != nil || d <= 0 || d > 24*time.Hour {
			return w, false
		}
		w.Length = d
	}
	return w, true
}

// zone reads the time zone at whose midnights days begin. It refuses the machine's own zone,
// because it differs between machines.
func (y *yamlFile) zone(v value) string {
	name := y.text(v)
	if name == "" {
		return defaultZone
	}
	if _, err := time.LoadLocation(name); err != nil || name == "Local" {
		y.refuse(v.place, `want an IANA name, for example "UTC" or "America/Los_Angeles"`, "%q is not a time zone", name)
		return defaultZone
	}
	return name
}

// neverMet reports whether the limit applies to no call of this evaluation. Such a limit would only
// be listed, and would bind other evaluations.
func (s *draft) neverMet(l ratelimit.Limit) bool {
	called := func(judge eval.Judge) bool {
		return ratelimit.Scope{Provider: l.Provider, Model: l.Model}.Concerns(ratelimit.Scope{Provider: judge.Provider, Model: judge.Model})
	}
	return !slices.ContainsFunc(s.settings.Everyone(&s.asked), called) || l.Group != "" && !slices.Contains(s.settings.Groups, l.Group)
}

// unusedScopes warns of limits that apply to no run of this evaluation: a misspelt model would
// otherwise be called without its limit.
func (s *draft) unusedScopes() {
	models := map[string][]string{}
	for _, judge := range append(s.settings.Everyone(&s.asked), s.others...) {
		models[judge.Provider] = append(models[judge.Provider], judge.Model)
	}
	for _, scope := range s.own.scopes {
		provider, _ := catalog.ProviderOf(scope.Provider)
		used := models[provider]
		switch {
		case scope.Group != "":
			s.warn(scope.at, "remove it", "no run of this evaluation belongs to group %s", scope.Group)
		case len(used) == 0 && scope.Model == "":
			s.warn(scope.at, "remove it", "provider %s gets no calls", scope.Provider)
		case len(used) > 0 && scope.Model != "" && !slices.Contains(used, scope.Model):
			s.warn(scope.at, didYouMean(scope.Model, used), "model %s:%s gets no calls", scope.Provider, scope.Model)
		}
	}
}
