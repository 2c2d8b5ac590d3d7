package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/evalfleet/evalfleet/config"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/catalog"
	"github.com/evalfleet/evalfleet/providers/transport"
	"github.com/evalfleet/evalfleet/worker"
)

// endpoints are the providers that a process can call.
type endpoints struct {
	byName    map[string]worker.Endpoint
	entries   map[string]catalog.Entry // those of byName, with their addresses
	keyless   []string                 // variables of keys that are not here, sorted; of providers that were not picked
	simulator *simulator.Server        // in this process, if one was needed
}

// openEndpoints makes those of known that pick chooses, with their keys; what is
// amiss with any of them is told at once. A simulator without an address is
// started in this process.
func openEndpoints(known map[string]catalog.Entry, env config.Lookup, slots int, pick func(catalog.Entry, error) error) (*endpoints, error) {
	e := &endpoints{byName: map[string]worker.Endpoint{}, entries: map[string]catalog.Entry{}}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(known)) {
		p := known[name]
		key, keyErr := p.Key(env)
		switch err := pick(p, keyErr); {
		case errors.Is(err, errNotPicked):
			if keyErr != nil && p.Addressed() {
				e.keyless = append(e.keyless, p.KeyEnv)
			}
		case err != nil:
			problems = append(problems, err)
		default:
			e.byName[name] = worker.Endpoint{Key: key, Zone: p.Zone()}
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	slices.Sort(e.keyless)
	e.keyless = slices.Compact(e.keyless)
	client := transport.NewClient(slots)
	for name, picked := range e.byName {
		p := known[name]
		var err error
		if p.BaseURL == "" && p.Dialect == catalog.Simulator {
			if p.BaseURL, err = e.startSimulator(); err != nil {
				return nil, err
			}
		}
		if picked.Provider, err = p.Open(client); err != nil {
			return nil, errors.Join(withCode(exitUsage, fmt.Errorf("provider %s: %w", name, err)), e.Close())
		}
		if chat, ok := p.ForPrompts(); ok {
			if picked.Prompts, err = chat.Open(client); err != nil {
				return nil, errors.Join(withCode(exitUsage, fmt.Errorf("provider %s: %w", name, err)), e.Close())
			}
		}
		picked.Capabilities = p.Capabilities
		e.byName[name], e.entries[name] = picked, p
	}
	return e, nil
}

var errNotPicked = errors.New("not wanted")

// ofJudges picks the providers that an evaluation's judges need; a missing key
// is an error before any work starts.
func ofJudges(judges []eval.Judge) func(catalog.Entry, error) error {
	needed := map[string]bool{}
	for _, judge := range judges {
		needed[judge.Provider] = true
	}
	return func(p catalog.Entry, keyErr error) error {
		if !needed[p.Name] {
			return errNotPicked
		}
		return withCode(exitUsage, keyErr)
	}
}

// servable picks every provider whose key and address are here.
func servable(e catalog.Entry, keyErr error) error {
	var missing *providers.Error
	if errors.As(keyErr, &missing) || !e.Addressed() {
		return errNotPicked
	}
	return keyErr
}

// startSimulator serves the simulated provider on loopback.
func (e *endpoints) startSimulator() (baseURL string, err error) {
	if e.simulator, err = simulator.Listen("127.0.0.1:0", simulator.Config{}); err != nil {
		return "", withCode(exitUnreachable, err)
	}
	return e.simulator.URL + "/v1", nil
}

// Close ends the simulator of this process.
func (e *endpoints) Close() error {
	if e.simulator == nil {
		return nil
	}
	return e.simulator.Close()
}
