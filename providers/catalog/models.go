package catalog

import (
	"cmp"
	_ "embed" // models.yaml, models_generated.yaml
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"

	"github.com/evalfleet/evalfleet/providers"
)

// Rule states facts about the models whose names begin with one of Models, at Providers and in Dialects. An empty list
// matches all.
type Rule struct {
	Providers []string `yaml:"providers" json:"providers,omitempty"`
	Dialects  []string `yaml:"dialects" json:"dialects,omitempty"`
	Models    []string `yaml:"models" json:"models,omitempty"`
	Facts     `yaml:",inline"`
}

// Facts expresses providers.Capabilities in words; each fact may be stated or not.
type Facts struct {
	JSON           string   `yaml:"json" json:"json,omitempty"` // one of JSONWords
	JSONWithSearch *bool    `yaml:"json_with_search" json:"json_with_search,omitempty"`
	SchemaBounds   *bool    `yaml:"schema_bounds" json:"schema_bounds,omitempty"`
	Search         string   `yaml:"search" json:"search,omitempty"`       // NoSearch, or as providers.Capabilities.Search
	Reasoning      string   `yaml:"reasoning" json:"reasoning,omitempty"` // one of ReasoningWords
	Efforts        []string `yaml:"efforts" json:"efforts,omitempty"`     // of providers.Efforts
	Sampling       string   `yaml:"sampling" json:"sampling,omitempty"`   // one of SamplingWords
	ContextWindow  int      `yaml:"context_window" json:"context_window,omitempty"`
	MaxOutput      int      `yaml:"max_output" json:"max_output,omitempty"`
	PromptCache    string   `yaml:"prompt_cache" json:"prompt_cache,omitempty"` // one of PromptCacheWords
	CacheMinimum   int      `yaml:"cache_minimum" json:"cache_minimum,omitempty"`
	Batch          *bool    `yaml:"batch" json:"batch,omitempty"`
	Images         *bool    `yaml:"images" json:"images,omitempty"`     // whether the model takes images; nil: as sighted says
	LogProbs       *bool    `yaml:"logprobs" json:"logprobs,omitempty"` // whether it gives log probabilities; nil: as telling says
}

// Words for the values that are empty in providers.Capabilities.
const (
	jsonAuto       = "auto"
	samplingAlways = "always"
	NoSearch       = "none"
	noPromptCache  = "none"
)

// The words of Facts.
var (
	JSONWords      = []string{jsonAuto, string(providers.JSONSchema), string(providers.JSONObject), string(providers.JSONNone)}
	ReasoningWords = []string{
		string(providers.ReasoningNone), string(providers.ReasoningSilent), string(providers.ReasoningEffort), string(providers.ReasoningBudget),
		string(providers.ReasoningAdaptive), string(providers.ReasoningLevel),
	}
	SamplingWords = []string{
		samplingAlways, string(providers.SamplingNever), string(providers.SamplingWithoutReasoning),
		string(providers.SamplingWithoutEffort),
	}
	PromptCacheWords = []string{
		noPromptCache, string(providers.PromptCacheMarks), string(providers.PromptCacheKey), string(providers.PromptCacheBreakpoints),
	}
)

//go:embed models.yaml
var modelsFile []byte

//go:embed models_generated.yaml
var generatedModelsFile []byte // package prices, in tools/providers/prices, writes it

// models is the content of models.yaml.
type models struct {
	AsOf    string `yaml:"as_of"` // year-month-day
	Sources []struct {
		Of string `yaml:"of"`
		At string `yaml:"at"`
	} `yaml:"sources"`
	Rules []Rule `yaml:"rules"`
}

// generatedModels is the content of models_generated.yaml.
type generatedModels struct {
	AsOf    string            `yaml:"as_of"`
	Sources map[string]source `yaml:"sources"`
	Rules   []struct {
		Rule   `yaml:",inline"`
		Source string `yaml:"source"` // key of Sources
		On     string `yaml:"on"`     // the day on which the source checked the model
	} `yaml:"rules"`
}

// byHand returns models.yaml, which it reads once, on first use.
var byHand = sync.OnceValue(func() (m models) {
	readStrictly("models.yaml", modelsFile, &m)
	return m
})

var generated = sync.OnceValue(func() (m generatedModels) {
	readStrictly("models_generated.yaml", generatedModelsFile, &m)
	return m
})

func readStrictly(name string, file []byte, into any) {
	if err := yaml.UnmarshalWithOptions(file, into, yaml.Strict()); err != nil {
		panic(fmt.Errorf("%s: %w", name, err))
	}
}

// known returns the rules of models.yaml, then those of models_generated.yaml.
var known = sync.OnceValue(func() []Rule {
	rules := slices.Clone(byHand().Rules)
	for _, rule := range generated().Rules {
		rules = append(rules, rule.Rule)
	}
	return rules
})

// WindowByHand returns the context window, in tokens, that models.yaml states for a built-in provider's model; 0: none.
// It ignores generated rules.
func WindowByHand(provider, model string) int {
	entry := BuiltIn()[provider]
	for _, rule := range byHand().Rules {
		if rule.ContextWindow > 0 && rule.isAbout(entry, model, isVersion) {
			return rule.ContextWindow
		}
	}
	return 0
}

// Capabilities returns the known abilities of a model at the entry's endpoint. Each fact comes from the first rule that
// states it for the model. The entry's own rules come first, then those of models.yaml and of models_generated.yaml.
func (e Entry) Capabilities(model string) providers.Capabilities {
	var facts Facts
	for whose, rules := range [][]Rule{e.Models, {{Facts: Facts{JSON: e.JSON, Batch: e.Batch}}}, known()} {
		begins := strings.HasPrefix
		if whose == 2 {
			begins = isVersion
		}
		for i := range rules {
			if rules[i].isAbout(e, model, begins) {
				facts = facts.or(rules[i].Facts)
			}
		}
	}
	capabilities := facts.capabilities()
	capabilities.Background = e.researches(model)
	if facts.Batch == nil {
		capabilities.Batch = e.hasBatches()
	}
	capabilities.Batch = capabilities.Batch && !capabilities.Background
	e.addImages(&capabilities, facts.Images, model)
	capabilities.LogProbs = e.logProbs(facts.LogProbs, model)
	return capabilities
}

// mostLookedUp bounds the models that LookedUpOnce remembers: their names come from files.
const mostLookedUp = 1000

// LookedUpOnce returns a function like Capabilities for many calls: it goes through the rules only once for each model,
// for the first 1,000 models. The function is safe for concurrent use.
func (e Entry) LookedUpOnce() providers.CapabilitiesOf {
	var mu sync.RWMutex
	known := map[string]providers.Capabilities{}
	return func(model string) providers.Capabilities {
		mu.RLock()
		capabilities, ok := known[model]
		mu.RUnlock()
		if ok {
			return capabilities
		}
		capabilities = e.Capabilities(model)
		mu.Lock()
		defer mu.Unlock()
		if len(known) < mostLookedUp {
			known[model] = capabilities
		}
		return capabilities
	}
}

// researches reports whether a model does deep research: any model of openaidp, and any model with that in its name at
// an endpoint with the Responses dialect.
func (e Entry) researches(model string) bool {
	return e.Dialect == Responses && (cmp.Or(e.Like, e.Name) == "openaidp" || strings.Contains(model, "deep-research"))
}

// isVersion reports whether model begins with name and is not a later version. The name gpt-5 covers gpt-5-mini and
// gpt-5-2025-08-07, but not gpt-5.7 or gpt-50; claude-opus-5 does not cover claude-opus-5-7.
func isVersion(model, name string) bool {
	rest, ok := strings.CutPrefix(model, name)
	if !ok || rest == "" || !isDigit(name[len(name)-1]) {
		return ok
	}
	return rest[0] != '.' && !isDigit(rest[0]) && !laterVersion.MatchString(rest)
}

// laterVersion matches the suffix after the name of an earlier version; dates are longer.
var laterVersion = regexp.MustCompile(`^-\d{1,2}(-|$)`)

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isAbout reports whether the rule applies to a model of the entry. begins reports whether a model's name begins with
// one of the rule's names.
func (r *Rule) isAbout(e Entry, model string, begins func(model, name string) bool) bool {
	return (len(r.Providers) == 0 || slices.Contains(r.Providers, cmp.Or(e.Like, e.Name))) &&
		(len(r.Dialects) == 0 || slices.Contains(r.Dialects, e.Dialect)) &&
		(len(r.Models) == 0 || slices.ContainsFunc(r.Models, func(name string) bool { return begins(model, name) }))
}

// or returns the facts of f, completed by those of others that f does not state.
func (f Facts) or(others Facts) Facts {
	if f.Efforts == nil {
		f.Efforts = others.Efforts
	}
	return Facts{
		JSON:           cmp.Or(f.JSON, others.JSON),
		JSONWithSearch: cmp.Or(f.JSONWithSearch, others.JSONWithSearch),
		SchemaBounds:   cmp.Or(f.SchemaBounds, others.SchemaBounds),
		Search:         cmp.Or(f.Search, others.Search),
		Reasoning:      cmp.Or(f.Reasoning, others.Reasoning),
		Efforts:        f.Efforts,
		Sampling:       cmp.Or(f.Sampling, others.Sampling),
		ContextWindow:  cmp.Or(f.ContextWindow, others.ContextWindow),
		MaxOutput:      cmp.Or(f.MaxOutput, others.MaxOutput),
		PromptCache:    cmp.Or(f.PromptCache, others.PromptCache),
		CacheMinimum:   cmp.Or(f.CacheMinimum, others.CacheMinimum),
		Batch:          cmp.Or(f.Batch, others.Batch),
		Images:         cmp.Or(f.Images, others.Images),
		LogProbs:       cmp.Or(f.LogProbs, others.LogProbs),
	}
}

func (f Facts) capabilities() providers.Capabilities {
	unless := func(word, empty string) string {
		if word == empty {
			return ""
		}
		return word
	}
	return providers.Capabilities{
		JSON:           providers.JSON(unless(f.JSON, jsonAuto)),
		JSONWithSearch: f.JSONWithSearch != nil && *f.JSONWithSearch,
		SchemaBounds:   f.SchemaBounds != nil && *f.SchemaBounds,
		Search:         unless(f.Search, NoSearch),
		Reasoning:      providers.ReasoningControl(f.Reasoning),
		Efforts:        f.Efforts,
		Sampling:       providers.Sampling(unless(f.Sampling, samplingAlways)),
		ContextWindow:  f.ContextWindow,
		MaxOutput:      f.MaxOutput,
		PromptCache:    providers.PromptCache(unless(f.PromptCache, noPromptCache)),
		CacheMinimum:   f.CacheMinimum,
		Batch:          f.Batch != nil && *f.Batch,
	}
}
