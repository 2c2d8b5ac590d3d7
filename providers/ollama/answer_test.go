package ollama

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/internal/testing/providertest"
	"github.com/evalfleet/evalfleet/providers"
)

const good = `{"model":"qwen3:8b","message":{"role":"assistant","content":"B."},"done":true,"done_reason":"stop","prompt_eval_count":9,"eval_count":2}`

// TestGoodAnswers holds answers in the shapes of https://docs.ollama.com/api/chat.
func TestGoodAnswers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, body string
		want       providers.Result
	}{
		{
			name: "thoughts are separate, and count as output",
			body: `{"model":"deepseek-r1","created_at":"2025-05-29T09:35:56.836222Z","message":{"role":"assistant","content":"B.","thinking":"Hm."},"done_reason":"stop","done":true,"total_duration":47975065417,"load_duration":29758167,"prompt_eval_count":900,"prompt_eval_duration":174191542,"eval_count":240,"eval_duration":47770692833}`,
			want: providers.Result{Text: "B.", Reasoning: "Hm.", Finish: providers.FinishStop, Model: "deepseek-r1", Usage: providers.Usage{Reported: true, Input: 900, Output: 240}},
		},
		{
			name: "the bound was met", // as num_predict and, without shift, the context have it
			body: `{"model":"m","message":{"role":"assistant","content":"Half a"},"done_reason":"length","done":true,"prompt_eval_count":9,"eval_count":64}`,
			want: providers.Result{Text: "Half a", Finish: providers.FinishTruncated, Model: "m", Usage: providers.Usage{Reported: true, Input: 9, Output: 64}},
		},
		{
			name: "thinking took all of the output",
			body: `{"model":"m","message":{"role":"assistant","content":"","thinking":"Hm"},"done_reason":"length","done":true,"prompt_eval_count":9,"eval_count":64}`,
			want: providers.Result{Reasoning: "Hm", Finish: providers.FinishTruncated, Model: "m", Usage: providers.Usage{Reported: true, Input: 9, Output: 64}},
		},
		{
			name: "a stream that was not asked for",
			body: "{\"model\":\"m\",\"message\":{\"content\":\"\",\"thinking\":\"Hm\"},\"done\":false}\n{\"model\":\"m\",\"message\":{\"content\":\"B\"},\"done\":false}\n{\"model\":\"m\",\"message\":{\"content\":\".\"},\"done\":true,\"done_reason\":\"stop\",\"prompt_eval_count\":9,\"eval_count\":2}\n",
			want: providers.Result{Text: "B.", Reasoning: "Hm", Finish: providers.FinishStop, Model: "m", Usage: providers.Usage{Reported: true, Input: 9, Output: 2}},
		},
		{
			name: "a verdict in the thoughts alone",
			body: `{"model":"m","message":{"content":"","thinking":"{\"winner\":\"B\"}"},"done":true,"done_reason":"stop"}`,
			want: providers.Result{Text: `{"winner":"B"}`, Finish: providers.FinishStop, Model: "m"},
		},
		{
			name: "no count of the prompt, no reason", // counts of 0 are left out: https://github.com/ollama/ollama/issues/2068
			body: `{"model":"m","message":{"role":"assistant","content":"B."},"done":true,"eval_count":2}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Model: "m", Usage: providers.Usage{Output: 2}},
		},
		{
			name: "counts that are no whole numbers",
			body: `{"message":{"content":"B."},"done":true,"prompt_eval_count":"?","eval_count":-1}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			provider := endpoint(t, providers.Capabilities{}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Request-Id", "req_1")
				_, _ = io.WriteString(w, test.body)
			})
			got, err := provider.Call(t.Context(), request())
			if err != nil {
				t.Fatal(err)
			}
			test.want.Raw, test.want.RequestID = []byte(test.body), "req_1"
			if diff := cmp.Diff(&test.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStructuredAnswer(t *testing.T) {
	t.Parallel()
	provider := endpoint(t, providers.Capabilities{}, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"message":{"content":" {\"winner\":\"a\"}\n","thinking":"hm"},"done":true}`)
	})
	result, err := provider.Call(t.Context(), with(func(r *providers.Request) { r.Schema = &providers.Schema{Schema: []byte(`{}`)} }))
	if err != nil || string(result.JSON) != `{"winner":"a"}` {
		t.Errorf("got %+v, %v, want the JSON value", result, err)
	}
}

// TestFailures holds what this dialect alone can meet, and failures in the words of
// the server's routes.go. The rest is transport's.
func TestFailures(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		status int
		body   string
		class  providers.Class
		billed bool
	}{
		{"loaded", 200, `{"model":"m","created_at":"2024-09-12T21:17:29.110811Z","message":{"role":"assistant","content":""},"done_reason":"load","done":true}`, providers.Transient, true},
		{"unloaded", 200, `{"model":"m","message":{"role":"assistant","content":""},"done_reason":"unload","done":true}`, providers.Transient, true},
		{"a piece of a stream", 200, `{"model":"m","message":{"role":"assistant","content":"The"},"done":false}`, providers.Transient, true},
		{"no text, and no reason", 200, `{"message":{"content":"","thinking":"hm"},"done_reason":"stop","done":true}`, providers.Transient, true},
		{"a gateway's own error", 200, `{"code":"invalid_api_key","message":"no such key"}`, providers.Auth, true},
		{"nothing at all", 200, `{}`, providers.Transient, true},
		{"a web page", 200, `<html>Welcome</html>`, providers.Transient, true},
		{"cut JSON", 200, `{"message":{"cont`, providers.Transient, true},
		{"an error with status 200", 200, `{"error":"an error was encountered while running the model: unexpected EOF"}`, providers.Transient, true},

		{"too long", 400, `{"error":"the input length exceeds the context length"}`, providers.ContextLength, false},
		{"a full queue", 503, `{"error":"server busy, please try again.  maximum pending requests exceeded"}`, providers.Overloaded, false},
		{"no such model", 404, `{"error":"model 'llama9' not found"}`, providers.ModelUnavailable, false},
		{"one that cannot think", 400, `{"error":"\"gemma3\" does not support thinking"}`, providers.BadRequest, false},
		{"a word for how much that it does not know", 400, `{"error":"think value \"low\" is not supported for this model"}`, providers.BadRequest, false},
		{"a wrong key, repeated", 401, `{"error":"unauthorized: sk-secret-key"}`, providers.Auth, false},
		{"a model that does not run", 500, `{"error":"llama runner process has terminated: exit status 2"}`, providers.Transient, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			provider := endpoint(t, providers.Capabilities{}, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
			})
			result, err := provider.Call(t.Context(), with(func(r *providers.Request) { r.Key = "sk-secret-key" }))
			var got *providers.Error
			if !errors.As(err, &got) {
				t.Fatalf("got result %+v and error %v, want a *providers.Error", result, err)
			}
			if got.Class != test.class || got.MayBeBilled != test.billed || got.Status != test.status {
				t.Errorf("got %+v, want class %s, may be billed %v", got, test.class, test.billed)
			}
			if shown := fmt.Sprintf("%+v %v %s", *got, errors.Unwrap(got), got.Raw); strings.Contains(shown, "sk-secret-key") {
				t.Errorf("the error shows the key: %s", shown)
			}
		})
	}
}

func FuzzAnswer(f *testing.F) {
	var body []byte
	provider := endpoint(f, providers.Capabilities{}, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
	providertest.Fuzz(f, []string{
		good, `{"message":{"content":"","thinking":"hm"},"done":true,"done_reason":"length","eval_count":1e99}`,
		`{"done":true,"done_reason":"load"}`, `{"message":{"content":"B"},"done":false}`,
		`{"error":{"message":"x"}}`, `{"error":"x"}`, `null`, `[]`, `{"message":null,"done":true}`,
	}, func(t *testing.T, answer []byte) (*providers.Result, error) {
		body = answer
		return provider.Call(t.Context(), request())
	})
}
