package config

import (
	"math"
	"time"

	"github.com/evalfleet/evalfleet/providers/catalog"
	"github.com/evalfleet/evalfleet/ratelimit"
)

type concurrency struct {
	max      bound // of the file's own scope: the fleet, or one evaluation
	off      place // where enabled: false was written
	limits   []limit
	timeouts map[string]time.Duration // like record.Settings.Timeouts
	allAt    place                    // of the timeout of all providers
	lease    time.Duration            // 0: not written
	leaseAt  place
	hold     bool         // abandoned_calls: hold
	free     place        // where abandoned_calls: free was written
	retry    *value       // the retry block within it
	scopes   []scopePlace // every provider, model and group that is named
	groups   map[string]groupProvider
}

// bound is a maximum of calls in flight, with the place where it was written; max 0 means none.
type bound struct {
	max int
	at  place
}

// limit is a limit and where it was written.
type limit struct {
	ratelimit.Limit
	at     place
	zoneAt place // of a quota: where its time zone was written; empty if it was not
}

// scopePlace is where a provider, model or group is named.
type scopePlace struct {
	ratelimit.Scope
	at place
}

// charged marks the token limits of providers that charge what a call reserves.
func (c concurrency) charged(known map[string]catalog.Entry) {
	for i, l := range c.limits {
		switch l.Kind {
		case ratelimit.Tokens, ratelimit.InputTokens, ratelimit.OutputTokens:
			c.limits[i].Charged = chargesReserved(known, l.Provider)
		}
	}
}

// concurrency reads a concurrency block.
func (y *yamlFile) concurrency(v value) concurrency {
	c := concurrency{timeouts: map[string]time.Duration{}, groups: map[string]groupProvider{}}

	y.mapping(v, keys{
		"enabled": func(v value) {
			if !y.boolean(v) {
				c.off = v.place
			}
		},
		"max_concurrency": func(v value) { c.max = bound{y.integer(v, 1, math.MaxInt32), v.place} },
		"per_provider": func(v value) {
			y.entries(v, func(name string, v value) { y.providerLimits(v, catalog.Canonical(name), &c) })
		},
		"groups": func(v value) {
			y.entries(v, func(name string, v value) { y.groupLimits(v, name, &c) })
		},
		"timeout_seconds": func(v value) { c.timeouts[""], c.allAt = y.seconds(v), v.place },
		"lease": func(v value) {
			c.lease, c.leaseAt = y.duration(v, time.Second), v.key
		},
		"abandoned_calls": func(v value) {
			if c.hold = y.oneOf(v, []string{"free", "hold"}) == "hold"; !c.hold {
				c.free = v.place
			}
		},
		"retry": func(v value) { c.retry = &v },
	})
	return c
}

// bound returns the block's own bound on calls in flight: 1 if the block has enabled: false.
func (c concurrency) bound() bound {
	if c.off != (place{}) {
		return bound{1, c.off}
	}
	return c.max
}

func (y *yamlFile) providerLimits(v value, provider string, c *concurrency) {
	scope := ratelimit.Scope{Provider: provider}
	more := keys{
		"models": func(v value) { y.modelLimits(v, provider, c) },
	}
	if _, account := catalog.ProviderOf(provider); account == "" {
		more["timeout_seconds"] = func(v value) { c.timeouts[provider] = y.seconds(v) }
	}
	y.limits(v, scope, c, more)
}

// modelLimits reads the limits of models of a provider, or of an account.
func (y *yamlFile) modelLimits(v value, provider string, c *concurrency) {
	of, account := catalog.ProviderOf(provider)
	y.entries(v, func(model string, v value) {
		more := keys{}
		if account == "" {
			more["timeout_seconds"] = func(v value) { c.timeouts[of+":"+model] = y.seconds(v) }
		}
		y.limits(v, ratelimit.Scope{Provider: provider, Model: model}, c, more)
	})
}

// add takes over the limits of another block.
func (c *concurrency) add(other concurrency) {
	c.limits, c.scopes = append(c.limits, other.limits...), append(c.scopes, other.scopes...)
}

func (y *yamlFile) groupLimits(v value, group string, c *concurrency) {
	if !nameable(group) {
		y.unnameable(v.key, group, "cannot be a name")
	}
	y.limits(v, ratelimit.Scope{Group: group}, c, keys{
		"provider": func(v value) { c.groups[group] = groupProvider{catalog.Canonical(y.text(v)), v.place} },
	})
}
