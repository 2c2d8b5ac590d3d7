package config

import (
	"math"
	"time"

	"github.com/evalfleet/evalfleet/ratelimit"
)

// concurrency is a concurrency block as written.
type concurrency struct {
	max      bound // of the file's own scope: the fleet, or one evaluation
	limits   []limit
	timeouts map[string]time.Duration // as record.Settings.Timeouts
	lease    time.Duration            // 0: not written
	leaseAt  place
	hold     bool         // abandoned_calls: hold
	free     place        // abandoned_calls: free, where it was written
	scopes   []scopePlace // every provider, model and group that is named
}

// bound is a maximum of calls in flight and where it was written; 0 is none.
type bound struct {
	max int
	at  place
}

// limit is a limit and where it was written.
type limit struct {
	ratelimit.Limit
	at place
}

// scopePlace is where a provider, model or group is named.
type scopePlace struct {
	ratelimit.Scope
	at place
}

// concurrency reads a concurrency block.
func (y *yamlFile) concurrency(v value) concurrency {
	c := concurrency{timeouts: map[string]time.Duration{}}
	enabled, enabledAt := true, place{}
	y.mapping(v, keys{
		"enabled":         func(v value) { enabled, enabledAt = y.boolean(v), v.place },
		"max_concurrency": func(v value) { c.max = bound{y.integer(v, 1, math.MaxInt32), v.place} },
		"per_provider": func(v value) {
			y.entries(v, func(name string, v value) { y.providerLimits(v, name, &c) })
		},
		"groups": func(v value) {
			y.entries(v, func(name string, v value) { y.groupLimits(v, name, &c) })
		},
		"timeout_seconds": func(v value) { c.timeouts[""] = y.seconds(v) },
		"lease": func(v value) {
			c.lease, c.leaseAt = y.duration(v, time.Second), v.key
		},
		"abandoned_calls": func(v value) {
			if c.hold = y.oneOf(v, []string{"free", "hold"}, nil) == "hold"; !c.hold {
				c.free = v.place
			}
		},
		"retry": y.later,
	})
	if !enabled {
		c.max = bound{1, enabledAt}
	}
	return c
}

func (y *yamlFile) providerLimits(v value, provider string, c *concurrency) {
	scope := ratelimit.Scope{Provider: provider}
	more := keys{
		"timeout_seconds": func(v value) { c.timeouts[provider] = y.seconds(v) },
		"models": func(v value) {
			y.entries(v, func(model string, v value) {
				scope := ratelimit.Scope{Provider: provider, Model: model}
				y.limits(v, scope, c, keys{
					"timeout_seconds": func(v value) { c.timeouts[provider+":"+model] = y.seconds(v) },
				})
			})
		},
	}
	y.limits(v, scope, c, more)
}

func (y *yamlFile) groupLimits(v value, group string, c *concurrency) {
	y.limits(v, ratelimit.Scope{Group: group}, c, keys{})
}

// defaultWindow is how a provider is taken to count requests_per_minute, and
// defaultJitter the spread assumed between a grant and its request's arrival.
const (
	defaultWindow = time.Minute
	defaultJitter = 500 * time.Millisecond
)

// limits reads the limits of one scope; more are the scope's further keys.
func (y *yamlFile) limits(v value, scope ratelimit.Scope, c *concurrency, more keys) {
	c.scopes = append(c.scopes, scopePlace{scope, v.key})
	perMinute := limit{Limit: ratelimit.Limit{
		Scope: scope, Kind: ratelimit.Requests, Period: time.Minute, Jitter: defaultJitter,
		Window: ratelimit.Window{Shape: ratelimit.Sliding, Length: defaultWindow},
	}}
	known := keys{
		"max_concurrency": func(v value) {
			n := y.integer(v, 1, math.MaxInt32)
			c.limits = append(c.limits, limit{ratelimit.Limit{Scope: scope, Kind: ratelimit.Concurrency, Max: int64(n)}, v.place})
		},
		"rate_limit": func(v value) {
			if rate, ok := y.rateLimit(v, scope); ok {
				c.limits = append(c.limits, limit{rate, v.place})
			}
		},
		"requests_per_minute": func(v value) {
			perMinute.Max, perMinute.at = int64(y.integer(v, 1, math.MaxInt32)), v.place
		},
		"window":                   func(v value) { perMinute.Window = y.window(v) },
		"jitter":                   func(v value) { perMinute.Jitter = y.duration(v, 0) },
		"tokens_per_minute":        y.later,
		"input_tokens_per_minute":  y.later,
		"output_tokens_per_minute": y.later,
		"requests_per_day":         y.later,
		"day_resets":               y.later,
	}
	for key, read := range more {
		known[key] = read
	}
	y.mapping(v, known)
	if perMinute.Max == 0 {
		return
	}
	if perMinute.Window.Shape == "" {
		perMinute.Jitter = 0
	} else if inWindow := float64(perMinute.Max) * perMinute.Window.Length.Minutes(); inWindow < 1 {
		y.refuse(perMinute.at, "use a longer window or more requests a minute",
			"%d a minute leave no whole request in a window of %s", perMinute.Max, perMinute.Window.Length)
	}
	c.limits = append(c.limits, perMinute)
}

// rateLimit reads {qps, burst}: a token bucket.
func (y *yamlFile) rateLimit(v value, scope ratelimit.Scope) (ratelimit.Limit, bool) {
	const leastQPS = 1.0 / (24 * 60 * 60)
	qps, burst := 0.0, 0
	y.mapping(v, keys{
		"qps":   func(v value) { qps = y.number(v, leastQPS, "a number of requests a second, at least one a day") },
		"burst": func(v value) { burst = y.integer(v, 1, math.MaxInt32) },
	})
	if qps == 0 {
		y.refuse(v.key, "add qps, for example {qps: 8, burst: 16}", "qps is missing")
		return ratelimit.Limit{}, false
	}
	if qps > 1e6 {
		y.refuse(v.key, "leave the limit out", "more than a million requests a second")
		return ratelimit.Limit{}, false
	}
	// Fractions become a longer period, rounded up so that the rate is kept.
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
