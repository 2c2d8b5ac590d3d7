package tracing

import (
	"cmp"
	"net/url"
	"strconv"

	"github.com/evalfleet/evalfleet/providers/catalog"
)

// Model describes the called provider in the words of the conventions.
type Model struct {
	operation, provider string
	address             string // empty: none
	port                int
}

// ModelOf returns the Model of calls to an entry.
func ModelOf(e catalog.Entry) Model {
	m := Model{operation: "chat", provider: nameOf(e)}
	if e.Dialect == catalog.Generate {
		m.operation = "generate_content"
	}
	if u, err := url.Parse(e.BaseURL); err == nil && u.Host != "" {
		m.address, m.port = u.Hostname(), map[string]int{"http": 80, "https": 443}[u.Scheme]
		if port, err := strconv.Atoi(u.Port()); err == nil {
			m.port = port
		}
	}
	return m
}

// byDomain maps the end of a host's name to the well-known value of gen_ai.provider.name:
// https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/registry/attributes/gen-ai.md
var byDomain = []struct{ domain, name string }{
	{"api.openai.com", "openai"},
	{"openai.azure.com", "azure.ai.openai"},
	{"cognitiveservices.azure.com", "azure.ai.openai"},
	{"services.ai.azure.com", "azure.ai.openai"},
	{"api.anthropic.com", "anthropic"},
	{"generativelanguage.googleapis.com", "gcp.gemini"},
	{"aiplatform.googleapis.com", "gcp.vertex_ai"},
	{"api.mistral.ai", "mistral_ai"},
	{"api.groq.com", "groq"},
	{"api.deepseek.com", "deepseek"},
	{"api.x.ai", "x_ai"},
	{"api.perplexity.ai", "perplexity"},
	{"api.cohere.com", "cohere"},
	{"api.moonshot.ai", "moonshot_ai"},
}

// byName holds the values for built-in providers that are called at another address, such as a proxy or a test server.
var byName = map[string]string{
	"openai": "openai", "openai-chat": "openai", "openaidp": "openai", "azure-openai": "azure.ai.openai",
	"anthropic": "anthropic", "google": "gcp.gemini",
}

// nameOf returns the gen_ai.provider.name of an entry: a well-known value if there is one, otherwise the entry's own
// name.
func nameOf(e catalog.Entry) string {
	for _, known := range byDomain {
		if e.CalledAt(known.domain) {
			return known.name
		}
	}
	return cmp.Or(byName[cmp.Or(e.Like, e.Name)], e.Name)
}
