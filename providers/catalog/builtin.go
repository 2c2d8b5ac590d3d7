package catalog

import (
	"maps"
	"slices"

	"github.com/evalfleet/evalfleet/providers/chat"
)

// The dialects.
const (
	Chat      = "chat"
	Responses = "responses"
	Messages  = "messages"
	Generate  = "generate"
	Ollama    = "ollama"
	Test      = "test"      // no endpoint at all
	Simulator = "simulator" // chat, spoken with a server in this process where there is no address
)

// Dialects are those that a user-defined endpoint may speak.
var Dialects = []string{Chat, Responses, Messages, Generate, Ollama}

// builtIn are the providers known without configuration.
var builtIn = []Entry{
	{Name: "openai", Dialect: Responses, BaseURL: "https://api.openai.com/v1", KeyEnv: "OPENAI_API_KEY"},
	{Name: "openaidp", Dialect: Responses, BaseURL: "https://api.openai.com/v1", KeyEnv: "OPENAI_API_KEY"}, // deep research
	{Name: "openai-chat", Dialect: Chat, BaseURL: "https://api.openai.com/v1", KeyEnv: "OPENAI_API_KEY"},
	{Name: "azure-openai", Dialect: Chat, KeyEnv: "AZURE_OPENAI_API_KEY"}, // each resource has an address of its own
	{Name: "openrouter", Dialect: Chat, BaseURL: "https://openrouter.ai/api/v1", KeyEnv: "OPENROUTER_API_KEY"},
	{Name: "anthropic", Dialect: Messages, BaseURL: "https://api.anthropic.com", KeyEnv: "ANTHROPIC_API_KEY"},
	{Name: "google", Dialect: Generate, BaseURL: "https://generativelanguage.googleapis.com", KeyEnv: "GEMINI_API_KEY"},
	{Name: "ollama", Dialect: Ollama, BaseURL: "http://127.0.0.1:11434"},
	{Name: "test", Dialect: Test},
	{Name: "simulator", Dialect: Simulator},
}

// peculiarity is in what a provider's requests differ from those of others in the
// same dialect.
type peculiarity struct {
	keyHeader string // empty: the dialect's own
	zone      string // where its days end, for daily quotas; empty: UTC
	chat      chat.Flavour
}

// peculiarities are by the name of a built-in provider.
var peculiarities = map[string]peculiarity{
	"openai":       {chat: chat.Flavour{MaxTokensField: "max_completion_tokens"}}, // where dialect: chat is configured
	"openai-chat":  {chat: chat.Flavour{MaxTokensField: "max_completion_tokens"}},
	"azure-openai": {chat: chat.Flavour{MaxTokensField: "max_completion_tokens"}, keyHeader: "api-key"},
	"google":       {zone: "America/Los_Angeles"}, // https://ai.google.dev/gemini-api/docs/rate-limits
	"openrouter":   {chat: chat.Flavour{Effort: chat.EffortObject, Search: chat.SearchTool, RequireParameters: true}},
}

// aliases are further names of built-in providers.
var aliases = map[string]string{"gemini": "google", "openrouter-openai": "openrouter"}

// Canonical is the name of the provider that goes by name.
func Canonical(name string) string {
	if canonical, ok := aliases[name]; ok {
		return canonical
	}
	return name
}

// Aliases are the further names of built-in providers.
func Aliases() []string { return slices.Sorted(maps.Keys(aliases)) }

// BuiltIn returns the providers known without configuration, by name.
func BuiltIn() map[string]Entry {
	known := make(map[string]Entry, len(builtIn))
	for _, e := range builtIn {
		known[e.Name] = e
	}
	return known
}
