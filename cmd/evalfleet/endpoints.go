package main

import (
	"errors"
	"fmt"

	"github.com/evalfleet/evalfleet/config"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/chat"
	"github.com/evalfleet/evalfleet/providers/transport"
	"github.com/evalfleet/evalfleet/worker"
)

// endpoints are the providers that a process can call.
type endpoints struct {
	byName    map[string]worker.Endpoint
	simulator *simulator.Server // in this process, if one was needed
}

// flavours are in what the endpoints that are known by name differ.
var flavours = map[string]chat.Flavour{
	"openai-chat": {MaxTokensField: "max_completion_tokens"},
	"openrouter":  {Effort: chat.EffortObject, Search: chat.SearchTool, RequireParameters: true},
}

// openEndpoints makes those of known that pick chooses, with their keys. A
// simulator without an address is started in this process.
func openEndpoints(known map[string]config.Provider, env config.Lookup, slots int, pick func(config.Provider, error) error) (*endpoints, error) {
	e := &endpoints{byName: map[string]worker.Endpoint{}}
	client := transport.NewClient(slots)
	for name, p := range known {
		key, err := p.Key(env)
		if err := pick(p, err); errors.Is(err, errNotPicked) {
			continue
		} else if err != nil {
			return nil, errors.Join(err, e.Close())
		}
		if p.BaseURL == "" {
			if p.BaseURL, err = e.startSimulator(); err != nil {
				return nil, err
			}
		}
		provider, err := chat.New(chat.Config{BaseURL: p.BaseURL, HTTPClient: client, JSON: providers.JSON(p.JSON), Flavour: flavours[name]})
		if err != nil {
			return nil, errors.Join(withCode(exitUsage, fmt.Errorf("provider %s: %w", name, err)), e.Close())
		}
		e.byName[name] = worker.Endpoint{Provider: provider, Key: key}
	}
	return e, nil
}

var errNotPicked = errors.New("not wanted")

// ofJudges picks the providers that an evaluation's judges need; a missing key
// is an error before any work starts.
func ofJudges(judges []eval.Judge) func(config.Provider, error) error {
	needed := map[string]bool{}
	for _, judge := range judges {
		needed[judge.Provider] = true
	}
	return func(p config.Provider, keyErr error) error {
		if !needed[p.Name] {
			return errNotPicked
		}
		return withCode(exitUsage, keyErr)
	}
}

// withKey picks every provider whose key is here.
func withKey(_ config.Provider, keyErr error) error {
	var missing *providers.Error
	if errors.As(keyErr, &missing) {
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
