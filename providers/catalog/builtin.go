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
	Simulator = "simulator" // chat; without an address, with a server in this process
)

// Dialects are the dialects that a user-defined endpoint may have.
var Dialects = []string{Chat, Responses, Messages, Generate, Ollama}

// builtIn are the providers known without configuration.
var builtIn = []Entry{
	{Name: "openai", Dialect: Responses, BaseURL: "https://api.openai.com/v1", KeyEnv: "OPENAI_API_KEY"},
	{Name: "openaidp", Dialect: Responses, BaseURL: "https://api.openai.com/v1", KeyEnv: "OPENAI_API_KEY"}, // deep research
	{Name: "openai-chat", Dialect: Chat, BaseURL: "https://api.openai.com/v1", KeyEnv: "OPENAI_API_KEY"},
	{Name: "azure-openai", Dialect: Chat, KeyEnv: "AZURE_OPENAI_API_KEY"}, // each resource has its own address
	{Name: "openrouter", Dialect: Chat, BaseURL: "https://openrouter.ai/api/v1", KeyEnv: "OPENROUTER_API_KEY"},
	{Name: "anthropic", Dialect: Messages, BaseURL: "https://api.anthropic.com", KeyEnv: "ANTHROPIC_API_KEY"},
	{Name: "google", Dialect: Generate, BaseURL: "https://generativelanguage.googleapis.com", KeyEnv: "GEMINI_API_KEY"},
	{Name: "ollama", Dialect: Ollama, BaseURL: "http://127.0.0.1:11434"},
	{Name: "test", Dialect: Test},
	{Name: "simulator", Dialect: Simulator},
}

// peculiarity holds how a provider's requests differ from those of others in the same dialect.
type peculiarity struct {
	keyHeader string // empty: the dialect's own
	zone      string // where its days end, for daily quotas; empty: UTC
	chat      chat.Flavour
}

// peculiarities maps the name of a built-in provider to its peculiarity.
var peculiarities = map[string]peculiarity{
	"openai":       {chat: chat.Flavour{MaxTokensField: "max_completion_tokens"}}, // if dialect: chat is configured
	"openai-chat":  {chat: chat.Flavour{MaxTokensField: "max_completion_tokens"}},
	"azure-openai": {chat: chat.Flavour{MaxTokensField: "max_completion_tokens"}, keyHeader: "api-key"},
	"google":       {zone: "America/Los_Angeles"}, // https://ai.google.dev/gemini-api/docs/rate-limits
	"openrouter":   {chat: chat.Flavour{Effort: chat.EffortObject, Search: chat.SearchTool, RequireParameters: true}},
}

// aliases maps further names of built-in providers to their canonical names.
var aliases = map[string]string{"gemini": "google", "openrouter-openai": "openrouter"}

// Canonical returns the name of the built-in provider with the alias name, or name itself.
func Canonical(name string) string {
	provider, account := ProviderOf(name)
	canonical, ok := aliases[provider]
	switch {
	case !ok:
		return name
	case account != "":
		return AccountName(canonical, account)
	}
	return canonical
}

// Aliases returns the further names of built-in providers, sorted.
func Aliases() []string { return slices.Sorted(maps.Keys(aliases)) }

// BuiltIn returns the providers known without configuration, by name.
func BuiltIn() map[string]Entry {
	known := make(map[string]Entry, len(builtIn))
	for _, e := range builtIn {
		known[e.Name] = e
	}
	return known
}
