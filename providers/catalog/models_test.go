package catalog

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/providers"
)

// The file is data: what no decoder sees is checked here.
func TestModelsFile(t *testing.T) {
	t.Parallel()
	m := byHand()
	if asOf, err := time.Parse(time.DateOnly, m.AsOf); err != nil || asOf.After(time.Now()) {
		t.Errorf("as_of %q: %v; want a day that has been", m.AsOf, err)
	}
	for _, source := range m.Sources {
		if source.Of == "" || !strings.HasPrefix(source.At, "https://") {
			t.Errorf("source %+v: want what it is of, and its address", source)
		}
	}
	for i, rule := range known() {
		if err := rule.validate(); err != nil {
			t.Errorf("rule %d, %+v: %v", i+1, rule, err)
		}
		for _, model := range append(rule.Models[:len(rule.Models):len(rule.Models)], "")[:max(len(rule.Models), 1)] {
			if !decides(known()[:i], rule, model) {
				t.Errorf("rule %d decides nothing of %q: rules above it state the same facts", i+1, model)
			}
		}
	}
}

// The generated file is the generator's: each of its rules states a window and no other
// fact, its day and its source, a file of a commit.
func TestGeneratedModelsFile(t *testing.T) {
	t.Parallel()
	m := generated()
	if len(m.Rules) < 30 {
		t.Errorf("%d rules, want at least 30", len(m.Rules))
	}
	for name, source := range m.Sources {
		if !generatedFrom.MatchString(source.At) || source.On != m.AsOf {
			t.Errorf("source %s is %+v, want a file at a commit of %s", name, source, m.AsOf)
		}
	}
	for i, rule := range m.Rules {
		_, known := m.Sources[rule.Source]
		if !known || rule.On == "" || rule.On > m.AsOf {
			t.Errorf("rule %d, %v, is from %q of %q, want a source and a day up to %s", i+1, rule.Models, rule.Source, rule.On, m.AsOf)
		}
		if window := (Facts{ContextWindow: rule.ContextWindow}); window.ContextWindow == 0 || !gocmp.Equal(rule.Facts, window) {
			t.Errorf("rule %d, %v, states %+v, want a window only", i+1, rule.Models, rule.Facts)
		}
	}
}

// TestContextWindows: what models.yaml states is not what is generated, and no rule about
// a model whose name is shorter hides that of a longer one.
func TestContextWindows(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		provider, model string
		byHand, window  int
	}{
		{"openai", "gpt-5-mini-2025-08-07", 0, 400000},
		{"openai", "gpt-5-chat-latest", 128000, 128000},
		{"openai", "gpt-5.2-chat-latest", 128000, 128000},
		{"openai", "gpt-5.3-chat-latest", 0, 128000},
		{"openai", "gpt-5.3-codex", 0, 400000},
		{"openai", "gpt-5.4", 0, 1050000},
		{"openai", "gpt-5.4-mini", 0, 400000},
		{"openai", "gpt-5.5", 1050000, 1050000}, // 1000000 in the source
		{"openai", "gpt-5.6-luna", 0, 1050000},
		{"openai", "gpt-5.7", 0, 0},
		{"azure-openai", "gpt-4o", 0, 128000},
		{"openai", "o1", 200000, 200000}, // 128000 in the source
		{"openaidp", "o3-deep-research", 200000, 200000},
		{"openai-chat", "gpt-3.5-turbo", 0, 16385},
		{"openai", "gpt-4", 0, 0},
		{"openai", "gpt-4.1-mini", 1047576, 1047576}, // 1000000 in the source
		{"openai", "gpt-4-vision-preview", 0, 0},
		{"anthropic", "claude-opus-4-6", 1000000, 1000000}, // 200000 in the source
		{"anthropic", "claude-sonnet-4-5", 200000, 200000}, // 1000000 in the source
		{"anthropic", "claude-haiku-4-5-20251001", 0, 200000},
		{"anthropic", "claude-opus-5-5", 1000000, 1000000},
		{"anthropic", "claude-opus-5-20260725", 0, 1000000},
		{"anthropic", "claude-fable-5-1", 1000000, 1000000},
		{"google", "gemini-2.5-pro", 1048576, 1048576},
		{"google", "gemini-3.7-flash", 1048576, 1048576}, // 1000000 in the source
		{"google", "gemini-1.5-pro", 2000000, 2000000},
		{"google", "gemini-1.5-flash", 1048576, 1048576},
		{"google", "gemini-pro-latest", 0, 0},
		{"ollama", "gpt-5", 0, 0},
	} {
		window := BuiltIn()[test.provider].Capabilities(test.model).ContextWindow
		if hand := WindowByHand(test.provider, test.model); hand != test.byHand || window != test.window {
			t.Errorf("%s:%s: got a window of %d, %d of it by hand; want %d and %d", test.provider, test.model, window, hand, test.window, test.byHand)
		}
	}
}

func TestOutputLimits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		provider, model string
		want            int
	}{
		{"openai", "gpt-3.5-turbo", 4096},
		{"openai", "gpt-4-turbo", 4096},
		{"openai", "gpt-4o-2024-05-13", 4096},
		{"openai", "gpt-4.1-nano", 32768},
		{"anthropic", "claude-3-haiku-20240307", 4096},
		{"anthropic", "claude-3-5-sonnet-20241022", 8192},
		{"anthropic", "claude-opus-4-20250514", 32000},
		{"anthropic", "claude-opus-4-1", 32000},
		{"google", "gemini-1.5-flash", 8192},
	} {
		if got := BuiltIn()[test.provider].Capabilities(test.model).MaxOutput; got != test.want {
			t.Errorf("%s:%s: got at most %d tokens of output, want %d", test.provider, test.model, got, test.want)
		}
	}
}

// allDialects are those that rules may speak of.
var allDialects = slices.Concat(Dialects, []string{Test, Simulator})

func (r Rule) validate() error {
	for _, name := range r.Providers {
		if _, ok := BuiltIn()[name]; !ok {
			return fmt.Errorf("unknown provider %s", name)
		}
	}
	for _, dialect := range r.Dialects {
		if !slices.Contains(allDialects, dialect) {
			return fmt.Errorf("unknown dialect %s", dialect)
		}
	}
	for word, words := range map[string][]string{r.JSON: JSONWords, r.Reasoning: ReasoningWords, r.Sampling: SamplingWords, r.PromptCache: PromptCacheWords} {
		if word != "" && !slices.Contains(words, word) {
			return fmt.Errorf("%q is none of %q", word, words)
		}
	}
	for _, effort := range r.Efforts {
		if !slices.Contains(providers.Efforts, effort) {
			return fmt.Errorf("%q is no effort", effort)
		}
	}
	if len(r.Providers)+len(r.Dialects) == 0 || gocmp.Equal(r.Facts, Facts{}) || r.ContextWindow < 0 || r.MaxOutput < 0 {
		return fmt.Errorf("want providers or dialects, facts, and no tokens below 0")
	}
	return nil
}

// decides reports whether the rule states a fact of the model that no rule above
// it does, at any provider.
func decides(above []Rule, rule Rule, model string) bool {
	for _, e := range builtIn {
		for _, e.Dialect = range allDialects {
			var facts Facts
			for _, other := range above {
				if other.isAbout(e, model, isVersion) {
					facts = facts.or(other.Facts)
				}
			}
			if rule.isAbout(e, model, isVersion) && !gocmp.Equal(facts.or(rule.Facts), facts) {
				return true
			}
		}
	}
	return false
}

func TestCapabilities(t *testing.T) {
	t.Parallel()
	yes := true
	own := Entry{Name: "own", Dialect: Chat, JSON: "object", Models: []Rule{
		{Models: []string{"m-large"}, Facts: Facts{JSON: "schema", Search: "web", JSONWithSearch: &yes}},
		{Models: []string{"m-"}, Facts: Facts{ContextWindow: 1000, Efforts: []string{"low"}, Sampling: "never", Search: "none", Reasoning: "effort"}},
		{Models: []string{"plain"}, Facts: Facts{JSON: "auto", Sampling: "always"}},
	}}
	second := Entry{Name: "second", Like: "openai-chat", Dialect: Chat, Models: []Rule{{Models: []string{"gpt-5"}, Facts: Facts{MaxOutput: 5}}}}
	for _, test := range []struct {
		entry Entry
		model string
		want  providers.Capabilities
	}{
		{Entry{Name: "local", Dialect: Chat}, "gpt-5", providers.Capabilities{}},
		{BuiltIn()["openai-chat"], "a-model-to-come", providers.Capabilities{SchemaBounds: true}},
		{BuiltIn()["test"], "any", providers.Capabilities{Search: "test", JSONWithSearch: true, Reasoning: providers.ReasoningEffort}},
		{BuiltIn()["simulator"], "careful", providers.Capabilities{Search: "web_search_options", Reasoning: providers.ReasoningEffort}},
		{
			BuiltIn()["openai-chat"], "gpt-5-mini",
			providers.Capabilities{
				SchemaBounds: true, JSON: providers.JSONSchema, Reasoning: providers.ReasoningEffort, Efforts: []string{"minimal", "low", "medium", "high"},
				Sampling: providers.SamplingNever, ContextWindow: 400000, MaxOutput: 128000,
			},
		},
		{
			BuiltIn()["openai-chat"], "gpt-5.1-chat-latest",
			providers.Capabilities{
				SchemaBounds: true, JSON: providers.JSONSchema, Reasoning: providers.ReasoningEffort, Efforts: []string{"medium"},
				Sampling: providers.SamplingNever, ContextWindow: 128000, MaxOutput: 16384,
			},
		},
		{
			BuiltIn()["openai-chat"], "gpt-5-chat-latest",
			providers.Capabilities{
				SchemaBounds: true, JSON: providers.JSONSchema, Reasoning: providers.ReasoningNone, Efforts: []string{"minimal", "low", "medium", "high"},
				ContextWindow: 128000, MaxOutput: 16384,
			},
		},
		{
			BuiltIn()["openai"], "gpt-6-astra",
			providers.Capabilities{
				SchemaBounds: true, JSON: providers.JSONSchema, JSONWithSearch: true, Search: "web_search", Reasoning: providers.ReasoningEffort,
				Efforts: []string{"low", "medium", "high", "xhigh", "max"}, Sampling: providers.SamplingNever,
			},
		},
		{
			BuiltIn()["openaidp"], "o4-mini-deep-research",
			providers.Capabilities{
				SchemaBounds: true, JSON: providers.JSONNone, Search: "web_search_preview", Reasoning: providers.ReasoningEffort, Efforts: []string{"medium"},
				Sampling: providers.SamplingNever, Background: true, ContextWindow: 200000, MaxOutput: 100000,
			},
		},
		{ // which OpenAI does not serve in this dialect
			BuiltIn()["openai"], "gpt-4o-search-preview",
			providers.Capabilities{SchemaBounds: true, JSON: providers.JSONSchema, Reasoning: providers.ReasoningNone, ContextWindow: 128000, MaxOutput: 16384},
		},
		{
			BuiltIn()["anthropic"], "claude-opus-5-5",
			providers.Capabilities{
				JSON: providers.JSONSchema, Search: "web_search_20250305", Reasoning: providers.ReasoningAdaptive,
				Efforts: []string{"low", "medium", "high", "xhigh", "max"}, Sampling: providers.SamplingNever,
				ContextWindow: 1000000, MaxOutput: 128000,
			},
		},
		{
			BuiltIn()["anthropic"], "claude-sonnet-4-20250514",
			providers.Capabilities{
				JSON: providers.JSONNone, Search: "web_search_20250305", Reasoning: providers.ReasoningBudget, Efforts: providers.Efforts,
				Sampling: providers.SamplingWithoutReasoning, ContextWindow: 200000, MaxOutput: 64000,
			},
		},
		{BuiltIn()["ollama"], "llama3.3", providers.Capabilities{SchemaBounds: true, JSON: providers.JSONSchema}},
		{
			BuiltIn()["google"], "gemini-2.5-pro",
			providers.Capabilities{
				SchemaBounds: true, JSON: providers.JSONSchema, Search: "googleSearch", Reasoning: providers.ReasoningBudget,
				Efforts: []string{"minimal", "low", "medium", "high", "xhigh", "max"}, ContextWindow: 1048576, MaxOutput: 65536,
			},
		},
		{BuiltIn()["openrouter"], "meta-llama/llama-4", providers.Capabilities{Search: "openrouter:web_search"}},
		{own, "other", providers.Capabilities{JSON: providers.JSONObject}},
		{own, "plain", providers.Capabilities{}},
		{own, "m-small", providers.Capabilities{
			JSON: providers.JSONObject, ContextWindow: 1000, Efforts: []string{"low"}, Sampling: providers.SamplingNever, Reasoning: providers.ReasoningEffort,
		}},
		{own, "m-large", providers.Capabilities{
			JSON: providers.JSONSchema, JSONWithSearch: true, Search: "web",
			ContextWindow: 1000, Efforts: []string{"low"}, Sampling: providers.SamplingNever, Reasoning: providers.ReasoningEffort,
		}},
		{second, "gpt-5.6", providers.Capabilities{
			SchemaBounds: true, JSON: providers.JSONSchema, Reasoning: providers.ReasoningEffort, Efforts: []string{"none", "low", "medium", "high", "xhigh", "max"},
			Sampling: providers.SamplingWithoutReasoning, ContextWindow: 1050000, MaxOutput: 5,
		}},
	} {
		got := test.entry.Capabilities(test.model)
		got.PromptCache, got.CacheMinimum = "", 0 // see TestPromptCachesOfModels
		got.Batch = false                         // see TestBatchEndpoints
		got.Images, got.ImageCount = "", ""       // images_test.go
		got.LogProbs = ""                         // logprobs_test.go
		if diff := gocmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s:%s (-want +got):\n%s", test.entry.Name, test.model, diff)
		}
	}
}

// Each row is what the sources of models.yaml say.
func TestPromptCachesOfModels(t *testing.T) {
	t.Parallel()
	silent := Entry{Name: "gateway", Dialect: Messages, BaseURL: "https://gateway.example", Models: []Rule{
		{Models: []string{"claude"}, Facts: Facts{PromptCache: "none"}},
	}}
	azure := BuiltIn()["azure-openai"]
	for _, test := range []struct {
		entry   Entry
		model   string
		way     providers.PromptCache
		minimum int
	}{
		{BuiltIn()["openai"], "gpt-6.2-sol", providers.PromptCacheBreakpoints, 1024},
		{BuiltIn()["openai-chat"], "gpt-5.6-terra", providers.PromptCacheBreakpoints, 1024},
		{BuiltIn()["openai"], "gpt-5-mini", providers.PromptCacheKey, 1024},
		{BuiltIn()["openai"], "gpt-4.1-2025-04-14", providers.PromptCacheKey, 1024},
		{BuiltIn()["openai"], "gpt-4-turbo", providers.PromptCacheUntold, 0},
		{azure, "gpt-5-mini", providers.PromptCacheUntold, 0},
		{BuiltIn()["anthropic"], "claude-sonnet-4-5", providers.PromptCacheMarks, 1024},
		{BuiltIn()["anthropic"], "claude-haiku-4-5", providers.PromptCacheMarks, 4096},
		{BuiltIn()["anthropic"], "claude-opus-5", providers.PromptCacheMarks, 512},
		{BuiltIn()["anthropic"], "claude-opus-5-5", providers.PromptCacheMarks, 4096},
		{BuiltIn()["google"], "gemini-2.5-pro", providers.PromptCacheUntold, 0}, // caches without being told
		{silent, "claude-opus-5", providers.PromptCacheUntold, 512},
	} {
		got := test.entry.Capabilities(test.model)
		if got.PromptCache != test.way || got.CacheMinimum != test.minimum {
			t.Errorf("%s:%s is told by %q from %d tokens on, want %q from %d", test.entry.Name, test.model,
				got.PromptCache, got.CacheMinimum, test.way, test.minimum)
		}
	}
}

// Each row is what the sources of models.yaml say, or that they say nothing.
func TestReasoningOfModels(t *testing.T) {
	t.Parallel()
	effort := func(effort string) providers.Request { return providers.Request{ReasoningEffort: effort} }
	reason := providers.Request{Reason: true}
	for _, test := range []struct {
		provider, model string
		req             providers.Request
		effort          string
		refused         bool
		temperature     bool // is taken
	}{
		{"openai", "gpt-5.4-mini", providers.Request{}, "", false, true},
		{"openai", "gpt-5.2", effort("low"), "low", false, false},
		{"openai", "gpt-5.3-codex", providers.Request{}, "", false, true},
		{"openai", "gpt-5.2-codex", effort("none"), "", true, false},
		{"openai", "gpt-5.1", effort("none"), "none", false, true},
		{"openai", "gpt-5.5", providers.Request{}, "", false, false},
		{"openai", "gpt-5.2-chat-latest", providers.Request{}, "", false, false},
		{"openai", "gpt-5-mini", effort("none"), "", true, false},
		{"openai", "gpt-6-sol", effort("none"), "none", false, true},
		{"openai", "gpt-6.1-sol", effort("none"), "", true, false},
		{"openai", "gpt-6.1-terra", effort("none"), "none", false, true},
		{"openai", "gpt-6.2-astra", effort("none"), "", true, false},
		{"openai", "gpt-5.7", effort("minimal"), "minimal", false, true}, // nothing is known of it
		{"openai", "gpt-60", effort("none"), "none", false, true},
		{"anthropic", "claude-sonnet-5-5", effort("none"), "", true, false},
		{"anthropic", "claude-sonnet-5", effort("none"), "none", false, false},
		{"anthropic", "claude-sonnet-5-20260301", effort("none"), "none", false, false},
		{"anthropic", "claude-opus-5-7", effort("none"), "", true, false}, // nothing is known of it but that it is a Claude
		{"anthropic", "claude-opus-6", effort("high"), "high", false, false},
		{"anthropic", "claude-3-5-haiku-20241022", effort("high"), "", true, true},
		{"google", "gemini-3.1-pro-preview", reason, "", false, true},
		{"google", "gemini-3-flash-preview", reason, "", false, true},
		{"google", "gemini-1.5-flash", effort("low"), "", true, true},
		{"google", "gemini-4-argon", effort("minimal"), "", true, false},
		{"google", "gemini-4-argon", effort("high"), "high", false, false},
	} {
		caps := BuiltIn()[test.provider].Capabilities(test.model)
		got, refused := caps.Effort(&test.req)
		if got != test.effort || refused != test.refused || caps.TakesTemperatureAt(got) != test.temperature {
			t.Errorf("%s, asked for %q: got %q, refused: %t, temperature: %t; want %q, %t, %t", test.model, test.req.ReasoningEffort,
				got, refused, caps.TakesTemperatureAt(got), test.effort, test.refused, test.temperature)
		}
	}
	if caps := BuiltIn()["google"].Capabilities("gemini-1.5-flash"); caps.Search != "googleSearchRetrieval" || caps.JSON != providers.JSONObject || caps.Reasoning != providers.ReasoningNone {
		t.Errorf("gemini-1.5-flash: got %+v", caps)
	}
}

// TestSearchAndJSONInOneCall: Gemini 3 does both at Google's own API, whose request has
// a field for it; older models and gateways do not.
func TestSearchAndJSONInOneCall(t *testing.T) {
	t.Parallel()
	account := Entry{Name: "team", Like: "google", Dialect: Generate}
	gateway := Entry{Name: "gateway", Dialect: Generate}
	for _, test := range []struct {
		entry Entry
		model string
		one   bool
	}{
		{BuiltIn()["google"], "gemini-3-flash-preview", true},
		{BuiltIn()["google"], "gemini-3.5-flash-lite", true},
		{BuiltIn()["google"], "gemini-3.1-pro-preview", true},
		{account, "gemini-3.1-pro-preview", true},
		{gateway, "gemini-3.1-pro-preview", false},
		{BuiltIn()["google"], "gemini-2.5-flash", false},
		{BuiltIn()["google"], "gemini-1.5-flash", false},
		{BuiltIn()["google"], "gemini-4-argon", false},
		{BuiltIn()["google"], "gemini-flash-latest", false},
		{BuiltIn()["openrouter"], "google/gemini-3.1-pro-preview", false},
	} {
		if caps := test.entry.Capabilities(test.model); caps.TwoCalls(true, true) == test.one || caps.Search == "" {
			t.Errorf("%s at %s: two calls for grounded JSON: %t, search %q; want one call: %t", test.model, test.entry.Name, caps.TwoCalls(true, true), caps.Search, test.one)
		}
	}
}

func TestCapabilitiesLookedUpOnce(t *testing.T) {
	t.Parallel()
	for _, entry := range BuiltIn() {
		lookedUp := entry.LookedUpOnce()
		for _, model := range []string{"gpt-5-mini", "claude-opus-4-5", "gemini-2.5-pro", "o3-deep-research", "unknown"} {
			for _, turn := range []string{"first", "second"} {
				if diff := gocmp.Diff(entry.Capabilities(model), lookedUp(model)); diff != "" {
					t.Errorf("%s: %s, the %s time (-want +got):\n%s", entry.Name, model, turn, diff)
				}
			}
		}
	}
}
