package catalog

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// sent is what of a request depends on the provider rather than on the model.
type sent struct {
	Path      string
	KeyHeader string
	Fields    []string // of the body, sorted
}

// What each provider is sent, whatever its address is: the path of its dialect, its
// key in its header, and the fields of its own.
func TestOpen(t *testing.T) {
	t.Parallel()
	const model = "m"
	for name, want := range map[string]sent{
		"openai-chat":  {"/chat/completions", "Authorization: Bearer k", []string{"max_completion_tokens", "messages", "model", "reasoning_effort"}},
		"azure-openai": {"/chat/completions", "Api-Key: k", []string{"max_completion_tokens", "messages", "model", "reasoning_effort"}},
		"openrouter":   {"/chat/completions", "Authorization: Bearer k", []string{"max_tokens", "messages", "model", "reasoning"}},
		"openai":       {"/responses", "Authorization: Bearer k", []string{"input", "max_output_tokens", "model", "reasoning", "store", "truncation"}},
		"openaidp":     {"/responses", "Authorization: Bearer k", []string{"input", "max_output_tokens", "model", "reasoning", "store", "truncation"}},
		"anthropic":    {"/v1/messages", "X-Api-Key: k", []string{"max_tokens", "messages", "model", "output_config", "thinking"}},
		"google":       {"/v1beta/models/m:generateContent", "X-Goog-Api-Key: k", []string{"contents", "generationConfig"}},
		"ollama":       {"/api/chat", "Authorization: Bearer k", []string{"messages", "model", "options", "shift", "stream", "think", "truncate"}},
		"simulator":    {"/chat/completions", "Authorization: Bearer k", []string{"max_tokens", "messages", "model", "reasoning_effort"}},
		"mine":         {"/chat/completions", "Authorization: Bearer k", []string{"max_tokens", "messages", "model", "reasoning_effort"}},
		"azure-2":      {"/responses", "Api-Key: k", []string{"input", "max_output_tokens", "model", "reasoning", "store", "truncation"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entry, ok := BuiltIn()[name]
			if !ok {
				entry = Entry{Name: name, Dialect: Chat}
			}
			if name == "azure-2" {
				entry.Like, entry.Dialect = "azure-openai", Responses
			}
			var got sent
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got = read(t, r)
				w.WriteHeader(http.StatusTeapot)
			}))
			t.Cleanup(server.Close)
			client := transport.NewClient(transport.Connections{Slots: 1})
			t.Cleanup(client.CloseIdleConnections)
			entry.BaseURL = server.URL
			provider, err := entry.Open(client, Credentials{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = provider.Call(t.Context(), &providers.Request{
				Key: "k", Model: model, Messages: []providers.Message{{Role: providers.User, Content: "?"}},
				MaxOutputTokens: 100, ReasoningEffort: "low",
			})
			if err == nil {
				t.Error("an answer with status 418 is taken for a good one")
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("sent (-want +got):\n%s", diff)
			}
		})
	}
}

// read takes a request apart; its key is "k".
func read(t *testing.T, r *http.Request) sent {
	s := sent{Path: r.URL.Path}
	for name, values := range r.Header {
		for _, value := range values {
			if value == "k" || strings.HasSuffix(value, " k") {
				s.KeyHeader += name + ": " + value
			}
		}
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	var body map[string]any
	if err := json.Unmarshal(raw, &body); err != nil {
		t.Errorf("%s: %v", raw, err)
	}
	for field := range body {
		s.Fields = append(s.Fields, field)
	}
	slices.Sort(s.Fields)
	return s
}

// Every built-in provider can be opened, and names the variable of its key.
func TestBuiltIn(t *testing.T) {
	t.Parallel()
	client := transport.NewClient(transport.Connections{Slots: 1})
	for name, e := range BuiltIn() {
		if name != e.Name || Canonical(name) != name {
			t.Errorf("%s is called %s and %s", name, e.Name, Canonical(name))
		}
		if e.Addressed() != (name != "azure-openai") {
			t.Errorf("%s: addressed is %v", name, e.Addressed())
		}
		e.BaseURL = cmp.Or(e.BaseURL, "http://127.0.0.1:1")
		provider, err := e.Open(client, Credentials{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, ok := provider.(providers.Background); ok != (e.Dialect == Responses) {
			t.Errorf("%s makes calls in the background: %v", name, ok)
		}
	}
	for name := range peculiarities {
		if _, ok := BuiltIn()[name]; !ok {
			t.Errorf("%s has peculiarities and is no provider", name)
		}
	}
	if _, err := (Entry{Name: "x", Dialect: "telex", BaseURL: "http://h"}).Open(client, Credentials{}); err == nil {
		t.Error("a dialect that does not exist is spoken")
	}
}

// An entry comes back from resume.json as it went in.
func TestEntryAsJSON(t *testing.T) {
	t.Parallel()
	no := false
	want := Entry{
		Name: "second", Like: "openai", Dialect: Responses, BaseURL: "http://h/v1", KeyEnv: "K", JSON: "object", Charges: Used,
		Models: []Rule{{Models: []string{"gpt-"}, Facts: Facts{
			JSON: "auto", JSONWithSearch: &no, Search: NoSearch, Reasoning: "effort", Efforts: []string{"low"}, Sampling: "always", ContextWindow: 10, MaxOutput: 1,
		}}},
	}
	raw, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Entry
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestKey(t *testing.T) {
	t.Parallel()
	env := func(name string) (string, bool) {
		return map[string]string{"OPENROUTER_API_KEY": "k", "OPENAI_API_KEY": ""}[name], name != "AZURE_OPENAI_API_KEY"
	}
	for name, want := range map[string]string{"openrouter": "k", "openai-chat": "", "azure-openai": "", "simulator": ""} {
		e := BuiltIn()[name]
		credentials, err := e.Credentials(env)
		if key := credentials.Key; key != want {
			t.Errorf("%s: got %q, want %q", name, key, want)
		}
		if missing := want == "" && e.KeyEnv != ""; (err != nil) != missing ||
			missing && (providers.ClassOf(err) != providers.Auth || !strings.Contains(err.Error(), e.KeyEnv)) {
			t.Errorf("%s: got %v; want class auth and the variable's name: %v", name, err, missing)
		}
	}
}

func TestChargesReserved(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		entry Entry
		want  bool
	}{
		{BuiltIn()["openai-chat"], true},
		{BuiltIn()["openrouter"], false},
		{Entry{BaseURL: "https://mine.OPENAI.azure.com/openai/v1"}, true},
		{Entry{BaseURL: "https://mine.services.ai.azure.com/openai/v1"}, true},
		{Entry{BaseURL: "https://notopenai.azure.com.example/v1"}, false},
		{Entry{BaseURL: "https://api.openai.com/v1", Charges: Used}, false},
		{Entry{BaseURL: "http://127.0.0.1:1/v1", Charges: Reserved}, true},
	} {
		if got := test.entry.ChargesReserved(); got != test.want {
			t.Errorf("%+v: got %v, want %v", test.entry, got, test.want)
		}
	}
}
