package catalog

import "github.com/evalfleet/evalfleet/providers"

// told is what is known about models and log probabilities: whether the models whose names begin with one of models give
// them.
type told struct {
	providers []string // empty: any
	dialect   string   // empty: any
	models    []string // as in Rule; empty: all
	gives     bool
}

// telling lists what is known; the first that is about a model applies. Models without one are not known.
//
// Sources, read on 2026-11-30. OpenAI's API answers "logprobs are not supported with reasoning models"
// (https://github.com/vllm-project/vllm/pull/23319); its other chat models give 20. Anthropic's API has no field for them.
// Google's gives them for Gemini 2.0 (https://github.com/mscraftsman/generative-ai/issues/135), for 2.5 on Vertex AI alone
// (https://github.com/vercel/ai/issues/5418), and not for 3 (https://github.com/GoogleCloudPlatform/generative-ai/issues/2947).
// Ollama has them since 0.12.11 (https://github.com/ollama/ollama-python/pull/601); earlier servers ignore the fields.
var telling = []told{
	{dialect: Simulator, gives: true},
	{dialect: Test},
	{providers: openAI, models: []string{
		"o1", "o3", "o4", "gpt-5", "gpt-5.", "gpt-6", "gpt-6.", "gpt-4o-search", "gpt-4o-mini-search", "computer-use",
	}},
	{providers: openAI, models: []string{"gpt-3.5-turbo", "gpt-4", "gpt-4.1", "gpt-4.5"}, gives: true},
	{dialect: Generate, models: []string{"gemini-2.0"}, gives: true},
	{dialect: Generate, models: []string{"gemini-3", "gemini-3."}},
	{dialect: Ollama, gives: true},
}

// logProbs returns what is known about log probabilities. stated is what a rule says; nil: none does. The dialect of
// Anthropic has no way to ask for them, whatever a rule says.
func (e Entry) logProbs(stated *bool, model string) providers.LogProbs {
	words := map[bool]providers.LogProbs{true: providers.LogProbsGiven, false: providers.LogProbsNone}
	switch {
	case e.Dialect == Messages:
		return providers.LogProbsNone
	case stated != nil:
		return words[*stated]
	}
	for _, t := range telling {
		if e.isAmong(model, t.providers, t.dialect, t.models) {
			return words[t.gives]
		}
	}
	return providers.LogProbsUnknown
}
