package catalog

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/providers"
)

var update = flag.Bool("update", false, "write the tables of docs/providers.md anew")

// shownModels are the rows of the table of models in docs/providers.md: names whose
// capabilities are the same, at a provider, and where that was read.
var shownModels = []struct {
	provider, models string // separated by spaces
	checked, source  string // a source of models.yaml
}{
	{"openai", "gpt-6.2-astra gpt-6.1-sol gpt-6-astra", "2026-11-23", "https://developers.openai.com/api/docs/guides/latest-model?model=gpt-6.1-sol"},
	{"openai", "gpt-6.1-terra gpt-6-sol gpt-6-luna gpt-5.6-sol gpt-5.6-terra gpt-5.6-luna", "2026-11-23", "https://apidog.com/blog/gpt-6-1-terra-api/"},
	{"openai", "gpt-5.5", "2026-11-23", pydanticOpenAI},
	{"openai", "gpt-5.4 gpt-5.4-mini gpt-5.4-nano gpt-5.3 gpt-5.3-codex gpt-5.2", "2026-11-23", pydanticOpenAI},
	{"openai", "gpt-5.5-pro gpt-5.4-pro gpt-5.2-pro", "2026-11-23", pydanticOpenAI},
	{"openai", "gpt-5.1", "2026-11-23", pydanticOpenAI},
	{"openai", "gpt-5.3-chat gpt-5.2-chat gpt-5.1-chat", "2026-11-23", pydanticOpenAI},
	{"openai", "gpt-5.2-codex gpt-5.1-codex gpt-5-codex", "2026-11-23", pydanticOpenAI},
	{"openai", "gpt-5 gpt-5-mini gpt-5-nano", "2026-11-23", pydanticOpenAI},
	{"openai", "gpt-5-pro", "2026-11-23", pydanticOpenAI},
	{"openai", "gpt-5-chat", "2026-11-23", pydanticOpenAI},
	{"openai", "o4-mini o3", "2026-11-23", pydanticOpenAI},
	{"openai", "o3-mini o1", "2026-11-23", pydanticOpenAI},
	{"openai", "gpt-4.1 gpt-4.1-mini gpt-4o gpt-4o-mini", "2026-11-23", pydanticOpenAI},
	{"openai", "gpt-4.1-nano", "2026-11-23", pydanticOpenAI},
	{"openai", "gpt-4o-2024-05-13", "2026-11-23", pydanticOpenAI},
	{"openai", "gpt-4-turbo gpt-3.5-turbo", "2026-11-23", pydanticOpenAI},
	{"openai-chat", "gpt-5-search-api", "2026-11-23", pydanticOpenAI},
	{"openai-chat", "gpt-4o-search-preview gpt-4o-mini-search-preview", "2026-11-23", pydanticOpenAI},
	{"openaidp", "o3-deep-research o4-mini-deep-research", "2026-11-23", "https://platform.openai.com/docs/models/o3-deep-research"},
	{"anthropic", "claude-sonnet-5-5 claude-opus-5-5", "2026-11-23", "https://platform.claude.com/docs/en/models/sonnet-5-5/whats-new-sonnet-5-5"},
	{"anthropic", "claude-fable-5-1 claude-mythos-5", "2026-11-23", pydanticAnthropic},
	{"anthropic", "claude-sonnet-5 claude-haiku-5 claude-haiku-5-5 claude-opus-5 claude-opus-4-8 claude-opus-4-7", "2026-11-23", pydanticAnthropic},
	{"anthropic", "claude-opus-4-6 claude-sonnet-4-6", "2026-11-23", pydanticAnthropic},
	{"anthropic", "claude-opus-4-5 claude-opus-4-1 claude-sonnet-4-5 claude-haiku-4-5", "2026-11-23", pydanticAnthropic},
	{"anthropic", "claude-sonnet-4-0 claude-opus-4-0 claude-sonnet-4-20250514 claude-opus-4-20250514 claude-3-7-sonnet", "2026-11-23", pydanticAnthropic},
	{"anthropic", "claude-3-5-haiku claude-3-5-sonnet", "2026-11-23", pydanticAnthropic},
	{"anthropic", "claude-3-opus claude-3-sonnet claude-3-haiku", "2026-11-23", pydanticAnthropic},
	{"anthropic", "claude-…", "2026-11-23", "https://platform.claude.com/docs/en/models/sonnet-5-5/whats-new-sonnet-5-5"},
	{"google", "gemini-4-argon", "2026-11-23", "https://docs.cloud.google.com/gemini-enterprise-agent-platform/models/guides/gemini-4-argon"},
	{"google", "gemini-3.8-flash gemini-3.7-flash gemini-3.1-pro", "2026-11-23", geminiLevels},
	{"google", "gemini-3.6-flash gemini-3.5-flash gemini-3.1-flash gemini-3-flash", "2026-11-23", geminiLevels},
	{"google", "gemini-3-pro", "2026-11-23", geminiLevels},
	{"google", "gemini-2.5-pro", "2026-11-22", geminiLevels},
	{"google", "gemini-2.5-flash", "2026-11-22", geminiLevels},
	{"google", "gemini-2.0-flash", "2026-11-23", geminiLevels},
	{"google", "gemini-1.5-flash gemini-1.5-pro", "2026-11-23", "https://ai.google.dev/gemini-api/docs/google-search"},
	{"openrouter", "openai/gpt-5-mini openai/gpt-6-sol openai/o1 openai/o3 openai/o4-mini", "2026-11-22", "https://openrouter.ai/docs/guides/features/server-tools"},
	{"openrouter", "openai/gpt-4.1", "2026-11-22", "https://openrouter.ai/docs/guides/features/server-tools"},
	{"openrouter", "anthropic/claude-opus-4.7 anthropic/claude-opus-4.8 anthropic/claude-opus-5 anthropic/claude-opus-5.5 anthropic/claude-sonnet-5 anthropic/claude-sonnet-5.5 anthropic/claude-haiku-5 anthropic/claude-haiku-5.5 anthropic/claude-fable-5.1 anthropic/claude-mythos-5", "2026-11-22", "https://openrouter.ai/docs/guides/features/server-tools"},
	{"openrouter", "others", "2026-11-22", "https://openrouter.ai/docs/guides/features/server-tools"},
	{"ollama", "gpt-oss", "2026-11-23", "https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md"},
	{"ollama", "others", "2026-11-23", "https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md"},
}

// Sources of several rows.
const (
	pydanticOpenAI    = "https://github.com/pydantic/pydantic-ai/blob/4fda389/pydantic_ai_slim/pydantic_ai/profiles/openai.py"
	pydanticAnthropic = "https://github.com/pydantic/pydantic-ai/blob/4fda389/pydantic_ai_slim/pydantic_ai/profiles/anthropic.py"
	geminiLevels      = "https://docs.cloud.google.com/gemini-enterprise-agent-platform/models/thinking"
)

// TestModelsPage holds the table of docs/providers.md to models.yaml (-update writes it):
// models of one row have the same capabilities, each name of models.yaml that states
// any of them has a row, and each source is listed there.
func TestModelsPage(t *testing.T) {
	t.Parallel()
	sources := map[string]bool{}
	for _, source := range byHand().Sources {
		sources[source.At] = true
	}
	var table strings.Builder
	table.WriteString("| models | temperature | efforts | JSON | search | JSON and search in one call | checked on |\n|---|---|---|---|---|---|---|\n")
	for _, row := range shownModels {
		entry, names := BuiltIn()[row.provider], strings.Fields(row.models)
		line := inWords(entry, names[0])
		for _, name := range names[1:] {
			if other := inWords(entry, name); other != line {
				t.Errorf("%s: %s has %q, and %s %q", row.provider, names[0], line, name, other)
			}
		}
		if !sources[row.source] {
			t.Errorf("%s is no source of models.yaml", row.source)
		}
		table.WriteString("| `" + row.provider + "`: " + strings.Join(names, ", ") + " | " + line + " | [" + row.checked + "](" + row.source + ") |\n")
	}
	for _, rule := range byHand().Rules {
		for _, name := range rule.Models {
			shown := slices.ContainsFunc(shownModels, func(row struct{ provider, models, checked, source string }) bool {
				return slices.ContainsFunc(strings.Fields(row.models), func(model string) bool { return isVersion(model, name) })
			})
			if family := strings.HasSuffix(name, ".") || name == "ft:"; !shown && !family {
				t.Errorf("no row has a model that begins with %s", name)
			}
		}
	}
	const page, begin, end = "../../docs/providers.md", "<!-- models: go test ./providers/catalog -run TestModelsPage -update -->\n", "<!-- end of models -->"
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(raw), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for the table", page)
	}
	want := before + begin + "\n" + table.String() + "\n" + end + after
	switch {
	case want == string(raw):
	case *update:
		if err := os.WriteFile(page, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		t.Error("the table of models in docs/providers.md is not that of models.yaml: go test ./providers/catalog -run TestModelsPage -update")
	}
}

// inWords are a model's capabilities as cells of the table.
func inWords(entry Entry, model string) string {
	caps := entry.Capabilities(model)
	efforts := strings.Join(caps.Efforts, ", ")
	if caps.Efforts == nil {
		efforts = "all"
	}
	switch caps.Reasoning {
	case providers.ReasoningNone:
		efforts = "none: does not reason"
	case providers.ReasoningSilent:
		efforts = "none sent"
	case providers.ReasoningBudget:
		efforts += ", as tokens"
	case providers.ReasoningUnknown:
		efforts = "sent as given"
	}
	temperature := map[providers.Sampling]string{
		providers.SamplingAlways: "yes", providers.SamplingNever: "no",
		providers.SamplingWithoutEffort:    "without an effort, or with none",
		providers.SamplingWithoutReasoning: "with effort none",
	}[caps.Sampling]
	if entry.Dialect == Messages && caps.Sampling != providers.SamplingNever {
		temperature = "unless it thinks"
	}
	json := map[providers.JSON]string{
		providers.JSONSchema: "schema", providers.JSONObject: "any object", providers.JSONNone: "by instruction", providers.JSONAuto: "tried",
	}[caps.JSON]
	search, one := "`"+caps.Search+"`", "no"
	if caps.JSONWithSearch {
		one = "yes"
	}
	if caps.Search == "" {
		search, one = "no", "–"
	}
	return strings.Join([]string{temperature, efforts, json, search, one}, " | ")
}
