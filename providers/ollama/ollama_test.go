package ollama

import (
	"encoding/json"
	"fmt"
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
	url, client := providertest.Serve(t, handler)
	provider, err := New(Config{BaseURL: url, HTTPClient: client, Capabilities: func(string) providers.Capabilities { return caps }})
	if err != nil {
		t.Fatal(err)
	}
	return provider
}

func request() *providers.Request {
	return &providers.Request{
		Model:    "qwen3:8b",
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
// https://docs.ollama.com/api/chat and https://docs.ollama.com/capabilities/thinking,
// truncate and shift those of ChatRequest in the server's api/types.go.
func TestRequestOnTheWire(t *testing.T) {
	t.Parallel()
	const (
		messages = `"messages":[{"role":"system","content":"judge"},{"role":"user","content":"a or b?"}],"model":"qwen3:8b",`
		options  = `"options":{"num_ctx":8192},`
		rest     = `"shift":false,"stream":false,`
		plain    = `{` + messages + options + rest + `"truncate":false}`
	)
	schema := &providers.Schema{Name: "verdict", Schema: json.RawMessage(`{"type":"object"}`)}
	level := providers.Capabilities{Reasoning: providers.ReasoningEffort}
	effort := func(effort string) *providers.Request {
		return with(func(r *providers.Request) { r.ReasoningEffort = effort })
	}
	thinks := func(think string) string {
		return `{` + messages + options + rest + `"think":` + think + `,"truncate":false}`
	}
	reason := with(func(r *providers.Request) { r.Reason = true })
	for _, test := range []struct {
		name    string
		caps    providers.Capabilities
		req     *providers.Request
		body    string
		dropped []string
	}{
		{"plain", providers.Capabilities{}, request(), plain, nil},
		{
			"images, whose tokens the window has room for", providers.Capabilities{},
			with(func(r *providers.Request) {
				r.Messages = []providers.Message{{Role: providers.User, Content: "a or b?", Images: []providers.Image{
					{Offset: 2, Type: providers.PNG, Data: "AA==", Width: 2000, Height: 2000}, {Offset: 7, Type: providers.WebP, Data: "AQ=="},
				}}}
			}),
			`{"messages":[{"content":"a or b?","images":["AA==","AQ=="],"role":"user"}],"model":"qwen3:8b","options":{"num_ctx":32768},` +
				rest + `"truncate":false}`,
			nil,
		},
		{
			"log probabilities", providers.Capabilities{}, with(func(r *providers.Request) { r.LogProbs = true }),
			`{"logprobs":true,` + messages + options + rest + `"top_logprobs":20,"truncate":false}`, nil,
		},
		{
			"everything",
			providers.Capabilities{},
			with(func(r *providers.Request) {
				r.Schema, r.MaxOutputTokens, r.Temperature, r.Reason = schema, 500, set(0.0), true
				r.Extra = map[string]any{
					"keep_alive": "10m", "stream": true, "model": "another",
					"options": map[string]any{"seed": 7, "num_predict": 9},
				}
			}),
			`{"format":{"type":"object"},"keep_alive":"10m",` + messages + `"options":{"num_ctx":4096,"num_predict":500,"seed":7,"temperature":0},` + rest + `"think":true,"truncate":false}`,
			nil,
		},
		{
			"what Extra may say otherwise",
			providers.Capabilities{},
			with(func(r *providers.Request) {
				r.Extra = map[string]any{"truncate": true, "shift": true, "options": map[string]any{"num_ctx": 512}}
			}),
			`{` + messages + `"options":{"num_ctx":512},"shift":true,"stream":false,"truncate":true}`,
			nil,
		},
		{"any JSON", providers.Capabilities{JSON: providers.JSONObject}, with(func(r *providers.Request) { r.Schema = schema }), `{"format":"json",` + messages + options + rest + `"truncate":false}`, nil},
		{"JSON by the prompt alone", providers.Capabilities{JSON: providers.JSONNone}, with(func(r *providers.Request) { r.Schema = schema }), plain, nil},
		{
			"no temperature",
			providers.Capabilities{Sampling: providers.SamplingNever},
			with(func(r *providers.Request) {
				r.Temperature, r.Extra = set(0.5), map[string]any{"options": map[string]any{"temperature": 0.7}}
			}),
			plain,
			[]string{"temperature"},
		},
		{
			"a temperature, of one that takes it when it does not think",
			providers.Capabilities{Sampling: providers.SamplingWithoutReasoning},
			with(func(r *providers.Request) { r.Temperature, r.ReasoningEffort = set(0.5), "none" }),
			`{` + messages + `"options":{"num_ctx":8192,"temperature":0.5},` + rest + `"think":false,"truncate":false}`,
			nil,
		},

		{"no thinking", providers.Capabilities{}, effort("none"), thinks("false"), nil},
		{"thinking that shows", providers.Capabilities{}, reason, thinks("true"), nil},
		{"thinking, but not how much", providers.Capabilities{}, effort("high"), thinks("true"), []string{"reasoning_effort"}},
		{"how much", level, effort("high"), thinks(`"high"`), nil},
		{"thinking that shows, of one that is told how much", level, reason, thinks(`"medium"`), nil},
		{"more than there is a word for", level, effort("max"), plain, []string{"reasoning_effort"}},
		{
			"more than there is a word for, and thinking that shows",
			level,
			with(func(r *providers.Request) { r.ReasoningEffort, r.Reason = "max", true }),
			thinks("true"),
			[]string{"reasoning_effort"},
		},
		{"one that does not think", providers.Capabilities{Reasoning: providers.ReasoningNone}, with(func(r *providers.Request) { r.Reason, r.ReasoningEffort = true, "low" }), plain, []string{"reasoning_effort"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var body, uri, authorization string
			provider := endpoint(t, test.caps, func(w http.ResponseWriter, r *http.Request) {
				raw, _ := io.ReadAll(r.Body)
				body, uri, authorization = string(raw), r.Method+" "+r.RequestURI, r.Header.Get("Authorization")
				_, _ = io.WriteString(w, good)
			})
			req := *test.req // some tests share it
			req.Key = "sk-secret-key"
			result, err := provider.Call(t.Context(), &req)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.body, body); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.dropped, result.Dropped); diff != "" {
				t.Errorf("dropped (-want +got):\n%s", diff)
			}
			if uri != "POST /api/chat" || authorization != "Bearer sk-secret-key" {
				t.Errorf("got %s with %q", uri, authorization)
			}
		})
	}
}

func TestTheWindowHoldsPromptAndAnswer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		bytes, output, model int
		want                 int
	}{
		{bytes: 0, output: 1, want: 4096},
		{bytes: 3 * 3000, output: 1080, want: 4096},
		{bytes: 3 * 3000, output: 1081, want: 8192},
		{bytes: 3 * 5000, want: 16384}, // an answer without a bound has room for 4,096
		{bytes: 3 * 5000, model: 10000, want: 10000},
		{bytes: 0, output: 500, model: 2048, want: 2048},
		{bytes: 3 * 100000, output: 500, want: 131072},
	} {
		req := with(func(r *providers.Request) {
			r.Messages = []providers.Message{{Role: providers.User, Content: strings.Repeat("x", test.bytes)}}
			r.MaxOutputTokens = test.output
		})
		if got := window(req, providers.Capabilities{ContextWindow: test.model}); got != test.want {
			t.Errorf("%+v: got %d", test, got)
		}
	}
}

func TestRequestsThatAreNotSent(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		req  *providers.Request
		want providers.Class
	}{
		"a broken key":                  {with(func(r *providers.Request) { r.Key = "sk\n" }), providers.Auth},
		"no JSON":                       {with(func(r *providers.Request) { r.Extra = map[string]any{"f": func() {}} }), providers.BadRequest},
		"a search, whatever is thought": {with(func(r *providers.Request) { r.Search = true }), providers.BadRequest},
	} {
		provider := endpoint(t, providers.Capabilities{Search: "web_search"}, func(http.ResponseWriter, *http.Request) { t.Errorf("%s: a request was sent", name) })
		if _, err := provider.Call(t.Context(), test.req); providers.ClassOf(err) != test.want {
			t.Errorf("%s: got %v, want class %s", name, err, test.want)
		}
	}
}

func TestAModelWithoutSchemasIsLearnt(t *testing.T) {
	t.Parallel()
	var asked []string
	provider := endpoint(t, providers.Capabilities{}, func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Format json.RawMessage `json:"format"`
		}
		_ = json.NewDecoder(r.Body).Decode(&body) // what is missing is seen as such
		asked = append(asked, string(body.Format))
		if strings.HasPrefix(string(body.Format), "{") {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":"invalid JSON schema in format"}`) // llm/server.go of the server
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
	if diff := cmp.Diff([]string{"{}", `"json"`}, asked); diff != "" || err != nil {
		t.Errorf("asked (-want +got):\n%s, at last %v", diff, err)
	}
}

func TestNewRefusesBadConfig(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{HTTPClient: http.DefaultClient}); err == nil {
		t.Error("New without a base URL: got no error")
	}
}
