package config

import (
	"cmp"
	"maps"
	"math"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/evalfleet/evalfleet/internal/machine/hostname"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/catalog"
)

var providerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// providers reads a providers block into known. Only the fleet's own file may change the providers
// in configured, built-in or its own. An evaluation file that moved one of them to another address
// would receive its key there.
func (y *yamlFile) providers(v value, known, configured map[string]catalog.Entry) {
	ours := catalog.BuiltIn()
	first := map[string]place{}
	y.entries(v, func(name string, v value) {
		canonical := catalog.Canonical(name)
		base, isBuiltIn := ours[canonical]
		_, isConfigured := configured[canonical]
		before, twice := first[canonical]
		first[canonical] = v.key

		switch {
		case !providerName.MatchString(name):
			y.refuse(v.key, "use letters, digits, dot, dash and underscore", "not a valid provider name")
		case isConfigured && isBuiltIn:
			y.refuse(v.key, "give the endpoint another name, or set it in the fleet's --config",
				"%s is a built-in provider", name)
		case isConfigured:
			y.refuse(v.key, "remove it, or give the endpoint another name", "%s is a provider of --config", name)
		case twice:
			y.refuse(v.key, "merge the two", "%s is %s, which line %d already configures", name, canonical, before.line)
		case isBuiltIn:
			known[canonical] = y.provider(v, base, configured == nil)
		default:
			known[name] = y.provider(v, catalog.Entry{Name: name}, configured == nil)
		}
	})
}

// provider reads one endpoint over base, which is a built-in provider or has only a name. Only the
// fleet's own file, which its operator wrote, may set headers and certificates.
func (y *yamlFile) provider(v value, base catalog.Entry, ofOperator bool) catalog.Entry {
	e, addressAt := base, place{}
	e.Dialect, e.BaseURL = "", ""
	known := keys{
		"like":        func(v value) { e.Like = y.like(v, base) },
		"dialect":     func(v value) { e.Dialect = y.oneOf(v, catalog.Dialects) },
		"base_url":    func(v value) { e.BaseURL, addressAt = y.baseURL(v), v.place },
		"api_key_env": func(v value) { e.KeyEnv = y.environmentName(v) },
		"charges":     func(v value) { e.Charges = y.oneOf(v, []string{catalog.Used, catalog.Reserved}) },
		"json":        func(v value) { e.JSON = y.oneOf(v, catalog.JSONWords) },
		"batch":       func(v value) { has := y.boolean(v); e.Batch = &has },
		"models":      func(v value) { e.Models = y.models(v) },
	}
	private := keys{
		"headers":     func(v value) { e.Headers = y.headers(v) },
		"ca_file":     func(v value) { e.CAFile = y.absolute(v) },
		"client_cert": func(v value) { e.CertFile = y.absolute(v) },
		"client_key":  func(v value) { e.KeyFile = y.absolute(v) },
		"accounts":    func(v value) { e.Accounts = y.accounts(v, base.Name) },

		"api_key_header": func(v value) { e.KeyHeader = y.header(v.place, y.text(v)) },
	}
	maps.Copy(private, y.keySources(&e.KeySource))

	for name := range private {
		if !ofOperator {
			private[name] = func(v value) { y.refuse(v.key, "set it in the fleet's --config", "an evaluation file has no %s", name) }
		}
	}

	maps.Copy(known, private)
	y.mapping(v, known)
	e.KeyEnv = y.oneKey(v, e.KeyEnv, base.KeyEnv, e.KeySource)
	if (e.CertFile == "") != (e.KeyFile == "") {
		y.refuse(v.key, "give both", "client_cert and client_key must both be set")
	}
	if e.Like != "" { // all but the key, which belongs to one account
		base = catalog.BuiltIn()[e.Like]
	}
	e.Dialect = cmp.Or(e.Dialect, base.Dialect, catalog.Chat)
	if e.BaseURL == "" && e.Dialect == base.Dialect {
		e.BaseURL = base.BaseURL
	}
	if e.BaseURL == "" && len(e.Accounts) > 0 {
		e.BaseURL = e.Accounts[0].BaseURL
	}
	for _, at := range e.Each() {
		if !at.Addressed() {
			y.refuse(v.key, fixAddress(e), "base_url is missing")
			break
		}
	}
	y.checkAccounts(v, e)
	y.checkPath(addressAt, e)
	return e
}

// unsettable lists headers that belong to the connection or to the dialect's body.
var unsettable = []string{
	"Host", "Content-Type", "Content-Length", "Transfer-Encoding", "Connection", "Accept-Encoding", "Upgrade", "Te",
	"Trailer",
}

// headers reads the headers of an endpoint's requests: {NAME: VALUE} or, if the value is in an
// environment variable, {NAME: {env: VARIABLE}}.
func (y *yamlFile) headers(v value) map[string]catalog.HeaderValue {
	headers := map[string]catalog.HeaderValue{}
	y.entries(v, func(name string, v value) {
		canonical := y.header(v.key, name)
		_, twice := headers[canonical]
		var at catalog.HeaderValue
		if _, plain := scalar(v.node); plain {
			at.Value = y.text(v)
		} else {
			y.mapping(v, keys{"env": func(v value) { at.Env = y.text(v) }})
			if at.Env == "" {
				y.refuse(v.key, "write {env: VARIABLE} or the value", "no value")
			}
		}

		switch {
		case twice:
			y.refuse(v.key, "", "the header is set twice")
		case !httpguts.ValidHeaderFieldValue(at.Value):
			y.refuse(v.key, "", "the value has a line break or another control character")
		}
		headers[canonical] = at
	})
	return headers
}

// header returns the canonical form of the name of a header, which it refuses if a file cannot set it.
func (y *yamlFile) header(at place, name string) string {
	canonical := http.CanonicalHeaderKey(name)
	if !httpguts.ValidHeaderFieldName(name) || slices.Contains(unsettable, canonical) || strings.HasPrefix(canonical, "Proxy-") {
		y.refuse(at, "", "this header cannot be set")
	}
	return canonical
}

// absolute reads the path of a file, which is relative to this one.
func (y *yamlFile) absolute(v value) string {
	path := y.text(v)
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	full, err := filepath.Abs(filepath.Join(filepath.Dir(y.name), path))
	if err != nil {
		y.refuse(v.place, "give an absolute path", "%v", err)
	}
	return full
}

// like reads the name of the built-in provider at which the endpoint is another account.
func (y *yamlFile) like(v value, base catalog.Entry) string {
	name := catalog.Canonical(y.text(v))
	var hosted []string
	for _, e := range catalog.BuiltIn() {
		if slices.Contains(catalog.Dialects, e.Dialect) {
			hosted = append(hosted, e.Name)
		}
	}
	switch {
	case base.Dialect != "":
		y.refuse(v.key, "remove it", "%s is a built-in provider", base.Name)
	case !slices.Contains(hosted, name):
		y.refuse(v.place, didYouMean(name, hosted), "%s is not a built-in provider that supports several accounts", name)
		return ""
	}
	return name
}

// models reads facts about models by prefixes of their names. They are sorted longest prefix first,
// because the first that matches applies.
func (y *yamlFile) models(v value) []catalog.Rule {
	var rules []catalog.Rule
	y.entries(v, func(prefix string, v value) {
		rule := catalog.Rule{Models: []string{prefix}}
		tokens := func(v value) int { return y.integer(v, 1, math.MaxInt32) }
		y.mapping(v, keys{
			"json":             func(v value) { rule.JSON = y.oneOf(v, catalog.JSONWords) },
			"json_with_search": func(v value) { both := y.boolean(v); rule.JSONWithSearch = &both },
			"schema_bounds":    func(v value) { taken := y.boolean(v); rule.SchemaBounds = &taken },
			"search":           func(v value) { rule.Search = y.text(v) },
			"reasoning":        func(v value) { rule.Reasoning = y.oneOf(v, catalog.ReasoningWords) },
			"efforts": func(v value) {
				rule.Efforts = []string{}
				y.list(v, func(v value) { rule.Efforts = append(rule.Efforts, y.oneOf(v, providers.Efforts)) })
			},
			"sampling":       func(v value) { rule.Sampling = y.oneOf(v, catalog.SamplingWords) },
			"context_window": func(v value) { rule.ContextWindow = tokens(v) },
			"max_output":     func(v value) { rule.MaxOutput = tokens(v) },
			"prompt_cache":   func(v value) { rule.PromptCache = y.oneOf(v, catalog.PromptCacheWords) },
			"cache_minimum":  func(v value) { rule.CacheMinimum = tokens(v) },
			"batch":          func(v value) { taken := y.boolean(v); rule.Batch = &taken },
			"images":         func(v value) { taken := y.boolean(v); rule.Images = &taken },
			"logprobs":       func(v value) { given := y.boolean(v); rule.LogProbs = &given },
		})

		rules = append(rules, rule)
	})
	slices.SortStableFunc(rules, func(a, b catalog.Rule) int { return cmp.Compare(len(b.Models[0]), len(a.Models[0])) })
	return rules
}

func (y *yamlFile) baseURL(v value) string {
	s := y.text(v)
	if s == "" {
		return ""
	}
	u, ok := hostname.ParseWeb(s)
	if !ok {
		y.mismatch(v, `an address such as "http://127.0.0.1:8000/v1"`)
	} else if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		y.refuse(v.place, "put the key into the variable named by api_key_env", "an address with a user, a query or a fragment")
	}
	return s
}

func fixAddress(e catalog.Entry) string {
	if cmp.Or(e.Like, e.Name) == "azure-openai" {
		return `add base_url: "https://RESOURCE.openai.azure.com/openai/v1"`
	}
	return `add base_url: "http://…/v1"`
}

// knows reports whether a provider, or an account of one, is among known.
func knows(known map[string]catalog.Entry, name string) bool {
	provider, account := catalog.ProviderOf(name)
	e, ok := known[provider]
	return ok && (account == "" || e.Has(account))
}

// unknownProvider reports a provider that is not among known.
func (f *findings) unknownProvider(at place, name string, known map[string]catalog.Entry) {
	all := slices.Concat(slices.Collect(maps.Keys(known)), catalog.Aliases())
	for _, e := range known {
		for _, account := range e.Accounts {
			all = append(all, catalog.AccountName(e.Name, account.Name))
		}
	}
	f.refuse(at, didYouMean(name, all), "unknown provider %s", name)
}
