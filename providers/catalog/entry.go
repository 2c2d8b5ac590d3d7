// Package catalog knows providers and models, as data: the endpoints that evalfleet has a name for, what models can do
// there, and how to create a providers.Provider for either.
//
// It opens no connection, reads no environment and holds no key. User-defined endpoints are entries of the same kind,
// made by package config.
package catalog

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/chat"
	"github.com/evalfleet/evalfleet/providers/filebatch"
	"github.com/evalfleet/evalfleet/providers/generate"
	"github.com/evalfleet/evalfleet/providers/messages"
	"github.com/evalfleet/evalfleet/providers/ollama"
	"github.com/evalfleet/evalfleet/providers/responses"
	"github.com/evalfleet/evalfleet/providers/test"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// Entry describes how to reach a model: an endpoint, its dialect, and the variable that holds
// its key. Its JSON form is stored in resume.json.
type Entry struct {
	Name    string `json:"name"`
	Like    string `json:"like,omitempty"`        // the built-in provider that this is another account of; empty: none
	Dialect string `json:"dialect"`               // one of Dialects, Simulator or Test
	BaseURL string `json:"base_url,omitempty"`    // prefix of the dialect's paths
	KeyEnv  string `json:"api_key_env,omitempty"` // environment variable of the key; empty: no key is needed, or KeySource has it
	JSON    string `json:"json,omitempty"`        // as Facts.JSON, for models for which Models states no other
	Charges string `json:"charges,omitempty"`     // what limits of tokens count: Used or Reserved; empty: by address
	Batch   *bool  `json:"batch,omitempty"`       // as Facts.Batch, for models for which Models states no other; nil: by address
	// KeySource has the key instead of KeyEnv; nil: none.
	KeySource *KeySource `json:"api_key_source,omitempty"`
	// KeyHeader is the header of the key; empty: the provider's own. In Authorization the key follows "Bearer".
	KeyHeader string `json:"api_key_header,omitempty"`
	// Accounts share the entry's calls; empty: it is an account itself.
	Accounts []Account `json:"accounts,omitempty"`
	Models   []Rule    `json:"models,omitempty"` // facts about models from the user; they override the built-in ones
	// Headers are added to every request, by name.
	Headers map[string]HeaderValue `json:"headers,omitempty"`
	// CAFile contains the CA certificates to trust instead of the system's. CertFile and KeyFile contain the client
	// certificate to present. PEM, absolute paths; empty: none.
	CAFile   string `json:"ca_file,omitempty"`
	CertFile string `json:"client_cert,omitempty"`
	KeyFile  string `json:"client_key,omitempty"`
}

// HeaderValue says where the value of a header comes from. The value is a secret, and never stored.
type HeaderValue struct {
	Env   string `json:"env,omitempty"` // the environment variable that holds it
	Value string `json:"-"`             // used if Env is empty
}

// What a provider's limits of tokens count for a call.
const (
	Used     = "used"     // usage, once known
	Reserved = "reserved" // its input and all that max_completion_tokens allows, from the start
)

// reserving lists the hosts, and domains of hosts, that charge the reservation.
var reserving = []string{"api.openai.com", "openai.azure.com", "cognitiveservices.azure.com", "services.ai.azure.com"}

// ChargesReserved reports whether the provider counts the tokens that a call may use, even if it uses fewer.
func (e Entry) ChargesReserved() bool {
	if e.Charges != "" {
		return e.Charges == Reserved
	}
	return slices.ContainsFunc(reserving, e.CalledAt)
}

// batching lists the hosts that have batch endpoints, by the dialect that they are for.
var batching = map[string][]string{
	Chat:      {"api.openai.com", "api.groq.com", mistral},
	Responses: {"api.openai.com"},
	Messages:  {"api.anthropic.com"},
	Generate:  {"generativelanguage.googleapis.com"},
}

// mistral is the host whose batch endpoints have a form of their own.
const mistral = "api.mistral.ai"

// hasBatches reports whether the entry's address is known to have batch endpoints. The simulator has them.
func (e Entry) hasBatches() bool {
	return e.Dialect == Simulator || slices.ContainsFunc(batching[e.Dialect], e.CalledAt)
}

// CalledAt reports whether the entry's address is the given host, or in the given domain, in lower case.
func (e Entry) CalledAt(domain string) bool {
	u, err := url.Parse(e.BaseURL)
	if err != nil {
		return false
	}
	host := strings.ToLower(u.Hostname())
	return host == domain || strings.HasSuffix(host, "."+domain)
}

// Zone returns the time zone in which the provider's days end, for its daily quotas: UTC if it is not known.
func (e Entry) Zone() *time.Location {
	zone, err := time.LoadLocation(peculiarities[cmp.Or(e.Like, e.Name)].zone)
	if err != nil {
		return time.UTC
	}
	return zone
}

// ForPrompts returns the entry to use for prompts written for OpenAI's API. Their parameters are those of chat
// completions, which has more of them. ok is false if the entry needs no replacement.
func (e Entry) ForPrompts() (chat Entry, ok bool) {
	if e.Dialect != Responses {
		return e, false
	}
	e.Dialect = Chat
	return e, true
}

// Addressed reports whether the entry has an address, or needs none.
func (e Entry) Addressed() bool { return e.BaseURL != "" || !slices.Contains(Dialects, e.Dialect) }

// Credentials is what a process adds to an entry's requests. None of it may be shown.
type Credentials struct {
	Key    string // of each request; empty if the entry needs none, or has Keys
	Keys   transport.Keys
	Header http.Header
}

// Unset returns the environment variables that the entry needs and env lacks.
func (e Entry) Unset(env Lookup) []string {
	var unset []string
	need := func(name string) {
		if value, ok := env(name); name != "" && (!ok || value == "") {
			unset = append(unset, name)
		}
	}
	need(e.KeyEnv)
	for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
		need(e.Headers[name].Env)
	}
	return unset
}

// Lookup returns the value of an environment variable.
type Lookup = func(name string) (value string, ok bool)

// Credentials reads the key and the headers from the environment. If one is missing, the error is a *providers.Error of
// class Auth that names the variable. Keys of a KeySource are added by the caller.
func (e Entry) Credentials(env Lookup) (Credentials, error) {
	if unset := e.Unset(env); len(unset) > 0 {
		what := "a value for a header"
		if unset[0] == e.KeyEnv {
			what = "a key"
		}
		return Credentials{}, &providers.Error{Class: providers.Auth,
			Message: fmt.Sprintf("provider %s needs %s: set %s in the environment or in .env", e.Name, what, unset[0])}
	}

	if e.KeySource != nil && e.KeySource.String() == "" {
		return Credentials{}, &providers.Error{Class: providers.Auth,
			Message: fmt.Sprintf("where the key of provider %s comes from is not stored: set --config to the file that says it", e.Name)}
	}

	c := Credentials{Header: http.Header{}}
	if e.KeyEnv != "" {
		c.Key, _ = env(e.KeyEnv)
	}
	for name, at := range e.Headers {
		value := at.Value
		if at.Env != "" {
			value, _ = env(at.Env)
		}
		switch {
		case value == "":
			return Credentials{}, &providers.Error{Class: providers.Auth,
				Message: fmt.Sprintf("the value of header %s of provider %s is not stored: set --config to the file that has it", name, e.Name)}
		case !httpguts.ValidHeaderFieldValue(value):
			return Credentials{}, &providers.Error{Class: providers.Auth,
				Message: fmt.Sprintf("the value of header %s of provider %s has a line break or another control character", name, e.Name)}
		}
		c.Header.Set(name, value)
	}

	return c, nil
}

// Open returns the entry's provider, which adds the headers and Keys of credentials to its requests; it opens no
// connection. The entry must have an address: for a Simulator in this process, the caller sets it. Share httpClient among
// all providers.
//
// Providers of the dialect Responses also implement providers.Background, and those of all dialects but Ollama
// providers.Batches. Capabilities.Batch says whether the entry's address has batches.
func (e Entry) Open(httpClient *http.Client, with Credentials) (providers.Provider, error) {
	differs := peculiarities[cmp.Or(e.Like, e.Name)]
	at := transport.Config{
		BaseURL: e.BaseURL, HTTPClient: httpClient, KeyHeader: cmp.Or(e.KeyHeader, differs.keyHeader), Keys: with.Keys, Header: with.Header,
		Capabilities: e.LookedUpOnce(),
	}

	switch e.Dialect {
	case Chat, Simulator:
		vendor := filebatch.OpenAI
		if e.CalledAt(mistral) {
			vendor = filebatch.Mistral
		}
		return chat.New(chat.Config{Config: at, Flavour: differs.chat, Batches: vendor})
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
	return nil, fmt.Errorf("unknown dialect %s", e.Dialect)
}
