package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/evalfleet/evalfleet/internal/testing/providertest"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// endpoint is a Provider for a server with the given handler.
func endpoint(t testing.TB, config Config, handler http.HandlerFunc) *Provider {
	t.Helper()
	url, client := providertest.Serve(t, handler)
	config.BaseURL, config.HTTPClient = url+"/v1", client
	provider, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return provider
}

func request() *providers.Request {
	return &providers.Request{
		Key:      "sk-secret-key",
		Model:    "m1",
		Messages: []providers.Message{{Role: providers.System, Content: "judge"}, {Role: providers.User, Content: "a or b?"}},
	}
}

func TestRequestOnTheWire(t *testing.T) {
	t.Parallel()
	temperature := 0.0
	full := request()
	full.Schema = &providers.Schema{Name: "verdict", Schema: json.RawMessage(`{"type":"object"}`)}
	full.MaxOutputTokens, full.Temperature, full.ReasoningEffort, full.IdempotencyID = 500, &temperature, "low", "0.17.0-w1-1"
	full.Extra = map[string]any{"seed": 7, "stream": true, "model": "another"}
	const messages = `"messages":[{"role":"system","content":"judge"},{"role":"user","content":"a or b?"}],`
	const schema = `"response_format":{"json_schema":{"name":"verdict","schema":{"type":"object"},"strict":true},"type":"json_schema"}`
	keyless := request()
	keyless.Key = ""
	kept := request()
	kept.CacheKey, kept.Prefixes = "k", []providers.Prefix{{Message: 1, Offset: 5, Keep: true}}
	caches := func(way providers.PromptCache) Config {
		return Config{Config: transport.Config{Capabilities: func(string) providers.Capabilities { return providers.Capabilities{PromptCache: way} }}}
	}
	pictured := request()
	pictured.Messages = []providers.Message{{Role: providers.User, Content: "a or b?", Images: []providers.Image{
		{Offset: 2, Type: providers.PNG, Data: "AA=="}, {Offset: 7, URL: "https://h/i.png", Detail: "low"},
	}}}
	told := request()
	told.CacheKey, told.Prefixes = kept.CacheKey, kept.Prefixes
	told.Extra = map[string]any{"prompt_cache_key": "own", "prompt_cache_options": map[string]any{"mode": "implicit"}}
	likely, fewer := request(), request()
	likely.LogProbs, fewer.LogProbs = true, true
	fewer.Extra = map[string]any{"logprobs": false, "top_logprobs": 5}
	none := request()
	none.Prefixes = []providers.Prefix{}
	for _, test := range []struct {
		name                string
		config              Config
		req                 *providers.Request
		body, authorization string
	}{
		{"plain, without a key", Config{}, keyless, `{` + messages + `"model":"m1"}`, ""},
		{"an unknown endpoint is told nothing about caches", Config{}, kept, `{` + messages + `"model":"m1"}`, "Bearer sk-secret-key"},
		{"a key", caches(providers.PromptCacheKey), kept, `{` + messages + `"model":"m1","prompt_cache_key":"k"}`, "Bearer sk-secret-key"},
		{
			"a breakpoint", caches(providers.PromptCacheBreakpoints), kept,
			`{"messages":[{"role":"system","content":"judge"},{"content":[{"prompt_cache_breakpoint":{"mode":"explicit"},"text":"a or ","type":"text"},` +
				`{"text":"b?","type":"text"}],"role":"user"}],"model":"m1","prompt_cache_key":"k","prompt_cache_options":{"mode":"explicit"}}`, "Bearer sk-secret-key",
		},
		{
			"images", Config{}, pictured,
			`{"messages":[{"content":[{"text":"a ","type":"text"},{"image_url":{"url":"data:image/png;base64,AA=="},"type":"image_url"},` +
				`{"text":"or b?","type":"text"},{"image_url":{"detail":"low","url":"https://h/i.png"},"type":"image_url"}],"role":"user"}],"model":"m1"}`,
			"Bearer sk-secret-key",
		},
		{"log probabilities", Config{}, likely, `{"logprobs":true,` + messages + `"model":"m1","top_logprobs":20}`, "Bearer sk-secret-key"},
		{"of fewer alternatives", Config{}, fewer, `{"logprobs":true,` + messages + `"model":"m1","top_logprobs":5}`, "Bearer sk-secret-key"},
		{
			"nothing to keep, so nothing is written", caches(providers.PromptCacheBreakpoints), none,
			`{` + messages + `"model":"m1","prompt_cache_options":{"mode":"explicit"}}`, "Bearer sk-secret-key",
		},
		{
			"what the user says about caches", caches(providers.PromptCacheBreakpoints), told,
			`{` + messages + `"model":"m1","prompt_cache_key":"own","prompt_cache_options":{"mode":"implicit"}}`, "Bearer sk-secret-key",
		},
		{"nothing is known to repeat", caches(providers.PromptCacheBreakpoints), request(), `{` + messages + `"model":"m1"}`, "Bearer sk-secret-key"},
		{
			"everything", Config{}, full,
			`{"max_tokens":500,` + messages + `"model":"m1","reasoning_effort":"low",` + schema + `,"seed":7,"temperature":0}`, "Bearer sk-secret-key",
		},
		{
			"openai's field, prompt alone", Config{Flavour: Flavour{MaxTokensField: "max_completion_tokens"}, Config: transport.Config{Capabilities: takes(providers.JSONNone)}}, full,
			`{"max_completion_tokens":500,` + messages + `"model":"m1","reasoning_effort":"low","seed":7,"temperature":0}`, "Bearer sk-secret-key",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var body, path string
			var header http.Header
			provider := endpoint(t, test.config, func(w http.ResponseWriter, r *http.Request) {
				raw, _ := io.ReadAll(r.Body)
				body, path, header = string(raw), r.Method+" "+r.URL.Path, r.Header
				_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"b"}}]}`)
			})
			if _, err := provider.Call(t.Context(), test.req); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.body, body); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			if path != "POST /v1/chat/completions" {
				t.Errorf("got %s", path)
			}
			if got := header.Get("Authorization"); got != test.authorization {
				t.Errorf("Authorization: got %q, want %q", got, test.authorization)
			}
			if got := header.Get("X-Client-Request-Id"); got != test.req.IdempotencyID {
				t.Errorf("X-Client-Request-Id: got %q, want %q", got, test.req.IdempotencyID)
			}
		})
	}
}

// TestRequestsByCapabilities holds bodies as the vendors document them for models
// and endpoints that differ.
func TestRequestsByCapabilities(t *testing.T) {
	t.Parallel()
	warm := 0.5
	const head = `{"messages":[{"role":"user","content":"a or b?"}],"model":"m1"`
	const schema = `"response_format":{"json_schema":{"name":"v","schema":{},"strict":true},"type":"json_schema"}`
	reasoning := providers.Capabilities{Reasoning: providers.ReasoningEffort, Efforts: []string{"none", "low", "high"}, Sampling: providers.SamplingWithoutReasoning}
	gateway := Flavour{Effort: EffortObject, Search: SearchTool, RequireParameters: true}
	for _, test := range []struct {
		name    string
		config  Config
		caps    providers.Capabilities
		req     providers.Request
		body    string
		dropped []string
	}{
		// https://developers.openai.com/api/docs/guides/reasoning
		{"a reasoning model", Config{}, reasoning, providers.Request{ReasoningEffort: "low", Temperature: &warm}, head + `,"reasoning_effort":"low"}`, []string{"temperature"}},
		{"by its own default", Config{}, reasoning, providers.Request{Temperature: &warm}, head + `}`, []string{"temperature"}},
		{"told not to reason", Config{}, reasoning, providers.Request{ReasoningEffort: "none", Temperature: &warm}, head + `,"reasoning_effort":"none","temperature":0.5}`, nil},
		{"told to reason", Config{}, reasoning, providers.Request{Reason: true}, head + `,"reasoning_effort":"low"}`, nil},
		{"an effort that it does not take", Config{}, reasoning, providers.Request{ReasoningEffort: "xhigh"}, head + `}`, []string{"reasoning_effort"}},
		{"a temperature that it does not take", Config{}, providers.Capabilities{Sampling: providers.SamplingNever}, providers.Request{Temperature: &warm, Extra: map[string]any{"temperature": 1}}, head + `}`, []string{"temperature"}},
		{"a model that does not reason", Config{}, providers.Capabilities{Reasoning: providers.ReasoningNone, Sampling: providers.SamplingWithoutReasoning}, providers.Request{ReasoningEffort: "low", Reason: true, Temperature: &warm}, head + `,"temperature":0.5}`, []string{"reasoning_effort"}},
		{"an endpoint without efforts", Config{Flavour: Flavour{Effort: EffortAbsent}}, reasoning, providers.Request{ReasoningEffort: "low", Reason: true}, head + `}`, []string{"reasoning_effort"}},
		// https://openrouter.ai/docs/use-cases/reasoning-tokens
		{"an effort in an object", Config{Flavour: gateway}, providers.Capabilities{}, providers.Request{ReasoningEffort: "high"}, head + `,"reasoning":{"effort":"high"}}`, nil},
		{"reasoning switched on", Config{Flavour: gateway}, providers.Capabilities{}, providers.Request{Reason: true}, head + `,"reasoning":{"enabled":true}}`, nil},
		{"reasoning that is not there", Config{Flavour: gateway}, providers.Capabilities{Reasoning: providers.ReasoningNone}, providers.Request{Reason: true}, head + `}`, nil},
		// https://developers.openai.com/api/docs/guides/tools-web-search
		{"search as a field", Config{}, providers.Capabilities{Search: "web_search_options"}, providers.Request{Search: true}, head + `,"web_search_options":{}}`, nil},
		{
			"search as a field with more in it", Config{}, providers.Capabilities{Search: "web_search_options"},
			providers.Request{Search: true, Extra: map[string]any{"web_search_options": map[string]any{"search_context_size": "low"}}},
			head + `,"web_search_options":{"search_context_size":"low"}}`, nil,
		},
		// https://openrouter.ai/docs/guides/features/server-tools/web-search
		{"search as a tool", Config{Flavour: gateway}, providers.Capabilities{Search: "openrouter:web_search"}, providers.Request{Search: true}, head + `,"tools":[{"type":"openrouter:web_search"}]}`, nil},
		// https://openrouter.ai/docs/guides/routing/provider-selection
		{
			"a schema that is routed", Config{Flavour: gateway}, providers.Capabilities{JSON: providers.JSONSchema},
			providers.Request{Schema: &providers.Schema{Name: "v", Schema: json.RawMessage(`{}`)}, Extra: map[string]any{"provider": map[string]any{"order": []string{"x"}}}},
			head + `,"provider":{"order":["x"],"require_parameters":true},` + schema + `}`, nil,
		},
		{
			"both in one", Config{}, providers.Capabilities{Search: "web_search_options", JSONWithSearch: true},
			providers.Request{Search: true, Schema: &providers.Schema{Name: "v", Schema: json.RawMessage(`{}`)}},
			head + `,` + schema + `,"web_search_options":{}}`, nil,
		},
		{
			"a model that takes any object", Config{}, providers.Capabilities{JSON: providers.JSONObject},
			providers.Request{Schema: &providers.Schema{Name: "v"}}, head + `,"response_format":{"type":"json_object"}}`, nil,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var body string
			test.config.Capabilities = func(model string) providers.Capabilities {
				if model != "m1" {
					t.Errorf("asked about %q", model)
				}
				return test.caps
			}
			provider := endpoint(t, test.config, func(w http.ResponseWriter, r *http.Request) {
				raw, _ := io.ReadAll(r.Body)
				body = string(raw)
				_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"b"}}]}`)
			})
			test.req.Model, test.req.Messages = "m1", []providers.Message{{Role: providers.User, Content: "a or b?"}}
			result, err := provider.Call(t.Context(), &test.req)
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

func TestRequestsThatCannotBeSent(t *testing.T) {
	t.Parallel()
	caps := func(model string) providers.Capabilities {
		return providers.Capabilities{Search: map[string]string{"searching": "web_search_options"}[model]}
	}
	for name, test := range map[string]struct {
		change func(*providers.Request)
		want   providers.Class
	}{
		"a broken key":         {func(r *providers.Request) { r.Key = "sk-1\n" }, providers.Auth},
		"what JSON cannot say": {func(r *providers.Request) { r.Extra = map[string]any{"f": func() {}} }, providers.BadRequest},
		"no search":            {func(r *providers.Request) { r.Search = true }, providers.BadRequest},
		"search beside a schema": {func(r *providers.Request) {
			r.Model, r.Search, r.Schema = "searching", true, &providers.Schema{Name: "v"}
		}, providers.BadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider := endpoint(t, Config{Config: transport.Config{Capabilities: caps}}, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
			req := request()
			test.change(req)
			_, err := provider.Call(t.Context(), req)
			var failed *providers.Error
			if !errors.As(err, &failed) || failed.Class != test.want || failed.MayBeBilled || failed.Message == "" {
				t.Errorf("got %+v, want class %s, unbilled", err, test.want)
			}
		})
	}
}

// asks answers with a 400 to every response_format in refused, and says so in
// words of its own.
func asks(refused ...string) (http.HandlerFunc, func() []string) {
	var mu sync.Mutex
	var seen []string
	return func(w http.ResponseWriter, r *http.Request) {
			var body struct {
				Model          string `json:"model"`
				ResponseFormat struct {
					Type string `json:"type"`
				} `json:"response_format"`
			}
			_ = json.NewDecoder(r.Body).Decode(&body) // what is missing is seen as such
			format := body.ResponseFormat.Type
			mu.Lock()
			seen = append(seen, body.Model+" "+format)
			mu.Unlock()
			for _, no := range refused {
				if format == no {
					w.WriteHeader(http.StatusBadRequest)
					fmt.Fprintf(w, `{"error":{"message":"This response_format type is unavailable now","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}`)
					return
				}
			}
			_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"{}"}}]}`)
		}, func() []string {
			mu.Lock()
			defer mu.Unlock()
			return seen
		}
}

// takes knows of every model which way of structured output it takes.
func takes(way providers.JSON) providers.CapabilitiesOf {
	return func(string) providers.Capabilities { return providers.Capabilities{JSON: way} }
}

func structured(model string) *providers.Request {
	req := request()
	req.Model, req.Schema = model, &providers.Schema{Name: "verdict", Schema: json.RawMessage(`{}`)}
	return req
}

func TestAnUnknownEndpointIsLearntByModel(t *testing.T) {
	t.Parallel()
	handler, seen := asks("json_schema", "json_object")
	provider := endpoint(t, Config{}, handler)
	for call, again := range []bool{true, true, false, false} {
		_, err := provider.Call(t.Context(), structured("m1"))
		if got := errors.Is(err, providers.ErrAgain); got != again || !again && err != nil {
			t.Errorf("call %d: got %v, want ErrAgain: %v", call, err, again)
		}
	}
	if _, err := provider.Call(t.Context(), structured("m2")); !errors.Is(err, providers.ErrAgain) {
		t.Errorf("another model: got %v, want it to be tried by itself", err)
	}
	want := []string{"m1 json_schema", "m1 json_object", "m1 ", "m1 ", "m2 json_schema"}
	if diff := cmp.Diff(want, seen()); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func TestAWrongFactIsLearnt(t *testing.T) {
	t.Parallel()
	handler, seen := asks("json_schema")
	provider := endpoint(t, Config{Config: transport.Config{Capabilities: takes(providers.JSONSchema)}}, handler)
	for call, again := range []bool{true, false, false} {
		_, err := provider.Call(t.Context(), structured("m1"))
		if got := errors.Is(err, providers.ErrAgain); got != again || !again && err != nil {
			t.Errorf("call %d: got %v, want ErrAgain: %v", call, err, again)
		}
	}
	if diff := cmp.Diff([]string{"m1 json_schema", "m1 json_object", "m1 json_object"}, seen()); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func TestNewRefusesBadConfig(t *testing.T) {
	t.Parallel()
	at := transport.Config{HTTPClient: http.DefaultClient, BaseURL: "http://h/v1"}
	for _, config := range []Config{
		{Config: transport.Config{HTTPClient: http.DefaultClient}},
		{Config: at, Flavour: Flavour{Effort: "some"}},
		{Config: at, Flavour: Flavour{Search: "deep"}},
	} {
		if _, err := New(config); err == nil {
			t.Errorf("New(%+v): got no error", config)
		}
	}
}
