// Package endpoints opens the providers that a process can call, with the keys that it has. It
// makes no calls.
package endpoints

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/redisx/certs"
	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/catalog"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// Endpoints are the providers that a process can call.
type Endpoints struct {
	ByName  map[string]providers.Endpoint
	Entries map[string]catalog.Entry // those in ByName, with their addresses
	Keyless []string                 // sorted: what providers that were not picked lack, such as variables of keys and headers

	simulator *simulator.Server // in this process, if needed
}

// Open opens the providers of known that pick accepts, with their keys. It reports everything wrong
// with them at once. For a simulator without an address, it starts one in this process.
func Open(
	ctx context.Context, known map[string]catalog.Entry, env, keys config.Lookup, slots int, pick func(catalog.Entry, error) error,
) (*Endpoints, error) {
	proxy, err := config.Proxy(env)
	if err != nil {
		return nil, err
	}
	e := &Endpoints{ByName: map[string]providers.Endpoint{}, Entries: map[string]catalog.Entry{}}
	each := map[string]catalog.Entry{}
	for _, p := range known {
		for _, at := range p.Each() {
			each[at.Name] = at
		}
	}

	credentials := map[string]catalog.Credentials{}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(each)) {
		p := each[name]
		secret, missing := p.Credentials(keys)
		if missing == nil && p.KeySource != nil && pick(p, nil) == nil {
			secret.Keys, missing = openKeys(ctx, p)
		}
		switch err := pick(p, missing); {
		case errors.Is(err, errNotPicked):
			if p.Addressed() {
				e.Keyless = append(e.Keyless, lacking(p, keys, missing)...)
			}
		case err != nil:
			problems = append(problems, err)
		default:
			e.ByName[name] = providers.Endpoint{Key: secret.Key, KeyEnv: p.KeyEnv, Zone: p.Zone()}
			credentials[name] = secret
		}
	}

	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	slices.Sort(e.Keyless)
	e.Keyless = slices.Compact(e.Keyless)
	connections := transport.Connections{Slots: slots, Proxy: proxy}
	shared := transport.NewClient(connections)
	for name, picked := range e.ByName {
		p := each[name]
		fail := func(err error) error {
			return errors.Join(failure.With(failure.Usage, fmt.Errorf("provider %s: %w", name, err)), e.Close())
		}
		if p.BaseURL == "" && p.Dialect == catalog.Simulator {
			if p.BaseURL, err = e.startSimulator(); err != nil {
				return nil, err
			}
		}
		client := shared
		if files := (certs.Files{CA: p.CAFile, Cert: p.CertFile, Key: p.KeyFile}); files != (certs.Files{}) {
			own := connections
			if own.TLS, err = files.Config(); err != nil {
				return nil, fail(err)
			}
			client = transport.NewClient(own)
		}
		if picked.Provider, err = p.Open(client, credentials[name]); err != nil {
			return nil, fail(err)
		}
		if chat, ok := p.ForPrompts(); ok {
			if picked.Prompts, err = chat.Open(client, credentials[name]); err != nil {
				return nil, fail(err)
			}
		}
		picked.Capabilities = p.LookedUpOnce()
		e.ByName[name], e.Entries[name] = picked, p
	}

	for name, p := range known {
		e.pool(name, p)
	}
	return e, nil
}

// pool adds a provider that has accounts, if some of these were picked. What it can do is what the first of them can.
func (e *Endpoints) pool(name string, p catalog.Entry) {
	if len(p.Accounts) == 0 {
		return
	}
	var accounts, configured []string
	for _, at := range p.Each() {
		configured = append(configured, at.Name)
		if _, picked := e.ByName[at.Name]; picked {
			accounts = append(accounts, at.Name)
		}
	}
	if len(accounts) == 0 {
		return
	}
	all := e.ByName[accounts[0]]
	all.Accounts, all.Configured = accounts, configured
	e.ByName[name], e.Entries[name] = all, p
}

var errNotPicked = errors.New("not wanted")

// OfJudges returns a pick function for the providers that an evaluation's judges need. A missing
// key is an error before any work starts.
func OfJudges(judges []eval.Judge) func(catalog.Entry, error) error {
	needed := map[string]bool{}
	for _, judge := range judges {
		provider, _ := catalog.ProviderOf(judge.Provider)
		needed[provider] = true
	}
	return func(p catalog.Entry, keyErr error) error {
		if provider, _ := catalog.ProviderOf(p.Name); !needed[provider] {
			return errNotPicked
		}
		return failure.With(failure.Usage, keyErr)
	}
}

// Servable picks every provider with a key and an address here; pass it to Open.
func Servable(e catalog.Entry, keyErr error) error {
	var missing *providers.Error
	if errors.As(keyErr, &missing) || !e.Addressed() {
		return errNotPicked
	}
	return keyErr
}

// startSimulator serves the simulated provider on a loopback address.
func (e *Endpoints) startSimulator() (baseURL string, err error) {
	if e.simulator, err = simulator.Listen("127.0.0.1:0", simulator.Config{}); err != nil {
		return "", failure.With(failure.Unavailable, err)
	}
	return e.simulator.URL + "/v1", nil
}

// Close ends the simulator of this process.
func (e *Endpoints) Close() error {
	if e.simulator == nil {
		return nil
	}
	return e.simulator.Close()
}
