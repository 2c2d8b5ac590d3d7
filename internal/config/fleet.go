package config

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/internal/machine/hostname"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/catalog"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Fleet holds the settings for all evaluations: those of --config over the defaults.
type Fleet struct {
	// Providers are the built-in ones and those configured.
	Providers map[string]catalog.Entry
	// Limits apply to the accounts at the providers, or to the whole fleet.
	Limits []ratelimit.Limit
	// Retry and Timeouts apply if an evaluation has no settings of its own. Timeouts are by
	// "provider:model", "provider", or "" for all others.
	Retry    record.Retry
	Timeouts map[string]time.Duration
	// Outage is like record.Settings.Outage, for evaluations without a setting of their own.
	Outage time.Duration
	// Lease is how long a call's lease is valid without renewal.
	Lease time.Duration
	// Hold is like record.Settings.Hold, for every evaluation.
	Hold bool
	// Prices are by "provider:model", or by a prefix of it followed by a star.
	Prices map[string]providers.Price
	// Sink is the URL of the results store of submissions that name none; empty: in the output
	// folder.
	Sink string
	// Notify is the receiver that a controller notifies of the end of an evaluation.
	Notify Notify
	// Warnings do not stop anything.
	Warnings []Problem

	asks    asks // the model for listed runs that name none
	groups  map[string]groupProvider
	written []limit // Limits with their positions
	max     bound   // of calls in flight in the whole fleet; also in written
	// attemptsSet means that the file sets Retry's attempts, so they are not the default.
	attemptsSet bool
}

// groupProvider is the provider that answers the prompts of a group, whatever their api.
type groupProvider struct {
	provider string
	at       place
}

// LoadFleet reads the fleet's --config. An empty path gives the defaults. The
// error is of type Problems.
func LoadFleet(path string) (*Fleet, error) {
	fleet := &Fleet{
		Providers: catalog.BuiltIn(),
		Retry:     record.DefaultRetry,
		Outage:    record.DefaultOutage,
		Timeouts:  map[string]time.Duration{},
		Lease:     DefaultLease,
		Prices:    map[string]providers.Price{},
	}
	if path == "" {
		return fleet, nil
	}
	var found findings
	text, ok := found.readText(path, maxSettings)
	if !ok {
		return nil, found.problems
	}

	y, root, ok := parseYAML(path, text, &found)
	if !ok {
		return nil, found.problems
	}
	var c concurrency
	var retry *value
	known := keys{
		"providers":   func(v value) { y.providers(v, fleet.Providers, nil) },
		"concurrency": func(v value) { c = y.concurrency(v) },
		"retry":       func(v value) { retry = &v },
		"outage":      func(v value) { fleet.Outage = y.duration(v, 0) },
		"prices":      func(v value) { y.prices(v, fleet.Prices) },
		"sink":        func(v value) { fleet.Sink = y.text(v) },
		"notify":      func(v value) { fleet.Notify = y.notify(v) },
	}
	maps.Copy(known, y.asksKeys(&fleet.asks))
	y.ofFleet = true
	y.mapping(root, known)
	c.add(y.ofAccounts)
	fleet.Retry.MaxAttempts = 0
	y.retries(c.retry, retry, &fleet.Retry)
	fleet.attemptsSet = fleet.Retry.MaxAttempts > 0
	fleet.Retry.MaxAttempts = cmp.Or(fleet.Retry.MaxAttempts, record.DefaultRetry.MaxAttempts)
	found.knownScopes(c, fleet.Providers)
	if err := found.err(); err != nil {
		return nil, err
	}
	c.charged(fleet.Providers)
	fleet.groups = c.groups
	fleet.written = c.limits
	if fleet.max = c.bound(); fleet.max.max > 0 {
		fleet.written = append(
			fleet.written,
			limit{Limit: ratelimit.Limit{Kind: ratelimit.Concurrency, Max: int64(fleet.max.max)}, at: fleet.max.at},
		)
	}
	fleet.Limits = found.combine(fleet.written, path)
	maps.Copy(fleet.Timeouts, c.timeouts)
	if c.lease > 0 {
		fleet.Lease = c.lease
	}
	fleet.Hold = c.hold
	fleet.Warnings = found.warnings
	return fleet, nil
}

// knownScopes refuses limits for providers that do not exist.
func (f *findings) knownScopes(c concurrency, known map[string]catalog.Entry) {
	for _, s := range c.scopes {
		if s.Provider != "" && s.Model == "" && !knows(known, s.Provider) {
			f.unknownProvider(s.at, s.Provider, known)
		}
	}
	for _, group := range slices.Sorted(maps.Keys(c.groups)) {
		if named := c.groups[group]; named.provider != "" {
			if _, ok := known[named.provider]; !ok {
				f.unknownProvider(named.at, named.provider, known)
			}
		}
	}
}

type endpoint struct{ variable, provider, path, key string }

// endpoints lists the address variables of prompto, the tool that experiments come from: the
// variable, the provider, and the suffix of the address.
var endpoints = []endpoint{
	{"OLLAMA_API_ENDPOINT", "ollama", "", ""},
	{"AZURE_OPENAI_API_ENDPOINT", "azure-openai", "/openai/v1", "AZURE_OPENAI_API_KEY"},
	{"HUGGINGFACE_TGI_API_ENDPOINT", "huggingface-tgi", "/v1", "HUGGINGFACE_TGI_API_KEY"},
}

// Endpoints sets addresses from the environment for providers that have none in the file; keys
// shows whether there is a key for them. The error is of type Problems.
func (f *Fleet) Endpoints(env, keys Lookup) error {
	var found findings
	builtIn := catalog.BuiltIn()
	for _, e := range endpoints {
		address, ok := Options{Env: env}.lookup(e.variable)
		entry, known := f.Providers[e.provider]
		if !ok || known && entry.BaseURL != builtIn[e.provider].BaseURL {
			continue
		}
		if _, ok := hostname.ParseWeb(address); !ok {
			found.refuse(place{path: e.variable}, `want an address such as "http://127.0.0.1:11434"`, "not an address")
			continue
		}
		if !known {
			entry = catalog.Entry{Name: e.provider, Dialect: catalog.Chat}
			if _, ok := (Options{Env: keys}).lookup(e.key); ok {
				entry.KeyEnv = e.key
			}
		}
		entry.BaseURL = strings.TrimRight(address, "/")
		if !strings.HasSuffix(entry.BaseURL, e.path) {
			entry.BaseURL += e.path
		}
		f.Providers[e.provider] = entry
	}

	return found.err()
}
