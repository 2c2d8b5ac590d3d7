package catalog

import (
	"testing"

	"github.com/evalfleet/evalfleet/providers"
)

// Which models give log probabilities, from the table or from a user's own rule, which wins except over a dialect without
// them.
func TestWhichModelsGiveLogProbs(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	own := func(dialect string, gives *bool) Entry {
		return Entry{Name: "own", Dialect: dialect, Models: []Rule{{Models: []string{"m"}, Facts: Facts{LogProbs: gives}}}}
	}
	like := Entry{Name: "second", Like: "openai", Dialect: Responses, Models: []Rule{{Models: []string{"gpt-5.2"}, Facts: Facts{LogProbs: &yes}}}}
	for _, test := range []struct {
		of    Entry
		model string
		want  providers.LogProbs
	}{
		{BuiltIn()["openai"], "gpt-4o-2024-08-06", providers.LogProbsGiven},
		{BuiltIn()["openai"], "gpt-4.1-mini", providers.LogProbsGiven},
		{BuiltIn()["openai-chat"], "gpt-4-1106-preview", providers.LogProbsGiven},
		{BuiltIn()["openai"], "o3", providers.LogProbsNone},
		{BuiltIn()["openai"], "o4-mini", providers.LogProbsNone},
		{BuiltIn()["openai"], "gpt-5-nano", providers.LogProbsNone},
		{BuiltIn()["openai"], "gpt-5.6", providers.LogProbsNone},
		{BuiltIn()["openai"], "gpt-4o-search-preview", providers.LogProbsNone},
		{BuiltIn()["openai"], "davinci", providers.LogProbsUnknown},
		{like, "gpt-5.1", providers.LogProbsNone},
		{like, "gpt-5.2", providers.LogProbsGiven},
		{BuiltIn()["azure-openai"], "my-deployment", providers.LogProbsUnknown},
		{BuiltIn()["anthropic"], "claude-sonnet-4-5", providers.LogProbsNone},
		{own(Messages, &yes), "m1", providers.LogProbsNone},
		{BuiltIn()["google"], "gemini-2.0-flash", providers.LogProbsGiven},
		{BuiltIn()["google"], "gemini-2.5-flash", providers.LogProbsUnknown},
		{BuiltIn()["google"], "gemini-3.5-flash", providers.LogProbsNone},
		{BuiltIn()["ollama"], "llama3.2", providers.LogProbsGiven},
		{BuiltIn()["simulator"], "careful", providers.LogProbsGiven},
		{own(Chat, nil), "m1", providers.LogProbsUnknown},
		{own(Chat, &yes), "m1", providers.LogProbsGiven},
		{own(Chat, &no), "m1", providers.LogProbsNone},
	} {
		if got := test.of.Capabilities(test.model).LogProbs; got != test.want {
			t.Errorf("%s:%s: got %q, want %q", test.of.Name, test.model, got, test.want)
		}
	}
}
