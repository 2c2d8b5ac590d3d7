package catalog

import (
	"net/http"
	"testing"

	"github.com/evalfleet/evalfleet/providers"
)

// TestBatchEndpoints: only an address that is known for it has batches, or one that is configured.
func TestBatchEndpoints(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	builtIn := BuiltIn()
	ollama := builtIn["ollama"]
	ollama.Batch = &yes
	moved := builtIn["openai"]
	moved.BaseURL = "https://gateway.example/v1"
	refused := builtIn["openai"]
	refused.Batch = &no
	for name, test := range map[string]struct {
		entry Entry
		model string
		want  bool
	}{
		"openai":          {builtIn["openai"], "gpt-5", true},
		"openai-chat":     {builtIn["openai-chat"], "gpt-5", true},
		"anthropic":       {builtIn["anthropic"], "claude-opus-5", true},
		"google":          {builtIn["google"], "gemini-2.5-pro", true},
		"simulator":       {builtIn["simulator"], "careful", true},
		"deep research":   {builtIn["openaidp"], "o3-deep-research", false},
		"openrouter":      {builtIn["openrouter"], "openai/gpt-5", false},
		"azure":           {Entry{Name: "azure-openai", Dialect: Chat, BaseURL: "https://x.openai.azure.com/openai/v1"}, "gpt-5", false},
		"vllm":            {Entry{Name: "local", Dialect: Chat, BaseURL: "http://127.0.0.1:8000/v1"}, "qwen3", false},
		"vllm configured": {Entry{Name: "local", Dialect: Chat, BaseURL: "http://127.0.0.1:8000/v1", Batch: &yes}, "qwen3", true},
		"groq":            {Entry{Name: "groq", Dialect: Chat, BaseURL: "https://api.groq.com/openai/v1"}, "llama", true},
		"mistral":         {Entry{Name: "mistral", Dialect: Chat, BaseURL: "https://api.mistral.ai/v1"}, "mistral-large", true},
		"openai moved":    {moved, "gpt-5", false},
		"openai refused":  {refused, "gpt-5", false},
		"one model refused": {
			Entry{Name: "openai", Dialect: Responses, BaseURL: "https://api.openai.com/v1", Models: []Rule{{Models: []string{"gpt-4"}, Facts: Facts{Batch: &no}}}},
			"gpt-4o", false,
		},
		"the others": {
			Entry{Name: "openai", Dialect: Responses, BaseURL: "https://api.openai.com/v1", Models: []Rule{{Models: []string{"gpt-4"}, Facts: Facts{Batch: &no}}}},
			"gpt-5", true,
		},
	} {
		capabilities := test.entry.Capabilities(test.model)
		if capabilities.Batch != test.want {
			t.Errorf("%s: got %v, want %v", name, capabilities.Batch, test.want)
		}
		if test.entry.BaseURL == "" { // only a process gives it one
			test.entry.BaseURL = "http://127.0.0.1:1/v1"
		}
		provider, err := test.entry.Open(http.DefaultClient, Credentials{})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := provider.(providers.Batches); capabilities.Batch && !ok {
			t.Errorf("%s: %T has no batches", name, provider)
		}
	}
	provider, err := ollama.Open(http.DefaultClient, Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := provider.(providers.Batches); ok {
		t.Error("ollama has no batches, whatever is configured")
	}
}
