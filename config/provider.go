package config

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/providers"
)

// Provider is where a model is asked: an endpoint, the dialect it speaks, and
// the variable that holds its key.
type Provider struct {
	Name    string `json:"name"`
	Dialect string `json:"dialect"`               // DialectChat or DialectSimulator
	BaseURL string `json:"base_url,omitempty"`    // stands before /chat/completions; empty: the simulator in this process
	KeyEnv  string `json:"api_key_env,omitempty"` // environment variable of the key; empty: no key is needed
	JSON    string `json:"json,omitempty"`        // how structured output is asked for: "schema", "object", "none"; empty: tried out
	Charges string `json:"charges,omitempty"`     // what limits of tokens count: ChargesUsed or ChargesReserved; empty: by its address
}

// What a provider's limits of tokens count of a call.
const (
	ChargesUsed     = "used"     // what it used, once that is known
	ChargesReserved = "reserved" // its input and all that max_completion_tokens allows, from the start
)

// reserving are the hosts, and domains of hosts, that charge what is reserved.
var reserving = []string{"api.openai.com", "openai.azure.com"}

// ChargesReserved reports whether the provider gives nothing back of the tokens
// that a call might have used and did not.
func (p Provider) ChargesReserved() bool {
	if p.Charges != "" {
		return p.Charges == ChargesReserved
	}
	u, err := url.Parse(p.BaseURL)
	return err == nil && slices.ContainsFunc(reserving, func(domain string) bool {
		host := strings.ToLower(u.Hostname())
		return host == domain || strings.HasSuffix(host, "."+domain)
	})
}

// The dialects of this version.
const (
	DialectChat      = "chat"
	DialectSimulator = "simulator"
)

// Key is the provider's key, empty when it needs none. A missing key is a
// *providers.Error of class Auth that names the variable.
func (p Provider) Key(env Lookup) (string, error) {
	if p.KeyEnv == "" {
		return "", nil
	}
	if key, ok := env(p.KeyEnv); ok && key != "" {
		return key, nil
	}
	return "", &providers.Error{Class: providers.Auth,
		Message: fmt.Sprintf("provider %s needs a key: set %s in the environment or in %s", p.Name, p.KeyEnv, DefaultEnvFile)}
}

// builtIn are the providers known without configuration.
var builtIn = map[string]Provider{
	"simulator":   {Name: "simulator", Dialect: DialectSimulator},
	"openai-chat": {Name: "openai-chat", Dialect: DialectChat, BaseURL: "https://api.openai.com/v1", KeyEnv: "OPENAI_API_KEY"},
	"openrouter":  {Name: "openrouter", Dialect: DialectChat, BaseURL: "https://openrouter.ai/api/v1", KeyEnv: "OPENROUTER_API_KEY"},
}

// laterProviders are known by name and come with later versions.
var laterProviders = []string{
	"openai", "openaidp", "azure-openai", "google", "gemini", "anthropic", "ollama", "test", "openrouter-openai",
}

// laterDialects come with later versions.
var laterDialects = []string{"responses", "messages", "generate", "ollama"}

var providerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// providers reads a providers block into known. Only the fleet's own file may
// speak of built-in names: an evaluation that moved one to another address
// would have its key sent there.
func (y *yamlFile) providers(v value, known map[string]Provider, mayOverride bool) {
	y.entries(v, func(name string, v value) {
		base, isBuiltIn := builtIn[name]
		switch {
		case !providerName.MatchString(name):
			y.refuse(v.key, "use letters, digits, dot, dash and underscore", "not a provider's name")
			return
		case !mayOverride && (isBuiltIn || slices.Contains(laterProviders, name)):
			y.refuse(v.key, "give the endpoint a name of its own, or set it in the fleet's --config",
				"%s is a provider that evalfleet knows", name)
			return
		}
		p := base
		p.Name = name
		y.mapping(v, keys{
			"dialect":     func(v value) { p.Dialect = y.oneOf(v, []string{DialectChat}, laterDialects) },
			"base_url":    func(v value) { p.BaseURL = y.baseURL(v) },
			"api_key_env": func(v value) { p.KeyEnv = y.text(v) },
			"charges":     func(v value) { p.Charges = y.oneOf(v, []string{ChargesUsed, ChargesReserved}, nil) },
			"json":        func(v value) { p.JSON = y.oneOf(v, []string{"schema", "object", "none"}, nil) },
		})
		if p.BaseURL == "" && !isBuiltIn {
			y.refuse(v.key, `add base_url: "http://…/v1"`, "base_url is missing")
		}
		if p.Dialect == "" {
			p.Dialect = DialectChat
		}
		known[name] = p
	})
}

func (y *yamlFile) baseURL(v value) string {
	s := y.text(v)
	if s == "" {
		return ""
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		y.mismatch(v, `an address such as "http://127.0.0.1:8000/v1"`)
	} else if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		y.refuse(v.place, "put the key into the variable named by api_key_env", "an address with a user, a query or a fragment")
	}
	return s
}

// unknownProvider reports a provider that is not among known.
func (f *findings) unknownProvider(at place, name string, known map[string]Provider) {
	if slices.Contains(laterProviders, name) {
		f.refuse(at, "reach it through an OpenAI-compatible endpoint: openai-chat, openrouter, or one of your own under providers",
			"provider %s is not available in this version", name)
		return
	}
	all := slices.Concat(slices.Collect(maps.Keys(known)), laterProviders)
	f.refuse(at, didYouMean(name, all), "no provider is called %s", name)
}
