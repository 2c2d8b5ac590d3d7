package generate

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/internal/testing/providertest"
	"github.com/evalfleet/evalfleet/providers"
)

const good = `{"candidates":[{"content":{"parts":[{"text":"B."}],"role":"model"},"finishReason":"STOP","index":0}]}`

// TestGoodAnswers holds answers in the shapes of
// https://ai.google.dev/api/generate-content#v1beta.GenerateContentResponse, and
// some that users met.
func TestGoodAnswers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, body string
		want       providers.Result
	}{
		{
			name: "a stream that was not asked for",
			body: "event: message\ndata: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"hm\", \"thought\": true}, {\"text\": \"B\"}]}}], \"modelVersion\": \"m\"}\n\nevent: message\ndata: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \".\"}]}, \"finishReason\": \"STOP\"}], \"usageMetadata\": {\"promptTokenCount\": 9, \"candidatesTokenCount\": 2}}\n\n",
			want: providers.Result{Text: "B.", Reasoning: "hm", Finish: providers.FinishStop, Model: "m", Usage: providers.Usage{Reported: true, Input: 9, Output: 2}},
		},
		{
			name: "thoughts are parts of their own, and not among the candidates' tokens", // https://ai.google.dev/gemini-api/docs/thinking#summaries
			body: `{"candidates":[{"content":{"parts":[{"text":"**Weighing**\n\nhm","thought":true},{"text":"B","thoughtSignature":"Eo=="},{"text":"."}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":900,"cachedContentTokenCount":512,"candidatesTokenCount":48,"totalTokenCount":1140,"promptTokensDetails":[{"modality":"TEXT","tokenCount":900}],"thoughtsTokenCount":192},"modelVersion":"gemini-2.5-flash","responseId":"x"}`,
			want: providers.Result{Text: "B.", Reasoning: "**Weighing**\n\nhm", Finish: providers.FinishStop, Model: "gemini-2.5-flash", Usage: providers.Usage{Reported: true, Input: 900, Output: 240, Cached: 512, Reasoning: 192}},
		},
		{
			name: "a page that was read is charged, in the tier that is named", // https://ai.google.dev/gemini-api/docs/url-context
			body: `{"candidates":[{"content":{"parts":[{"text":"B."}],"role":"model"},"finishReason":"STOP","urlContextMetadata":{"urlMetadata":[{"retrievedUrl":"https://a.example/","urlRetrievalStatus":"URL_RETRIEVAL_STATUS_SUCCESS"}]}}],"usageMetadata":{"promptTokenCount":27,"candidatesTokenCount":45,"toolUsePromptTokenCount":10309,"thoughtsTokenCount":31,"totalTokenCount":10412,"serviceTier":"FLEX"}}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Usage: providers.Usage{Reported: true, Input: 10336, Output: 76, Reasoning: 31, Tier: "flex"}},
		},
		{
			name: "a search", // https://ai.google.dev/gemini-api/docs/google-search#grounded-response
			body: `{"candidates":[{"content":{"parts":[{"text":"Spain won."}],"role":"model"},"finishReason":"STOP","groundingMetadata":{"webSearchQueries":["UEFA Euro 2024 winner","who won euro 2024"],"searchEntryPoint":{"renderedContent":"<style>"},"groundingChunks":[{"web":{"uri":"https://vertexaisearch.cloud.google.com/1","title":"aljazeera.com"}},{"web":{"uri":"https://vertexaisearch.cloud.google.com/2","title":"uefa.com"}},{"web":{"uri":"https://vertexaisearch.cloud.google.com/1","title":"aljazeera.com"}}],"groundingSupports":[{"segment":{"startIndex":0,"endIndex":10,"text":"Spain won."},"groundingChunkIndices":[0]}]}}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":4,"toolUsePromptTokenCount":70,"thoughtsTokenCount":6,"totalTokenCount":90}}`,
			want: providers.Result{
				Text: "Spain won.", Finish: providers.FinishStop,
				Usage: providers.Usage{Reported: true, Input: 80, Output: 10, Reasoning: 6, Tools: 70},
				Grounding: providers.Grounding{
					Searches: 2, Queries: []string{"UEFA Euro 2024 winner", "who won euro 2024"},
					Sources: []providers.Source{{URL: "https://vertexaisearch.cloud.google.com/1", Title: "aljazeera.com"}, {URL: "https://vertexaisearch.cloud.google.com/2", Title: "uefa.com"}},
				},
			},
		},
		{
			name: "repeated and empty queries, as Google counts them", // https://ai.google.dev/gemini-api/docs/google-search#pricing
			body: `{"candidates":[{"content":{"parts":[{"text":"B."}]},"finishReason":"STOP","groundingMetadata":{"webSearchQueries":["","a or b","b or a","a or b"]}}]}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Grounding: providers.Grounding{Searches: 2, Queries: []string{"a or b", "b or a"}}},
		},
		{
			// As recorded: pydantic-ai, tests/models/google/cassettes/test_structured_output/test_native_output_with_builtin_tools.yaml
			name: "calls of the search are shown",
			body: `{"candidates":[{"content":{"parts":[{"toolCall":{"toolType":"GOOGLE_SEARCH_WEB","args":{"queries":["a or b"]},"id":"0"},"thoughtSignature":"Eo=="},{"toolResponse":{"toolType":"GOOGLE_SEARCH_WEB","response":{"search_suggestions":"<style>"},"id":"0"},"thoughtSignature":"Eo=="},{"toolCall":{"toolType":"URL_CONTEXT","args":{"urls":["https://c.example/"]}}},{"text":"{\"winner\":\"b\"}","thoughtSignature":"Eo=="}],"role":"model"},"finishReason":"STOP","groundingMetadata":{"webSearchQueries":["","a or b"],"groundingChunks":[{"web":{"uri":"https://a.example/","title":"a.example"}},{"web":{"uri":"https://b.example/"}}]}}],"usageMetadata":{"promptTokenCount":417,"thoughtsTokenCount":71,"totalTokenCount":488}}`,
			want: providers.Result{
				Text: `{"winner":"b"}`, Finish: providers.FinishStop, Usage: providers.Usage{Reported: true, Input: 417, Output: 71, Reasoning: 71},
				Grounding: providers.Grounding{Searches: 1, Queries: []string{"a or b"}, Sources: []providers.Source{{URL: "https://a.example/", Title: "a.example"}, {URL: "https://b.example/"}}},
			},
		},
		{
			name: "calls of the search without metadata",
			body: `{"candidates":[{"content":{"parts":[{"toolCall":{"toolType":"GOOGLE_SEARCH_WEB","args":{"queries":["a or b"]}}},{"toolCall":3},{"text":"B."}]},"finishReason":"STOP"}]}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Grounding: providers.Grounding{Searches: 1, Queries: []string{"a or b"}}},
		},
		{
			name: "a search that was left off", // https://github.com/google-gemini/cookbook/issues/1274
			body: `{"candidates":[{"content":{"parts":[{"text":"{}"}]},"finishReason":"STOP","groundingMetadata":{}}]}`,
			want: providers.Result{Text: "{}", Finish: providers.FinishStop},
		},
		{
			name: "thinking took all of the output", // no parts: https://github.com/google/generative-ai-docs/issues/235
			body: `{"candidates":[{"content":{"role":"model"},"finishReason":"MAX_TOKENS","index":0}],"usageMetadata":{"promptTokenCount":9,"thoughtsTokenCount":64,"totalTokenCount":73}}`,
			want: providers.Result{Finish: providers.FinishTruncated, Usage: providers.Usage{Reported: true, Input: 9, Output: 64, Reasoning: 64}},
		},
		{
			name: "the prompt was blocked",
			body: `{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":9,"totalTokenCount":9},"modelVersion":"gemini-2.5-pro"}`,
			want: providers.Result{Text: "the prompt was blocked: PROHIBITED_CONTENT", Finish: providers.FinishRefused, Reason: "PROHIBITED_CONTENT", Model: "gemini-2.5-pro", Usage: providers.Usage{Reported: true, Input: 9}},
		},
		{
			name: "the prompt was let through", // feedback without a reason: https://github.com/google/generative-ai-docs/issues/235
			body: `{"candidates":[{"content":{"parts":[{"text":"B."}]},"finishReason":"STOP"}],"promptFeedback":{"safetyRatings":[{"category":"HARM_CATEGORY_HARASSMENT","probability":"NEGLIGIBLE"}]}}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop},
		},
		{
			name: "the answer was stopped",
			body: `{"candidates":[{"finishReason":"SAFETY","index":0,"safetyRatings":[{"category":"HARM_CATEGORY_HARASSMENT","probability":"MEDIUM"}]}]}`,
			want: providers.Result{Text: "the answer was stopped: SAFETY", Finish: providers.FinishRefused, Reason: "SAFETY",
				Grounding: providers.Grounding{Safety: []providers.SafetyRating{{Category: "HARM_CATEGORY_HARASSMENT", Probability: "MEDIUM"}}}},
		},
		{
			name: "the answer was stopped half-way, and Google says why",
			body: `{"candidates":[{"content":{"parts":[{"text":"Half a"}]},"finishReason":"RECITATION","finishMessage":"too like a book"}]}`,
			want: providers.Result{Text: "Half a", Finish: providers.FinishRefused, Reason: "RECITATION too like a book"},
		},
		{
			name: "counts that are no whole numbers, evidence of another form, no finish reason",
			body: `{"candidates":[{"content":{"parts":[{"text":"B."}]},"groundingMetadata":[1]}],"usageMetadata":{"promptTokenCount":"?","candidatesTokenCount":2.0,"thoughtsTokenCount":-1}}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Usage: providers.Usage{Reported: true, Output: 2}},
		},
		{
			name: "usage of another form",
			body: `{"candidates":[{"content":{"parts":[{"text":"B."}]},"finishReason":"STOP"}],"usageMetadata":3}`,
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
		_, _ = io.WriteString(w, `{"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"text":" {\"winner\":"},{"text":"\"a\"}\n"}]},"finishReason":"STOP"}]}`)
	})
	result, err := provider.Call(t.Context(), with(func(r *providers.Request) { r.Schema = &providers.Schema{Schema: []byte(`{}`)} }))
	if err != nil || string(result.JSON) != `{"winner":"a"}` {
		t.Errorf("got %+v, %v, want the JSON value of all text parts", result, err)
	}
}

func TestSeveralAnswers(t *testing.T) {
	t.Parallel()
	provider := endpoint(t, providers.Capabilities{}, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"},{"content":{"parts":[{"text":"hm","thought":true},{"text":"b"},{"text":"c"}]},"finishReason":"STOP"},{"finishReason":"SAFETY"}]}`)
	})
	result, err := provider.Call(t.Context(), with(func(*providers.Request) {}))
	if err != nil || result.Text != "a" || !slices.Equal(result.Others, []string{"bc", ""}) {
		t.Errorf("got %+v, %v; want the answer a and two others", result, err)
	}
}

// TestFailures holds what this dialect alone can meet, and one failure of each
// class in Google's words (https://ai.google.dev/gemini-api/docs/troubleshooting,
// details as in https://cloud.google.com/apis/design/errors). The rest is
// transport's.
func TestFailures(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		status int
		body   string
		class  providers.Class
		after  time.Duration
		billed bool
	}{
		{name: "no candidates", status: 200, body: `{"candidates":[],"usageMetadata":{"promptTokenCount":9}}`, class: providers.Transient, billed: true},
		{name: "a stream that breaks off", status: 200, body: "event: message\ndata: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"Half\"}]}}]}\n\n", class: providers.Transient, billed: true},
		{name: "a gateway's own error", status: 200, body: `{"code":"insufficient_quota","message":"no credit"}`, class: providers.QuotaBilling, billed: true},
		{name: "nothing at all", status: 200, body: `{}`, class: providers.Transient, billed: true},
		// https://github.com/google-gemini/deprecated-generative-ai-python/issues/744
		{name: "no text, and no reason", status: 200, body: `{"candidates":[{"content":{"role":"model"},"finishReason":"STOP","index":0}]}`, class: providers.Transient, billed: true},
		{name: "thoughts alone", status: 200, body: `{"candidates":[{"content":{"parts":[{"text":"hm","thought":true}]},"finishReason":"STOP"}]}`, class: providers.Transient, billed: true},
		// https://github.com/agentjido/req_llm/issues/944
		{name: "a call of a tool that there is none", status: 200, body: `{"candidates":[{"finishReason":"UNEXPECTED_TOOL_CALL"}]}`, class: providers.Transient, billed: true},
		{name: "a broken call of a tool", status: 200, body: `{"candidates":[{"content":{},"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"Malformed function call: print("}]}`, class: providers.Transient, billed: true},
		{name: "an end not foreseen", status: 200, body: `{"candidates":[{"content":{"parts":[{"text":"Half"}]},"finishReason":"AIza-secret-key"}]}`, class: providers.Transient, billed: true},
		{name: "a web page", status: 200, body: `<html>Welcome</html>`, class: providers.Transient, billed: true},
		{name: "cut JSON", status: 200, body: `{"candidates":[{"content":{"parts":[{"te`, class: providers.Transient, billed: true},
		{name: "an error with status 200", status: 200, body: `{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED"}}`, class: providers.RateLimited, billed: true},

		{name: "a minute's quota", status: 429, body: `{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.07s"}]}}`, class: providers.RateLimited, after: 34070 * time.Millisecond},
		{name: "a day's quota", status: 429, body: `{"error":{"code":429,"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}]}}`, class: providers.QuotaDaily},
		{name: "overload", status: 503, body: `{"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}`, class: providers.Overloaded},
		{name: "too long", status: 400, body: `{"error":{"code":400,"message":"The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}`, class: providers.ContextLength},
		{name: "a wrong key, repeated", status: 400, body: `{"error":{"code":400,"message":"API key AIza-secret-key not valid.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}`, class: providers.Auth},
		{name: "no such model", status: 404, body: `{"error":{"code":404,"message":"models/gemini-9 is not found for API version v1beta","status":"NOT_FOUND"}}`, class: providers.ModelUnavailable},
		{name: "a tool beside JSON", status: 400, body: `{"error":{"code":400,"message":"Tool use with a response mime type: 'application/json' is unsupported","status":"INVALID_ARGUMENT"}}`, class: providers.BadRequest},
		{name: "an internal error", status: 500, body: `{"error":{"code":500,"message":"An internal error has occurred","status":"INTERNAL"}}`, class: providers.Transient, billed: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			provider := endpoint(t, providers.Capabilities{}, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
			})
			result, err := provider.Call(t.Context(), request())
			var got *providers.Error
			if !errors.As(err, &got) {
				t.Fatalf("got result %+v and error %v, want a *providers.Error", result, err)
			}
			if got.Class != test.class || got.RetryAfter != test.after || got.MayBeBilled != test.billed || got.Status != test.status {
				t.Errorf("got %+v, want class %s, retry after %v, may be billed %v", got, test.class, test.after, test.billed)
			}
			if shown := fmt.Sprintf("%+v %v %s", *got, errors.Unwrap(got), got.Raw); strings.Contains(shown, "AIza-secret-key") {
				t.Errorf("the error shows the key: %s", shown)
			}
		})
	}
}

func FuzzAnswer(f *testing.F) {
	var body []byte
	provider := endpoint(f, providers.Capabilities{}, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
	providertest.Fuzz(f, []string{
		good, `{"candidates":[{"content":{"parts":[{"text":"hm","thought":true}]},"finishReason":"MAX_TOKENS"}],"usageMetadata":{"promptTokenCount":1e99}}`,
		`{"promptFeedback":{"blockReason":"SAFETY"}}`, `{"candidates":[{"finishReason":"OTHER"}]}`,
		`{"candidates":[{"content":{"parts":[{"text":"B"}]},"groundingMetadata":{"webSearchQueries":["q",""],"groundingChunks":[{"web":{"uri":"u"}},{}]}}]}`,
		`{"error":{"code":429}}`, `{"error":"x"}`, `null`, `[]`, `{"usageMetadata":null}`,
	}, func(t *testing.T, answer []byte) (*providers.Result, error) {
		body = answer
		return provider.Call(t.Context(), request())
	})
}
