// Package catalog knows providers and models, as data: the endpoints that
// evalfleet has a name for, what models can do there, and how to make a
// providers.Provider of either.
//
// It opens no connection, reads no environment and holds no key. Endpoints of a
// user's own are entries of the same kind, made by package config.
package catalog

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/chat"
	"github.com/evalfleet/evalfleet/providers/generate"
	"github.com/evalfleet/evalfleet/providers/messages"
	"github.com/evalfleet/evalfleet/providers/ollama"
	"github.com/evalfleet/evalfleet/providers/responses"
	"github.com/evalfleet/evalfleet/providers/test"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// Entry is where a model is asked: an endpoint, the dialect it speaks, and the
// variable that holds its key. Its JSON form stands in resume.json.
type Entry struct {
	Name    string `json:"name"`
	Like    string `json:"like,omitempty"`        // the built-in provider of which it is another account; empty: of none
	Dialect string `json:"dialect"`               // one of Dialects, Simulator or Test
	BaseURL string `json:"base_url,omitempty"`    // stands before the dialect's paths
	KeyEnv  string `json:"api_key_env,omitempty"` // environment variable of the key; empty: no key is needed
	JSON    string `json:"json,omitempty"`        // as Facts.JSON, of models that Models says nothing else of
	Charges string `json:"charges,omitempty"`     // what limits of tokens count: Used or Reserved; empty: by its address
	Models  []Rule `json:"models,omitempty"`      // what the user says of models; stronger than what is known of them
}

// What a provider's limits of tokens count of a call.
const (
	Used     = "used"     // what it used, once that is known
	Reserved = "reserved" // its input and all that max_completion_tokens allows, from the start
)

// reserving are the hosts, and domains of hosts, that charge what is reserved.
var reserving = []string{"api.openai.com", "openai.azure.com", "cognitiveservices.azure.com", "services.ai.azure.com"}

// ChargesReserved reports whether the provider gives nothing back of the tokens
// that a call might have used and did not.
func (e Entry) ChargesReserved() bool {
	if e.Charges != "" {
		return e.Charges == Reserved
	}
	return slices.ContainsFunc(reserving, e.CalledAt)
}

// CalledAt reports whether the entry's address is at a host, or in a domain of hosts,
// whose name is in lower case.
func (e Entry) CalledAt(domain string) bool {
	u, err := url.Parse(e.BaseURL)
	if err != nil {
		return false
	}
	host := strings.ToLower(u.Hostname())
	return host == domain || strings.HasSuffix(host, "."+domain)
}

// Zone is where the provider's days end, for its quotas a day: UTC where nothing
// else is known.
func (e Entry) Zone() *time.Location {
	zone, err := time.LoadLocation(peculiarities[cmp.Or(e.Like, e.Name)].zone)
	if err != nil {
		return time.UTC
	}
	return zone
}

// ForPrompts is the entry as prompts are asked there that somebody wrote for OpenAI's
// API: their parameters are those of chat completions, which have more of them. ok is
// false where that is how it is asked anyway.
func (e Entry) ForPrompts() (chat Entry, ok bool) {
	if e.Dialect != Responses {
		return e, false
	}
	e.Dialect = Chat
	return e, true
}

// Addressed reports whether the entry says where to call, or needs no address.
func (e Entry) Addressed() bool { return e.BaseURL != "" || !slices.Contains(Dialects, e.Dialect) }

// Key is the provider's key, empty when it needs none. A missing key is a
// *providers.Error of class Auth that names the variable.
func (e Entry) Key(env func(name string) (value string, ok bool)) (string, error) {
	if e.KeyEnv == "" {
		return "", nil
	}
	if key, ok := env(e.KeyEnv); ok && key != "" {
		return key, nil
	}
	return "", &providers.Error{Class: providers.Auth,
		Message: fmt.Sprintf("provider %s needs a key: set %s in the environment or in .env", e.Name, e.KeyEnv)}
}

// Open makes the provider; it opens no connection. The entry has an address: that
// of a Simulator in this process is the caller's to give. Share httpClient among
// all providers.
//
// Providers of the dialect Responses implement providers.Background besides.
func (e Entry) Open(httpClient *http.Client) (providers.Provider, error) {
	differs := peculiarities[cmp.Or(e.Like, e.Name)]
	at := transport.Config{
		BaseURL: e.BaseURL, HTTPClient: httpClient, KeyHeader: differs.keyHeader, Capabilities: e.Capabilities,
	}
	switch e.Dialect {
	case Chat, Simulator:
		return chat.New(chat.Config{Config: at, Flavour: differs.chat})
	case Responses:
		return responses.New(at)
	case Messages:
		return messages.New(at)
	case Generate:
		return generate.New(at)
	case Ollama:
		return ollama.New(at)
	case Test:
		return test.Provider{}, nil
	}
	return nil, fmt.Errorf("no dialect is called %s", e.Dialect)
}
