package catalog

import "testing"

// TestOtherAddress: the path of a request is never that of an endpoint, and a version too much
// or too little rarely.
func TestOtherAddress(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		dialect, address, want string
		certain                bool
	}{
		{Chat, "http://h:8000/v1", "", false},
		{Chat, "http://h:8000/v1/", "", false},
		{Chat, "http://h:8000", "http://h:8000/v1", false},
		{Chat, "http://h:8000/", "http://h:8000/v1", false},
		{Chat, "https://api.z.ai/api/paas/v4", "", false},
		{Chat, "https://h/openai/deployments/gpt", "", false},
		{Chat, "http://h:8000/v1/chat/completions", "http://h:8000/v1", true},
		{Chat, "http://h:8000/v1/chat/completions/", "http://h:8000/v1", true},
		{Chat, "http://h:8000/v1/completions", "http://h:8000/v1", true},
		{Chat, "https://api.deepseek.com", "", false},
		{Chat, "https://r.openai.azure.com", "https://r.openai.azure.com/openai/v1", false},
		{Responses, "https://h/v1/responses", "https://h/v1", true},
		{Responses, "https://h", "https://h/v1", false},
		{Messages, "https://h", "", false},
		{Messages, "https://h/anthropic", "", false},
		{Messages, "https://h/v1", "https://h", false},
		{Messages, "https://h/anthropic/v1/messages", "https://h/anthropic", true},
		{Generate, "https://h/v1beta", "https://h", false},
		{Generate, "https://h/v1beta/models/gemini-3-flash:generateContent", "https://h", true},
		{Ollama, "http://h:11434", "", false},
		{Ollama, "http://h:11434/api", "http://h:11434", false},
		{Ollama, "http://h:11434/v1", "http://h:11434", false},
		{Ollama, "http://h:11434/api/chat", "http://h:11434", true},
		{Test, "", "", false},
	} {
		got, certain := Entry{Dialect: test.dialect, BaseURL: test.address}.OtherAddress()
		if got != test.want || certain != test.certain {
			t.Errorf("%s at %s: got %q, certain: %v; want %q, %v", test.dialect, test.address, got, certain, test.want, test.certain)
		}
	}
}
