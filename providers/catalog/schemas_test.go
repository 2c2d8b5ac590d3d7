package catalog

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/prompt"
	"github.com/evalfleet/evalfleet/providers"
)

var (
	shape = []string{"type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref", "$defs", "description"}
	// subsets are the keywords that each vendor documents as supported, of those that
	// a schema of ours could have, as of 2026-11-23.
	subsets = []struct {
		of, provider, model string
		keywords            []string
	}{
		// https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
		{"OpenAI", "openai", "gpt-5-mini", append(shape[:len(shape):len(shape)], "minimum", "maximum", "minItems", "maxItems", "pattern")},
		{"OpenAI's chat completions", "openai-chat", "gpt-4.1", append(shape[:len(shape):len(shape)], "minimum", "maximum", "minItems", "maxItems", "pattern")},
		{"OpenAI, fine-tuned", "openai-chat", "ft:gpt-4o:us::1", shape},
		// https://learn.microsoft.com/en-us/azure/foundry/openai/how-to/structured-outputs
		{"Azure", "azure-openai", "gpt-5-mini", shape},
		// https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations
		{"Anthropic", "anthropic", "claude-sonnet-5", shape},
		{"Anthropic, an unknown model", "anthropic", "claude-next", shape},
		// https://openrouter.ai/docs/guides/features/structured-outputs; it passes schemas on
		{"OpenRouter", "openrouter", "anthropic/claude-sonnet-4.5", shape},
		// https://ai.google.dev/gemini-api/docs/structured-output#json_schema_support
		{"Gemini", "google", "gemini-3-pro", append(shape[:len(shape):len(shape)], "minimum", "maximum", "minItems", "maxItems")},
		// https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md
		{"Ollama", "ollama", "qwen3", append(shape[:len(shape):len(shape)], "minimum", "maximum", "minItems", "maxItems", "pattern")},
	}
)

// ourSchemas are those of all kinds of questions.
func ourSchemas(t *testing.T) map[string]prompt.Prompt {
	t.Helper()
	e := &eval.Evaluation{
		Items:     []eval.Item{{ID: "q1", Question: "Why?"}},
		Documents: []eval.Document{{ID: "a", Hash: eval.TextHash("a"), Bytes: 1}, {ID: "b", Hash: eval.TextHash("b"), Bytes: 1}},
		Single:    &eval.Single{Criteria: []eval.Criterion{{Name: "style"}}, Scale: eval.Scale{Min: 1, Max: 5}, Trials: 1},
		Pairwise:  &eval.Pairwise{Pairs: eval.Pairs{Mode: eval.PairsAll}, Order: eval.OrderBoth, Trials: 1, Ties: true},
		Panel:     &eval.Panel{Agents: []eval.Judge{{Name: "plain"}}, Dimensions: []eval.Dimension{{ID: "d1"}, {ID: "d2"}}, Scale: eval.Scale{Min: 0, Max: 10}},
	}
	texts := map[string]string{eval.TextHash("a"): "a", eval.TextHash("b"): "b"}
	built := map[string]prompt.Prompt{}
	for _, question := range []struct {
		kind  eval.Kind
		about prompt.About
	}{
		{eval.KindPairwise, prompt.About{Second: 1}},
		{eval.KindSingle, prompt.About{Second: -1}},
		{eval.KindPanel, prompt.About{Second: -1, Dimensions: []int{0, 1}}},
	} {
		p, err := prompt.Build(e, question.kind, question.about, texts)
		if err != nil {
			t.Fatal(err)
		}
		built[string(question.kind)] = p
	}
	return built
}

// Every schema that is sent stays within what the vendor documents.
func TestSchemasFitEachVendorsSubset(t *testing.T) {
	t.Parallel()
	for kind, question := range ourSchemas(t) {
		for _, subset := range subsets {
			caps := BuiltIn()[subset.provider].Capabilities(subset.model)
			sent := caps.SchemaToSend(&providers.Schema{Schema: question.Schema})
			checkSchema(t, subset.of+", "+kind, sent, subset.keywords)
			if kind != string(eval.KindPairwise) && strings.Count(string(sent), `imum"`)+strings.Count(string(sent), `"at least`) == 0 {
				t.Errorf("%s, %s: no bounds in %s", subset.of, kind, sent)
			}
		}
	}
}

// checkSchema reports keywords out of the subset and objects that are not closed.
func checkSchema(t *testing.T, name string, raw json.RawMessage, keywords []string) {
	t.Helper()
	var schema map[string]json.RawMessage
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatalf("%s: %v in %s", name, err, raw)
	}
	var properties map[string]json.RawMessage
	var required []string
	for keyword, value := range schema {
		switch {
		case !slices.Contains(keywords, keyword):
			t.Errorf("%s: keyword %q is not supported: %s", name, keyword, raw)
		case keyword == "items":
			checkSchema(t, name, value, keywords)
		case keyword == "properties":
			if err := json.Unmarshal(value, &properties); err != nil {
				t.Fatal(err)
			}
		case keyword == "required":
			if err := json.Unmarshal(value, &required); err != nil {
				t.Fatal(err)
			}
		}
	}
	for property, value := range properties {
		checkSchema(t, name, value, keywords)
		if !slices.Contains(required, property) {
			t.Errorf("%s: %q is not required", name, property)
		}
	}
	if string(schema["type"]) == `"object"` && string(schema["additionalProperties"]) != "false" {
		t.Errorf("%s: an object that takes other properties: %s", name, raw)
	}
}
