package messages

import (
	"encoding/json"
	"io"
	"net/http"
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
	url, client := providertest.Serve(t, handler)
	provider, err := New(Config{BaseURL: url, HTTPClient: client, Capabilities: func(string) providers.Capabilities { return caps }})
	if err != nil {
		t.Fatal(err)
	}
	return provider
}

func request() *providers.Request {
	return &providers.Request{
		Key:      "sk-ant-secret-key",
		Model:    "claude-sonnet-4-6",
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
// https://platform.claude.com/docs/en/api/messages; thinking as in
// https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking and
// …/extended-thinking, the effort as in …/effort, the schema as in
// …/structured-outputs, and the search as in
// https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool.
func TestRequestOnTheWire(t *testing.T) {
	t.Parallel()
	const (
		messages = `"messages":[{"role":"user","content":"a or b?"}],"model":"claude-sonnet-4-6"`
		start    = `{"max_tokens":4096,` + messages
		system   = `"system":"judge"`
	)
	schema := &providers.Schema{Name: "verdict", Schema: json.RawMessage(`{"type":"object"}`)}
	adaptive := providers.Capabilities{Reasoning: providers.ReasoningAdaptive, Efforts: []string{"none", "low", "medium", "high", "max"}}
	budget := providers.Capabilities{Reasoning: providers.ReasoningBudget, MaxOutput: 64000, Sampling: providers.SamplingWithoutReasoning}
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
		{"plain", providers.Capabilities{}, request(), start + `,` + system + `}`, nil},
		{
			"what the provider should keep ends with a mark", providers.Capabilities{PromptCache: providers.PromptCacheMarks},
			with(func(r *providers.Request) {
				r.Prefixes = []providers.Prefix{{Offset: 5, Keep: true}, {Message: 1, Offset: 1}, {Message: 1, Offset: 5, Keep: true}}
			}),
			`{"max_tokens":4096,"messages":[{"content":[{"cache_control":{"type":"ephemeral"},"text":"a or ","type":"text"},{"text":"b?","type":"text"}],"role":"user"}],` +
				`"model":"claude-sonnet-4-6","system":[{"cache_control":{"type":"ephemeral"},"text":"judge","type":"text"}]}`, nil,
		},
		{
			"images, and a beginning to keep that ends with one", providers.Capabilities{PromptCache: providers.PromptCacheMarks},
			with(func(r *providers.Request) {
				r.Messages = []providers.Message{{Role: providers.User, Content: "a or b?", Images: []providers.Image{
					{Offset: 2, Type: providers.PNG, Data: "AA=="}, {Offset: 7, URL: "https://h/i.png", Detail: "low"},
				}}}
				r.Prefixes = []providers.Prefix{{Offset: 2, Keep: true}}
			}),
			`{"max_tokens":4096,"messages":[{"content":[{"text":"a ","type":"text"},` +
				`{"cache_control":{"type":"ephemeral"},"source":{"data":"AA==","media_type":"image/png","type":"base64"},"type":"image"},` +
				`{"text":"or b?","type":"text"},{"source":{"type":"url","url":"https://h/i.png"},"type":"image"}],"role":"user"}],"model":"claude-sonnet-4-6"}`, nil,
		},
		{
			"a request that says itself what to cache", providers.Capabilities{PromptCache: providers.PromptCacheMarks},
			with(func(r *providers.Request) {
				r.Prefixes = []providers.Prefix{{Message: 1, Offset: 5, Keep: true}}
				r.Extra = map[string]any{"cache_control": map[string]any{"type": "ephemeral"}}
			}),
			`{"cache_control":{"type":"ephemeral"},"max_tokens":4096,` + messages + `,` + system + `}`, nil,
		},
		{
			"an endpoint without marks", providers.Capabilities{},
			with(func(r *providers.Request) {
				r.Prefixes, r.CacheKey = []providers.Prefix{{Message: 1, Offset: 5, Keep: true}}, "k"
			}),
			start + `,` + system + `}`, nil,
		},
		{"the model's own bound", budget, request(), `{"max_tokens":64000,` + messages + `,` + system + `}`, nil},
		{
			"several turns, and none of the system",
			providers.Capabilities{},
			with(func(r *providers.Request) {
				r.Messages = []providers.Message{{Role: providers.User, Content: "a?"}, {Role: providers.Assistant, Content: "c"}, {Role: providers.User, Content: "b?"}}
			}),
			`{"max_tokens":4096,"messages":[{"role":"user","content":"a?"},{"role":"assistant","content":"c"},{"role":"user","content":"b?"}],"model":"claude-sonnet-4-6"}`,
			nil,
		},
		{
			"everything",
			providers.Capabilities{Reasoning: providers.ReasoningAdaptive},
			with(func(r *providers.Request) {
				r.Schema, r.MaxOutputTokens, r.Temperature, r.ReasoningEffort, r.Reason = schema, 500, set(0.0), "low", true
				r.Extra = map[string]any{
					"top_k": 7, "stream": true, "model": "another", "temperature": 0.7,
					"output_config": map[string]any{"task_budget": 9, "effort": "max"},
				}
			}),
			`{"max_tokens":500,` + messages + `,"output_config":{"effort":"low","format":{"schema":{"type":"object"},"type":"json_schema"},"task_budget":9},` +
				system + `,"thinking":{"display":"summarized","type":"adaptive"},"top_k":7}`,
			[]string{"temperature"},
		},
		{
			"a search",
			providers.Capabilities{Search: "web_search_20250305"},
			with(func(r *providers.Request) { r.Search = true }),
			start + `,` + system + `,"tools":[{"name":"web_search","type":"web_search_20250305"}]}`,
			nil,
		},
		{
			"no more searches than are reserved",
			providers.Capabilities{Search: "web_search_20250305"},
			with(func(r *providers.Request) { r.Search, r.BoundSearches = true, true }),
			start + `,` + system + `,"tools":[{"max_uses":5,"name":"web_search","type":"web_search_20250305"}]}`,
			nil,
		},
		{"any JSON, for which there is only the prompt", providers.Capabilities{JSON: providers.JSONObject}, with(func(r *providers.Request) { r.Schema = schema }), start + `,` + system + `}`, nil},
		{"a temperature", budget, with(func(r *providers.Request) { r.MaxOutputTokens, r.Temperature = 4096, set(0.5) }), start + `,` + system + `,"temperature":0.5}`, nil},
		{
			"no temperature",
			providers.Capabilities{Sampling: providers.SamplingNever},
			with(func(r *providers.Request) { r.Temperature, r.Extra = set(0.5), map[string]any{"temperature": 0.7} }),
			start + `,` + system + `}`,
			[]string{"temperature"},
		},

		{"an effort", adaptive, effort("max"), start + `,"output_config":{"effort":"max"},` + system + `,"thinking":{"type":"adaptive"}}`, nil},
		{"as much thinking as it likes, shown", adaptive, reason, start + `,` + system + `,"thinking":{"display":"summarized","type":"adaptive"}}`, nil},
		{"no thinking", adaptive, effort("none"), start + `,` + system + `,"thinking":{"type":"disabled"}}`, nil},
		{"an effort that it does not take", adaptive, effort("xhigh"), start + `,` + system + `}`, []string{"reasoning_effort"}},
		{"an effort that the dialect does not have", providers.Capabilities{}, effort("minimal"), start + `,` + system + `}`, []string{"reasoning_effort"}},
		{
			"an effort that it does not take, and thinking that shows",
			adaptive,
			with(func(r *providers.Request) { r.ReasoningEffort, r.Reason = "xhigh", true }),
			start + `,` + system + `,"thinking":{"display":"summarized","type":"adaptive"}}`,
			[]string{"reasoning_effort"},
		},
		{"an unknown model is to think", providers.Capabilities{}, effort("high"), start + `,"output_config":{"effort":"high"},` + system + `,"thinking":{"type":"adaptive"}}`, nil},
		{"one that does not think", providers.Capabilities{Reasoning: providers.ReasoningNone}, with(func(r *providers.Request) { r.Reason, r.ReasoningEffort = true, "low" }), start + `,` + system + `}`, []string{"reasoning_effort"}},

		{"a budget", budget, effort("high"), `{"max_tokens":64000,` + messages + `,` + system + `,"thinking":{"budget_tokens":16384,"type":"enabled"}}`, nil},
		{"a budget for thinking that shows", budget, reason, `{"max_tokens":64000,` + messages + `,` + system + `,"thinking":{"budget_tokens":8192,"type":"enabled"}}`, nil},
		{"no budget", budget, effort("none"), `{"max_tokens":64000,` + messages + `,` + system + `,"thinking":{"type":"disabled"}}`, nil},
		{
			"a budget that it does not take, and thinking that shows",
			providers.Capabilities{Reasoning: providers.ReasoningBudget, Efforts: []string{"low"}},
			with(func(r *providers.Request) { r.ReasoningEffort, r.Reason = "max", true }),
			start + `,` + system + `,"thinking":{"budget_tokens":3276,"type":"enabled"}}`,
			[]string{"reasoning_effort"},
		},
		{
			"a budget that leaves room for an answer, and no temperature beside it",
			budget,
			with(func(r *providers.Request) {
				r.MaxOutputTokens, r.ReasoningEffort, r.Temperature = 4096, "high", set(0.5)
			}),
			start + `,` + system + `,"thinking":{"budget_tokens":3276,"type":"enabled"}}`,
			[]string{"temperature"},
		},
		{
			"no room for a budget",
			budget,
			with(func(r *providers.Request) { r.MaxOutputTokens, r.ReasoningEffort = 1279, "minimal" }),
			`{"max_tokens":1279,` + messages + `,` + system + `}`,
			[]string{"reasoning_effort"},
		},
		{
			"the least budget",
			budget,
			with(func(r *providers.Request) { r.MaxOutputTokens, r.ReasoningEffort = 1280, "minimal" }),
			`{"max_tokens":1280,` + messages + `,` + system + `,"thinking":{"budget_tokens":1024,"type":"enabled"}}`,
			nil,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var body, uri string
			var header http.Header
			provider := endpoint(t, test.caps, func(w http.ResponseWriter, r *http.Request) {
				raw, _ := io.ReadAll(r.Body)
				body, uri, header = string(raw), r.Method+" "+r.RequestURI, r.Header
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
			if uri != "POST /v1/messages" || header.Get("X-Api-Key") != "sk-ant-secret-key" || header.Get("Anthropic-Version") != "2023-06-01" || header.Get("Authorization") != "" {
				t.Errorf("got %s with %v", uri, header)
			}
		})
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
		"a broken key":                {providers.Capabilities{}, with(func(r *providers.Request) { r.Key = "sk-ant\n" }), providers.Auth},
		"no JSON":                     {providers.Capabilities{}, with(func(r *providers.Request) { r.Extra = map[string]any{"f": func() {}} }), providers.BadRequest},
		"a search that there is none": {providers.Capabilities{}, with(func(r *providers.Request) { r.Search = true }), providers.BadRequest},
		"a schema beside the search":  {providers.Capabilities{Search: "web_search_20250305"}, with(func(r *providers.Request) { r.Search, r.Schema = true, schema }), providers.BadRequest},
	} {
		provider := endpoint(t, test.caps, func(http.ResponseWriter, *http.Request) { t.Errorf("%s: a request was sent", name) })
		if _, err := provider.Call(t.Context(), test.req); providers.ClassOf(err) != test.want {
			t.Errorf("%s: got %v, want class %s", name, err, test.want)
		}
	}
}

func TestAModelWithoutSchemasIsLearnt(t *testing.T) {
	t.Parallel()
	var asked []bool
	provider := endpoint(t, providers.Capabilities{}, func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Output *json.RawMessage `json:"output_config"`
		}
		_ = json.NewDecoder(r.Body).Decode(&body) // what is missing is seen as such
		asked = append(asked, body.Output != nil)
		if body.Output != nil {
			w.WriteHeader(http.StatusBadRequest)
			// https://github.com/anthropics/anthropic-sdk-csharp/issues/132
			_, _ = io.WriteString(w, `{"type":"error","error":{"type":"invalid_request_error","message":"output_config: Extra inputs are not permitted"},"request_id":"req_1"}`)
			return
		}
		_, _ = io.WriteString(w, good)
	})
	req := with(func(r *providers.Request) {
		r.Schema = &providers.Schema{Name: "verdict", Schema: json.RawMessage(`{}`)}
	})
	var err error
	for range 2 {
		_, err = provider.Call(t.Context(), req)
	}
	if diff := cmp.Diff([]bool{true, false}, asked); diff != "" || err != nil {
		t.Errorf("asked (-want +got):\n%s, at last %v", diff, err)
	}
}

func TestNewRefusesBadConfig(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{HTTPClient: http.DefaultClient}); err == nil {
		t.Error("New without a base URL: got no error")
	}
}
