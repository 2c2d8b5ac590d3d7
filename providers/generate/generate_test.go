package generate

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/evalfleet/evalfleet/internal/testing/providertest"
	"github.com/evalfleet/evalfleet/providers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// endpoint is a Provider for a server with the given handler.
func endpoint(t testing.TB, caps providers.Capabilities, handler http.HandlerFunc) *Provider {
	t.Helper()
	return knowing(t, func(string) providers.Capabilities { return caps }, handler)
}

func knowing(t testing.TB, caps providers.CapabilitiesOf, handler http.HandlerFunc) *Provider {
	t.Helper()
	url, client := providertest.Serve(t, handler)
	provider, err := New(Config{BaseURL: url, HTTPClient: client, Capabilities: caps})
	if err != nil {
		t.Fatal(err)
	}
	return provider
}

func request() *providers.Request {
	return &providers.Request{
		Key:      "AIza-secret-key",
		Model:    "gemini-2.5-flash",
		Messages: []providers.Message{{Role: providers.System, Content: "judge"}, {Role: providers.User, Content: "a or b?"}},
	}
}

// with is request, changed.
func with(change func(*providers.Request)) *providers.Request {
	req := request()
	change(req)
	return req
}

func set[T any](v T) *T { return &v }

// TestRequestOnTheWire holds whole bodies. The fields are those of
// https://ai.google.dev/api/generate-content; thinkingConfig as in
// https://ai.google.dev/gemini-api/docs/thinking, its budgets for the words as in
// https://ai.google.dev/gemini-api/docs/openai#thinking; the search as in
// https://ai.google.dev/gemini-api/docs/google-search.
func TestRequestOnTheWire(t *testing.T) {
	t.Parallel()
	const (
		contents = `"contents":[{"parts":[{"text":"a or b?"}],"role":"user"}]`
		system   = `"systemInstruction":{"parts":[{"text":"judge"}]}`
	)
	schema := &providers.Schema{Name: "verdict", Schema: json.RawMessage(`{"type":"object"}`)}
	budget := providers.Capabilities{Reasoning: providers.ReasoningBudget}
	level := providers.Capabilities{Reasoning: providers.ReasoningLevel, Efforts: []string{"low", "medium", "high"}}
	effort := func(effort string) *providers.Request {
		return with(func(r *providers.Request) { r.ReasoningEffort = effort })
	}
	reason := with(func(r *providers.Request) { r.Reason = true })
	for _, test := range []struct {
		name    string
		caps    providers.Capabilities
		req     *providers.Request
		body    string
		dropped []string
	}{
		{"plain", providers.Capabilities{}, request(), `{` + contents + `,` + system + `}`, nil},
		{
			"images", providers.Capabilities{},
			with(func(r *providers.Request) {
				r.Messages = []providers.Message{{Role: providers.User, Content: "a or b?", Images: []providers.Image{
					{Offset: 2, Type: providers.PNG, Data: "AA=="}, {Offset: 7, Type: providers.WebP, Data: "AQ=="},
				}}}
			}),
			`{"contents":[{"parts":[{"text":"a "},{"inlineData":{"data":"AA==","mimeType":"image/png"}},{"text":"or b?"},` +
				`{"inlineData":{"data":"AQ==","mimeType":"image/webp"}}],"role":"user"}]}`,
			nil,
		},
		{
			"log probabilities", providers.Capabilities{}, with(func(r *providers.Request) { r.LogProbs = true }),
			`{` + contents + `,"generationConfig":{"logprobs":20,"responseLogprobs":true},` + system + `}`, nil,
		},
		{
			"several turns, and none of the system",
			providers.Capabilities{},
			with(func(r *providers.Request) {
				r.Messages = []providers.Message{{Role: providers.User, Content: "a or b?"}, {Role: providers.Assistant, Content: "c"}, {Role: providers.User, Content: "a or b!"}}
			}),
			`{"contents":[{"parts":[{"text":"a or b?"}],"role":"user"},{"parts":[{"text":"c"}],"role":"model"},{"parts":[{"text":"a or b!"}],"role":"user"}]}`,
			nil,
		},
		{
			"everything",
			budget,
			with(func(r *providers.Request) {
				r.Schema, r.MaxOutputTokens, r.Temperature, r.ReasoningEffort, r.Reason = schema, 500, set(0.0), "low", true
				r.Extra = map[string]any{
					"safetySettings":   []any{},
					"contents":         "another",
					"generationConfig": map[string]any{"seed": 7, "maxOutputTokens": 9},
				}
			}),
			`{` + contents + `,"generationConfig":{"maxOutputTokens":500,"responseJsonSchema":{"type":"object"},"responseMimeType":"application/json","seed":7,"temperature":0,` +
				`"thinkingConfig":{"includeThoughts":true,"thinkingBudget":1024}},"safetySettings":[],` + system + `}`,
			nil,
		},
		{
			"a search",
			providers.Capabilities{Search: "googleSearch"},
			with(func(r *providers.Request) { r.Search = true }),
			`{` + contents + `,` + system + `,"tools":[{"googleSearch":{}}]}`,
			nil,
		},
		{
			// As recorded: pydantic-ai, tests/models/google/cassettes/test_structured_output/test_native_output_with_builtin_tools.yaml
			"a search and a schema, for a model that takes both",
			providers.Capabilities{Search: "googleSearch", JSON: providers.JSONSchema, JSONWithSearch: true},
			with(func(r *providers.Request) { r.Search, r.Schema = true, schema }),
			`{` + contents + `,"generationConfig":{"responseJsonSchema":{"type":"object"},"responseMimeType":"application/json"},` + system + `,"toolConfig":{"includeServerSideToolInvocations":true},"tools":[{"googleSearch":{}}]}`,
			nil,
		},
		{
			"the same, with more about tools",
			providers.Capabilities{Search: "googleSearch", JSON: providers.JSONObject, JSONWithSearch: true},
			with(func(r *providers.Request) {
				r.Search, r.Schema = true, schema
				r.Extra = map[string]any{"toolConfig": map[string]any{"retrievalConfig": map[string]any{"languageCode": "de"}}}
			}),
			`{` + contents + `,"generationConfig":{"responseMimeType":"application/json"},` + system + `,"toolConfig":{"includeServerSideToolInvocations":true,"retrievalConfig":{"languageCode":"de"}},"tools":[{"googleSearch":{}}]}`,
			nil,
		},
		{"any JSON", providers.Capabilities{JSON: providers.JSONObject}, with(func(r *providers.Request) { r.Schema = schema }), `{` + contents + `,"generationConfig":{"responseMimeType":"application/json"},` + system + `}`, nil},
		{"JSON by the prompt alone", providers.Capabilities{JSON: providers.JSONNone}, with(func(r *providers.Request) { r.Schema = schema }), `{` + contents + `,` + system + `}`, nil},
		{
			"no temperature",
			providers.Capabilities{Sampling: providers.SamplingNever},
			with(func(r *providers.Request) {
				r.Temperature = set(0.5)
				r.Extra = map[string]any{"generationConfig": map[string]any{"temperature": 0.7}}
			}),
			`{` + contents + `,` + system + `}`,
			[]string{"temperature"},
		},
		{
			"a temperature, of one that takes it when it does not think",
			providers.Capabilities{Reasoning: providers.ReasoningBudget, Sampling: providers.SamplingWithoutReasoning},
			with(func(r *providers.Request) { r.Temperature, r.ReasoningEffort = set(0.5), "none" }),
			`{` + contents + `,"generationConfig":{"temperature":0.5,"thinkingConfig":{"thinkingBudget":0}},` + system + `}`,
			nil,
		},

		{"no thinking", budget, effort("none"), `{` + contents + `,"generationConfig":{"thinkingConfig":{"thinkingBudget":0}},` + system + `}`, nil},
		{"no thinking, of one that always thinks", providers.Capabilities{Reasoning: providers.ReasoningBudget, Efforts: []string{"low", "high"}}, effort("none"), `{` + contents + `,` + system + `}`, []string{"reasoning_effort"}},
		{
			"no thinking, shown, of one that always thinks",
			providers.Capabilities{Reasoning: providers.ReasoningBudget, Efforts: []string{"low", "high"}},
			with(func(r *providers.Request) { r.ReasoningEffort, r.Reason = "none", true }),
			`{` + contents + `,"generationConfig":{"thinkingConfig":{"includeThoughts":true,"thinkingBudget":-1}},` + system + `}`,
			[]string{"reasoning_effort"},
		},
		{"much thinking", budget, effort("max"), `{` + contents + `,"generationConfig":{"thinkingConfig":{"thinkingBudget":24576}},` + system + `}`, nil},
		{"as much thinking as it likes, shown", budget, reason, `{` + contents + `,"generationConfig":{"thinkingConfig":{"includeThoughts":true,"thinkingBudget":-1}},` + system + `}`, nil},
		{"an unknown model is to think", providers.Capabilities{}, effort("high"), `{` + contents + `,"generationConfig":{"thinkingConfig":{"thinkingBudget":24576}},` + system + `}`, nil},
		{"a level", level, effort("high"), `{` + contents + `,"generationConfig":{"thinkingConfig":{"thinkingLevel":"HIGH"}},` + system + `}`, nil},
		{"no level of ours, shown", level, reason, `{` + contents + `,"generationConfig":{"thinkingConfig":{"includeThoughts":true}},` + system + `}`, nil},
		{"a level that it does not take", level, effort("minimal"), `{` + contents + `,` + system + `}`, []string{"reasoning_effort"}},
		{"an effort without a level", providers.Capabilities{Reasoning: providers.ReasoningLevel}, effort("max"), `{` + contents + `,` + system + `}`, []string{"reasoning_effort"}},
		{"one that does not think", providers.Capabilities{Reasoning: providers.ReasoningNone}, with(func(r *providers.Request) { r.Reason, r.ReasoningEffort = true, "low" }), `{` + contents + `,` + system + `}`, []string{"reasoning_effort"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var body string
			provider := endpoint(t, test.caps, func(w http.ResponseWriter, r *http.Request) {
				raw, _ := io.ReadAll(r.Body)
				body = string(raw)
				_, _ = io.WriteString(w, good)
			})
			result, err := provider.Call(t.Context(), test.req)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.body, body); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.dropped, result.Dropped); diff != "" {
				t.Errorf("dropped (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhereRequestsGo(t *testing.T) {
	t.Parallel()
	for model, want := range map[string]string{
		"gemini-2.5-flash":        "/v1beta/models/gemini-2.5-flash:generateContent",
		"models/gemini-2.5-flash": "/v1beta/models/gemini-2.5-flash:generateContent",
		"../a b/?c=d":             "/v1beta/models/..%2Fa%20b%2F%3Fc=d:generateContent",
	} {
		var uri string
		var header http.Header
		provider := knowing(t, func(model string) providers.Capabilities {
			if strings.HasPrefix(model, "models/") {
				t.Errorf("capabilities of %q were asked for, want the name alone", model)
			}
			return providers.Capabilities{}
		}, func(w http.ResponseWriter, r *http.Request) {
			uri, header = r.Method+" "+r.RequestURI, r.Header
			_, _ = io.WriteString(w, good)
		})
		if _, err := provider.Call(t.Context(), with(func(r *providers.Request) { r.Model = model })); err != nil {
			t.Fatal(err)
		}
		if uri != "POST "+want {
			t.Errorf("model %q: got %s, want POST %s", model, uri, want)
		}
		if got := header.Get("X-Goog-Api-Key"); got != "AIza-secret-key" || header.Get("Authorization") != "" {
			t.Errorf("headers: got %v, want the key in Google's own", header)
		}
	}
}

func TestRequestsThatAreNotSent(t *testing.T) {
	t.Parallel()
	schema := &providers.Schema{Name: "verdict", Schema: json.RawMessage(`{}`)}
	for name, test := range map[string]struct {
		caps providers.Capabilities
		req  *providers.Request
		want providers.Class
	}{
		"a broken key":                {providers.Capabilities{}, with(func(r *providers.Request) { r.Key = "AIza\n" }), providers.Auth},
		"no JSON":                     {providers.Capabilities{}, with(func(r *providers.Request) { r.Extra = map[string]any{"f": func() {}} }), providers.BadRequest},
		"a search that there is none": {providers.Capabilities{}, with(func(r *providers.Request) { r.Search = true }), providers.BadRequest},
		"a schema beside the search":  {providers.Capabilities{Search: "googleSearch"}, with(func(r *providers.Request) { r.Search, r.Schema = true, schema }), providers.BadRequest},
	} {
		provider := endpoint(t, test.caps, func(http.ResponseWriter, *http.Request) { t.Errorf("%s: a request was sent", name) })
		if _, err := provider.Call(t.Context(), test.req); providers.ClassOf(err) != test.want {
			t.Errorf("%s: got %v, want class %s", name, err, test.want)
		}
	}
}

func TestAModelWithoutSchemasIsLearnt(t *testing.T) {
	t.Parallel()
	var modes []string
	provider := endpoint(t, providers.Capabilities{}, func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Config struct {
				Mode string `json:"responseMimeType"`
			} `json:"generationConfig"`
		}
		_ = json.NewDecoder(r.Body).Decode(&body) // what is missing is seen as such
		modes = append(modes, body.Config.Mode)
		if body.Config.Mode != "" {
			w.WriteHeader(http.StatusBadRequest)
			// What Gemma's models say: https://github.com/FirebaseExtended/compass-ai-travel-planning-sample-flutter/pull/40
			_, _ = io.WriteString(w, `{"error":{"code":400,"message":"JSON mode is not enabled for models/gemma-3-27b-it","status":"INVALID_ARGUMENT"}}`)
			return
		}
		_, _ = io.WriteString(w, good)
	})
	req := with(func(r *providers.Request) {
		r.Schema = &providers.Schema{Name: "verdict", Schema: json.RawMessage(`{}`)}
	})
	var err error
	for range 3 {
		_, err = provider.Call(t.Context(), req)
	}
	if diff := cmp.Diff([]string{"application/json", "application/json", ""}, modes); diff != "" || err != nil {
		t.Errorf("asked (-want +got):\n%s, at last %v", diff, err)
	}
}

func TestNewRefusesBadConfig(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{HTTPClient: http.DefaultClient}); err == nil {
		t.Error("New without a base URL: got no error")
	}
}
