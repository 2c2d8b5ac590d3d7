package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// endpoint is a Provider for a server with the given handler.
func endpoint(t testing.TB, config Config, handler http.HandlerFunc) *Provider {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	config.BaseURL, config.HTTPClient = server.URL+"/v1", transport.NewClient(8)
	t.Cleanup(config.HTTPClient.CloseIdleConnections)
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
	for _, test := range []struct {
		name                string
		config              Config
		req                 *providers.Request
		body, authorization string
	}{
		{"plain, without a key", Config{}, keyless, `{` + messages + `"model":"m1"}`, ""},
		{
			"everything", Config{}, full,
			`{"max_tokens":500,` + messages + `"model":"m1","reasoning_effort":"low",` + schema + `,"seed":7,"temperature":0}`, "Bearer sk-secret-key",
		},
		{
			"openai's field, prompt alone", Config{MaxTokensField: "max_completion_tokens", JSON: providers.JSONNone}, full,
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

func TestRequestsThatCannotBeSent(t *testing.T) {
	t.Parallel()
	provider := endpoint(t, Config{}, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	brokenKey, unencodable := request(), request()
	brokenKey.Key = "sk-1\n"
	unencodable.Extra = map[string]any{"f": func() {}}
	for want, req := range map[providers.Class]*providers.Request{providers.Auth: brokenKey, providers.BadRequest: unencodable} {
		if _, err := provider.Call(t.Context(), req); providers.ClassOf(err) != want {
			t.Errorf("got %v, want class %s", err, want)
		}
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

func TestAFixedWayIsNotChanged(t *testing.T) {
	t.Parallel()
	handler, seen := asks("json_schema")
	provider := endpoint(t, Config{JSON: providers.JSONSchema}, handler)
	for range 2 {
		_, err := provider.Call(t.Context(), structured("m1"))
		if errors.Is(err, providers.ErrAgain) || providers.ClassOf(err) != providers.BadRequest {
			t.Errorf("got %v, want a bad request and no ErrAgain", err)
		}
	}
	if diff := cmp.Diff([]string{"m1 json_schema", "m1 json_schema"}, seen()); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func TestManyCallsLearnOneStepTogether(t *testing.T) {
	t.Parallel()
	const calls = 8
	var arrived sync.WaitGroup
	arrived.Add(calls)
	handler, _ := asks("json_schema")
	var first atomic.Int32
	provider := endpoint(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		if first.Add(1) <= calls {
			arrived.Done()
			arrived.Wait() // all are under way with json_schema before one is refused
		}
		handler(w, r)
	})
	var wg sync.WaitGroup
	for range calls {
		wg.Go(func() {
			if _, err := provider.Call(t.Context(), structured("m1")); !errors.Is(err, providers.ErrAgain) {
				t.Errorf("got %v, want ErrAgain", err)
			}
		})
	}
	wg.Wait()
	if got := provider.formats.of(structured("m1")); got != providers.JSONObject {
		t.Errorf("after %d refusals of json_schema: got %q, want %q", calls, got, providers.JSONObject)
	}
	refused := func() error { return &providers.Error{Class: providers.BadRequest, Message: "no response_format"} }
	for _, asked := range []providers.JSON{providers.JSONObject, providers.JSONSchema} { // the second is an old call, refused late
		if err := provider.formats.learn("m1", asked, refused()); !errors.Is(err, providers.ErrAgain) {
			t.Errorf("%q refused: got %v, want ErrAgain", asked, err)
		}
		if got := provider.formats.of(structured("m1")); got != providers.JSONNone {
			t.Errorf("after %q was refused: got %q, want %q", asked, got, providers.JSONNone)
		}
	}
}

func TestOtherBadRequestsTeachNothing(t *testing.T) {
	t.Parallel()
	provider := endpoint(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":{"message":"temperature must be at most 2"}}`)
	})
	if _, err := provider.Call(t.Context(), structured("m1")); errors.Is(err, providers.ErrAgain) {
		t.Errorf("got %v, want no ErrAgain", err)
	}
	if got := provider.formats.of(structured("m1")); got != providers.JSONSchema {
		t.Errorf("got %q, want %q", got, providers.JSONSchema)
	}
}

func TestNewRefusesBadConfig(t *testing.T) {
	t.Parallel()
	for _, config := range []Config{
		{HTTPClient: http.DefaultClient},
		{HTTPClient: http.DefaultClient, BaseURL: "http://h/v1", JSON: "yes"},
	} {
		if _, err := New(config); err == nil {
			t.Errorf("New(%+v): got no error", config)
		}
	}
}
