package responses

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/evalfleet/evalfleet/internal/testing/providertest"
	"github.com/evalfleet/evalfleet/providers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const done = `{"id":"resp_1","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"b"}]}]}`

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

// knowing is a Config in which caps holds for every model.
func knowing(caps providers.Capabilities) Config {
	return Config{Capabilities: func(string) providers.Capabilities { return caps }}
}

func request() *providers.Request {
	return &providers.Request{
		Key:      "sk-secret-key",
		Model:    "m1",
		Messages: []providers.Message{{Role: providers.User, Content: "a or b?"}},
	}
}

// TestRequestOnTheWire holds bodies as documented at
// https://developers.openai.com/api/reference/resources/responses/methods/create.
func TestRequestOnTheWire(t *testing.T) {
	t.Parallel()
	warm := 0.5
	reasoning := providers.Capabilities{Reasoning: providers.ReasoningEffort, Efforts: []string{"none", "low", "high"}, Sampling: providers.SamplingWithoutReasoning}
	searching := providers.Capabilities{JSON: providers.JSONSchema, JSONWithSearch: true, Search: "web_search"}
	verdict := &providers.Schema{Name: "verdict", Schema: json.RawMessage(`{"type":"object"}`)}
	const input = `"input":[{"role":"user","content":"a or b?"}]`
	const tail = `"store":false,"truncation":"disabled"}`
	const format = `"text":{"format":{"name":"verdict","schema":{"type":"object"},"strict":true,"type":"json_schema"}}`
	for _, test := range []struct {
		name    string
		caps    providers.Capabilities
		change  func(*providers.Request)
		body    string
		dropped []string
	}{
		{"plain", providers.Capabilities{}, func(*providers.Request) {}, `{` + input + `,"model":"m1",` + tail, nil},
		{
			"a key and a breakpoint, none within instructions", providers.Capabilities{PromptCache: providers.PromptCacheBreakpoints},
			func(r *providers.Request) {
				r.Messages = []providers.Message{{Role: providers.System, Content: "judge"}, {Role: providers.User, Content: "a or b?"}}
				r.CacheKey, r.Prefixes = "k", []providers.Prefix{{Offset: 5, Keep: true}, {Message: 1, Offset: 5, Keep: true}}
			},
			`{"input":[{"content":[{"prompt_cache_breakpoint":{"mode":"explicit"},"text":"a or ","type":"input_text"},{"text":"b?","type":"input_text"}],"role":"user"}],` +
				`"instructions":"judge","model":"m1","prompt_cache_key":"k","prompt_cache_options":{"mode":"explicit"},` + tail, nil,
		},
		{
			"images", providers.Capabilities{},
			func(r *providers.Request) {
				r.Messages = []providers.Message{{Role: providers.User, Content: "a or b?", Images: []providers.Image{
					{Offset: 2, Type: providers.PNG, Data: "AA=="}, {Offset: 7, URL: "https://h/i.png", Detail: "low"},
				}}}
			},
			`{"input":[{"content":[{"text":"a ","type":"input_text"},{"detail":"auto","image_url":"data:image/png;base64,AA==","type":"input_image"},` +
				`{"text":"or b?","type":"input_text"},{"detail":"low","image_url":"https://h/i.png","type":"input_image"}],"role":"user"}],"model":"m1",` + tail, nil,
		},
		{
			"log probabilities", providers.Capabilities{Search: "web_search"},
			func(r *providers.Request) { r.LogProbs = true },
			`{"include":["message.output_text.logprobs"],` + input + `,"model":"m1","store":false,"top_logprobs":20,"truncation":"disabled"}`, nil,
		},
		{
			"a key", providers.Capabilities{PromptCache: providers.PromptCacheKey},
			func(r *providers.Request) {
				r.CacheKey, r.Prefixes = "k", []providers.Prefix{{Offset: 5, Keep: true}}
			}, `{` + input + `,"model":"m1","prompt_cache_key":"k",` + tail, nil,
		},
		{
			"system messages that begin it are instructions, one later stays", providers.Capabilities{},
			func(r *providers.Request) {
				r.Messages = []providers.Message{
					{Role: providers.System, Content: "judge"}, {Role: providers.System, Content: "be brief"},
					{Role: providers.User, Content: "a or b?"}, {Role: providers.Assistant, Content: "c"},
					{Role: providers.System, Content: "really"}, {Role: providers.User, Content: "again"},
				}
			},
			`{"input":[{"role":"user","content":"a or b?"},{"role":"assistant","content":"c"},{"role":"system","content":"really"},{"role":"user","content":"again"}],` +
				`"instructions":"judge\n\nbe brief","model":"m1",` + tail, nil,
		},
		{
			"the request's own fields win", providers.Capabilities{},
			func(r *providers.Request) {
				r.MaxOutputTokens, r.Temperature = 500, &warm
				r.Extra = map[string]any{
					"model": "another", "stream": true, "background": true, "store": true, "truncation": "auto", "input": "x",
					"max_output_tokens": 1, "temperature": 1, "max_tool_calls": 7, "service_tier": "flex",
				}
			},
			`{` + input + `,"max_output_tokens":500,"max_tool_calls":7,"model":"m1","service_tier":"flex","store":false,"temperature":0.5,"truncation":"disabled"}`, nil,
		},
		// https://developers.openai.com/api/docs/guides/structured-outputs
		{"a schema, of an unknown model", providers.Capabilities{}, func(r *providers.Request) { r.Schema = verdict }, `{` + input + `,"model":"m1","store":false,` + format + `,"truncation":"disabled"}`, nil},
		{
			"a schema and a verbosity", providers.Capabilities{JSON: providers.JSONSchema},
			func(r *providers.Request) {
				r.Schema, r.Extra = verdict, map[string]any{"text": map[string]any{"verbosity": "low", "format": "none"}}
			},
			`{` + input + `,"model":"m1","store":false,"text":{"format":{"name":"verdict","schema":{"type":"object"},"strict":true,"type":"json_schema"},"verbosity":"low"},"truncation":"disabled"}`, nil,
		},
		{"any object", providers.Capabilities{JSON: providers.JSONObject}, func(r *providers.Request) { r.Schema = verdict }, `{` + input + `,"model":"m1","store":false,"text":{"format":{"type":"json_object"}},"truncation":"disabled"}`, nil},
		{"the prompt alone", providers.Capabilities{JSON: providers.JSONNone}, func(r *providers.Request) { r.Schema = verdict }, `{` + input + `,"model":"m1",` + tail, nil},
		// https://developers.openai.com/api/docs/guides/reasoning
		{
			"an effort, and reasoning that shows", reasoning,
			func(r *providers.Request) { r.ReasoningEffort, r.Reason, r.Temperature = "high", true, &warm },
			`{` + input + `,"model":"m1","reasoning":{"effort":"high","summary":"auto"},` + tail, []string{"temperature"},
		},
		{"an effort chosen for it", reasoning, func(r *providers.Request) { r.Reason = true }, `{` + input + `,"model":"m1","reasoning":{"effort":"low","summary":"auto"},` + tail, nil},
		{
			"told not to reason", reasoning, func(r *providers.Request) { r.ReasoningEffort, r.Temperature = "none", &warm },
			`{` + input + `,"model":"m1","reasoning":{"effort":"none"},"store":false,"temperature":0.5,"truncation":"disabled"}`, nil,
		},
		{
			"what it does not take", reasoning,
			func(r *providers.Request) {
				r.ReasoningEffort, r.Temperature, r.Extra = "xhigh", &warm, map[string]any{"temperature": 1}
			},
			`{` + input + `,"model":"m1",` + tail, []string{"reasoning_effort", "temperature"},
		},
		{
			"a model that does not reason", providers.Capabilities{Reasoning: providers.ReasoningNone}, func(r *providers.Request) { r.Reason, r.ReasoningEffort, r.Temperature = true, "low", &warm },
			`{` + input + `,"model":"m1","store":false,"temperature":0.5,"truncation":"disabled"}`, []string{"reasoning_effort"},
		},
		// https://developers.openai.com/api/docs/guides/tools-web-search
		{
			"search and a schema", searching, func(r *providers.Request) { r.Search, r.Schema = true, verdict },
			`{"include":["web_search_call.action.sources"],` + input + `,"model":"m1","store":false,` + format + `,"tool_choice":"required","tools":[{"type":"web_search"}],"truncation":"disabled"}`, nil,
		},
		{ // 175 of 187 recorded answers that searched made more than five calls
			"no more searches than are reserved", searching, func(r *providers.Request) { r.Search, r.BoundSearches = true, true },
			`{"include":["web_search_call.action.sources"],` + input + `,"max_tool_calls":5,"model":"m1","store":false,"tool_choice":"required","tools":[{"type":"web_search"}],"truncation":"disabled"}`, nil,
		},
		{"no search to bound", searching, func(r *providers.Request) { r.BoundSearches = true }, `{` + input + `,"model":"m1",` + tail, nil},
		{
			"as many searches as is said", searching, func(r *providers.Request) { r.Search, r.Extra = true, map[string]any{"max_tool_calls": 2.0} },
			`{"include":["web_search_call.action.sources"],` + input + `,"max_tool_calls":2,"model":"m1","store":false,"tool_choice":"required","tools":[{"type":"web_search"}],"truncation":"disabled"}`, nil,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var body string
			provider := endpoint(t, knowing(test.caps), func(w http.ResponseWriter, r *http.Request) {
				raw, _ := io.ReadAll(r.Body)
				body = string(raw)
				_, _ = io.WriteString(w, done)
			})
			req := request()
			test.change(req)
			result, err := provider.Call(t.Context(), req)
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

func TestTheKeyIsAHeader(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ config, key, header, value string }{
		{"", "sk-secret-key", "Authorization", "Bearer sk-secret-key"},
		{"", "", "Authorization", ""},
		{"api-key", "sk-secret-key", "Api-Key", "sk-secret-key"}, // https://learn.microsoft.com/azure/ai-foundry/openai/how-to/responses
	} {
		provider := endpoint(t, Config{KeyHeader: test.config}, func(w http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get(test.header); got != test.value {
				t.Errorf("%s: got %q, want %q", test.header, got, test.value)
			}
			if got := r.Header.Get("X-Client-Request-Id"); got != "0.17.0-w1-1" {
				t.Errorf("X-Client-Request-Id: got %q", got)
			}
			if got := r.Method + " " + r.URL.Path; got != "POST /v1/responses" {
				t.Errorf("got %s", got)
			}
			_, _ = io.WriteString(w, done)
		})
		req := request()
		req.Key, req.IdempotencyID = test.key, "0.17.0-w1-1"
		if _, err := provider.Call(t.Context(), req); err != nil {
			t.Error(err)
		}
	}
}

func TestRequestsThatCannotBeSent(t *testing.T) {
	t.Parallel()
	caps := func(model string) providers.Capabilities {
		return providers.Capabilities{Search: map[string]string{"o3-deep-research": "web_search_preview"}[model]}
	}
	halted := errors.New("the lease is gone")
	for name, test := range map[string]struct {
		change func(*providers.Request)
		want   providers.Class
		cause  error
	}{
		"a broken key":         {func(r *providers.Request) { r.Key = "sk-1\n" }, providers.Auth, nil},
		"what JSON cannot say": {func(r *providers.Request) { r.Extra = map[string]any{"f": func() {}} }, providers.BadRequest, nil},
		"no search":            {func(r *providers.Request) { r.Search = true }, providers.BadRequest, nil},
		"search beside a schema": {func(r *providers.Request) {
			r.Model, r.Search, r.Schema = "o3-deep-research", true, &providers.Schema{Name: "v"}
		}, providers.BadRequest, nil},
		"not ready": {func(r *providers.Request) { r.Ready = func() error { return halted } }, providers.Transient, halted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider := endpoint(t, Config{Capabilities: caps}, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
			req := request()
			test.change(req)
			_, err := provider.Call(t.Context(), req)
			_, submitErr := provider.Submit(t.Context(), req)
			for _, err := range []error{err, submitErr} {
				var failed *providers.Error
				if !errors.As(err, &failed) || failed.Class != test.want || failed.MayBeBilled || failed.Message == "" {
					t.Errorf("got %+v, want class %s, unbilled", err, test.want)
				}
				if test.cause != nil && !errors.Is(err, test.cause) {
					t.Errorf("got %v, want %v in its chain", err, test.cause)
				}
			}
		})
	}
}

// refusing answers 400 in the given words as long as the body holds the text.
func refusing(t *testing.T, text, words string) (http.HandlerFunc, func() int) {
	t.Helper()
	var mu sync.Mutex
	refused := 0
	return func(w http.ResponseWriter, r *http.Request) {
			raw, _ := io.ReadAll(r.Body)
			var body map[string]any
			if err := json.Unmarshal(raw, &body); err != nil {
				t.Error(err)
			}
			if _, ok := body[text]; !ok {
				_, _ = io.WriteString(w, done)
				return
			}
			mu.Lock()
			refused++
			mu.Unlock()
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, words)
		}, func() int {
			mu.Lock()
			defer mu.Unlock()
			return refused
		}
}

func TestWhatAnEndpointRefusesIsLearntByModel(t *testing.T) {
	t.Parallel()
	caps := providers.Capabilities{Search: "web_search"}
	for _, test := range []struct {
		name, field, words string
		change             func(*providers.Request)
		again              int // repeats until it is answered
	}{
		{
			"a schema", "text", `{"error":{"message":"Invalid parameter: 'text.format' of type 'json_schema' is not supported with this model.","type":"invalid_request_error","param":"text.format","code":null}}`,
			func(r *providers.Request) { r.Schema = &providers.Schema{Name: "v", Schema: json.RawMessage(`{}`)} }, 2,
		},
		{
			// https://github.com/openai/openai-cookbook/issues/2271
			"a summary", "reasoning", `{"error":{"message":"Your organization must be verified to generate reasoning summaries.","type":"invalid_request_error","param":"reasoning.summary","code":"unsupported_value"}}`,
			func(r *providers.Request) { r.Reason = true }, 1,
		},
		{
			"a forced search", "tool_choice", `{"error":{"message":"Tool choices other than 'auto' are not supported with this model.","type":"invalid_request_error","param":"tool_choice","code":null}}`,
			func(r *providers.Request) { r.Search = true }, 1,
		},
		{
			"a list of sources", "include", `{"error":{"message":"Invalid value.","type":"invalid_request_error","param":"include[0]","code":"invalid_value"}}`,
			func(r *providers.Request) { r.Search = true }, 1,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			handler, refused := refusing(t, test.field, test.words)
			provider := endpoint(t, knowing(caps), handler)
			for _, model := range []string{"m1", "m2"} {
				req := request()
				req.Model = model
				test.change(req)
				for range test.again {
					if _, err := provider.Call(t.Context(), req); !errors.Is(err, providers.ErrAgain) {
						t.Errorf("%s: got %v, want ErrAgain", model, err)
					}
				}
				for range 2 {
					if _, err := provider.Call(t.Context(), req); err != nil {
						t.Errorf("%s: got %v, want an answer", model, err)
					}
				}
			}
			if got := refused(); got != 2*test.again {
				t.Errorf("refused %d times, want %d", got, 2*test.again)
			}
		})
	}
}

func TestOtherBadRequestsTeachNothing(t *testing.T) {
	t.Parallel()
	provider := endpoint(t, knowing(providers.Capabilities{Search: "web_search", JSONWithSearch: true}), func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":{"message":"Your prompt must include a question","param":"input","code":"invalid_value"}}`)
	})
	req := request()
	req.Search, req.Reason, req.Schema = true, true, &providers.Schema{Name: "v", Schema: json.RawMessage(`{}`)}
	if _, err := provider.Call(t.Context(), req); providers.ClassOf(err) != providers.BadRequest || errors.Is(err, providers.ErrAgain) {
		t.Errorf("got %v, want a bad request and no ErrAgain", err)
	}
	x, err := provider.endpoint.Begin(req, "m1")
	if err != nil {
		t.Fatal(err)
	}
	if provider.bare.Has("m1") || x.Format != providers.JSONSchema {
		t.Error("something was learnt")
	}
}

func TestNewRefusesBadConfig(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{HTTPClient: http.DefaultClient}); err == nil {
		t.Error("got no error")
	}
}

// https://developers.openai.com/api/docs/guides/tools-web-search: gpt-5 with minimal
// reasoning does not search.
func TestNoSearchWithMinimalReasoning(t *testing.T) {
	t.Parallel()
	caps := providers.Capabilities{Search: "web_search", Reasoning: providers.ReasoningEffort}
	for _, search := range []bool{true, false} {
		body, dropped := way{}.encode(&providers.Request{Model: "gpt-5-mini", Search: search, ReasoningEffort: "minimal"}, caps)
		if _, sent := body["reasoning"]; sent == search || (len(dropped) > 0) != search {
			t.Errorf("search %t: reasoning is %v, dropped %v", search, body["reasoning"], dropped)
		}
	}
}
