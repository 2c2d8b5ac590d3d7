package responses

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/internal/testing/providertest"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// TestGoodAnswers holds answers in the shapes that vendors document.
func TestGoodAnswers(t *testing.T) {
	t.Parallel()
	cost := 0.002
	for _, test := range []struct {
		name, body string
		want       providers.Result
	}{
		{
			name: "a stream that was not asked for",
			body: "event: response.created\ndata: {\"type\": \"response.created\", \"response\": {\"id\": \"r\", \"status\": \"in_progress\", \"output\": []}}\n\nevent: response.output_text.delta\ndata: {\"type\": \"response.output_text.delta\", \"delta\": \"B.\"}\n\nevent: response.completed\ndata: {\"type\": \"response.completed\", \"response\": {\"id\": \"r\", \"status\": \"completed\", \"model\": \"m\", \"output\": [{\"type\": \"message\", \"content\": [{\"type\": \"output_text\", \"text\": \"B.\"}]}], \"usage\": {\"input_tokens\": 9, \"output_tokens\": 2}}}\n\n",
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Model: "m", Usage: providers.Usage{Reported: true, Input: 9, Output: 2}},
		},
		{
			// https://developers.openai.com/api/reference/resources/responses/methods/create
			name: "openai",
			body: `{"id":"resp_67cc","object":"response","created_at":1741476542,"status":"completed","error":null,"incomplete_details":null,"instructions":null,"max_output_tokens":null,"model":"gpt-4.1-2025-04-14","output":[{"type":"message","id":"msg_67cc","status":"completed","role":"assistant","content":[{"type":"output_text","text":"B.","annotations":[]}]}],"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"store":true,"temperature":1.0,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_p":1.0,"truncation":"disabled","usage":{"input_tokens":36,"input_tokens_details":{"cached_tokens":12,"cache_write_tokens":20},"output_tokens":87,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":123},"user":null,"metadata":{}}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Model: "gpt-4.1-2025-04-14", Usage: providers.Usage{Reported: true, Input: 36, Output: 87, Cached: 12, Written: 20}},
		},
		{
			// https://developers.openai.com/api/docs/guides/reasoning
			name: "openai reasons",
			body: `{"id":"resp_1","status":"completed","model":"gpt-5","output":[{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"**One**"},{"type":"summary_text","text":"**Two**"}],"encrypted_content":"gAAA"},{"id":"msg_1","type":"message","status":"completed","phase":"commentary","content":[{"type":"output_text","text":"Let me look."}]},{"id":"msg_2","type":"message","status":"completed","phase":"final_answer","content":[{"type":"output_text","text":"B"},{"type":"output_text","text":"."}]}],"usage":{"input_tokens":75,"output_tokens":1186,"output_tokens_details":{"reasoning_tokens":1024}}}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Model: "gpt-5", Reasoning: "**One**\n\n**Two**", Usage: providers.Usage{Reported: true, Input: 75, Output: 1186, Reasoning: 1024}},
		},
		{
			// https://docs.vllm.ai/en/latest/serving/openai_compatible_server/
			name: "an open model shows its thoughts",
			body: `{"id":"resp_1","status":"completed","model":"openai/gpt-oss-20b","output":[{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},{"type":"message","content":[{"type":"output_text","text":"B."}]}],"usage":{"input_tokens":7,"output_tokens":9}}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Model: "openai/gpt-oss-20b", Reasoning: "hm", Usage: providers.Usage{Reported: true, Input: 7, Output: 9}},
		},
		{
			// https://developers.openai.com/api/docs/guides/tools-web-search
			name: "openai searches",
			body: `{"id":"resp_1","status":"completed","model":"gpt-5","output":[` +
				`{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"first","queries":["first","second"],"sources":[{"type":"url","url":"https://a.example"},{"type":"api","name":"oai-weather"},{"type":"url","url":"https://b.example"}]}},` +
				`{"type":"web_search_call","id":"ws_2","status":"completed","action":{"type":"open_page","url":"https://c.example"}},` +
				`{"type":"web_search_call","id":"ws_3","status":"completed","action":{"type":"find_in_page","url":"https://c.example","pattern":"x"}},` +
				`{"type":"web_search_call","id":"ws_4","status":"failed","action":{"type":"search","query":"third","sources":[{"type":"url","url":"https://never.example"}]}},` +
				`{"type":"web_search_call","id":"ws_5","status":"completed","action":{"type":"search","query":"fourth"}},` +
				`{"type":"message","status":"completed","content":[{"type":"output_text","text":"B.","annotations":[{"type":"url_citation","start_index":0,"end_index":2,"url":"https://b.example","title":"Bee"},{"type":"file_citation","filename":"f","url":"https://file.example"},{"type":"url_citation","url":"https://d.example","title":"Dee"}]}]}]}`,
			want: providers.Result{
				Text: "B.", Finish: providers.FinishStop, Model: "gpt-5",
				Grounding: providers.Grounding{
					Searches: 2, Queries: []string{"first", "second", "fourth"},
					Sources: []providers.Source{{URL: "https://a.example"}, {URL: "https://b.example", Title: "Bee"}, {URL: "https://c.example"}, {URL: "https://d.example", Title: "Dee"}},
				},
			},
		},
		{
			name: "a search without an action", // the same page's first example
			body: `{"id":"resp_1","status":"completed","output":[{"type":"web_search_call","id":"ws_1","status":"completed"},{"type":"message","content":[{"type":"output_text","text":"B."}]}]}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Grounding: providers.Grounding{Searches: 1}},
		},
		{
			// https://developers.openai.com/api/docs/guides/structured-outputs
			name: "openai refuses",
			body: `{"id":"resp_1","status":"completed","model":"gpt-5","output":[{"type":"message","content":[{"type":"refusal","refusal":"I'm sorry, I cannot assist with that request."}]}],"usage":{"input_tokens":81,"output_tokens":11}}`,
			want: providers.Result{Text: "I'm sorry, I cannot assist with that request.", Finish: providers.FinishRefused, Reason: "I'm sorry, I cannot assist with that request.", Model: "gpt-5", Usage: providers.Usage{Reported: true, Input: 81, Output: 11}},
		},
		{
			name: "a refusal without words",
			body: `{"status":"completed","output":[{"type":"message","content":[{"type":"refusal"}]}]}`,
			want: providers.Result{Text: "refused without words", Finish: providers.FinishRefused, Reason: "refused without words"},
		},
		{
			name: "truncated", // the same page
			body: `{"id":"resp_1","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"message","status":"incomplete","content":[{"type":"output_text","text":"Half a"}]}]}`,
			want: providers.Result{Text: "Half a", Finish: providers.FinishTruncated},
		},
		{
			name: "reasoning took all of the output",
			body: `{"id":"resp_1","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"reasoning","summary":[]}],"usage":{"input_tokens":9,"output_tokens":64,"output_tokens_details":{"reasoning_tokens":64}}}`,
			want: providers.Result{Finish: providers.FinishTruncated, Usage: providers.Usage{Reported: true, Input: 9, Output: 64, Reasoning: 64}},
		},
		{
			// https://learn.microsoft.com/azure/ai-foundry/openai/concepts/content-filter
			name: "azure filters the answer",
			body: `{"id":"resp_1","status":"incomplete","incomplete_details":{"reason":"content_filter"},"output":[{"type":"message","content":[{"type":"output_text","text":"Half a"}]}]}`,
			want: providers.Result{Text: "Half a", Finish: providers.FinishRefused, Reason: "content_filter"},
		},
		{
			// https://developers.openai.com/api/docs/guides/flex-processing
			name: "OpenAI's flex tier, xAI's ticks",
			body: `{"id":"resp_1","status":"completed","model":"grok-4.6","service_tier":"flex","output":[{"type":"message","content":[{"type":"output_text","text":"B."}]}],"usage":{"input_tokens":3,"output_tokens":2,"cost_in_usd_ticks":20000000}}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Model: "grok-4.6", Usage: providers.Usage{Reported: true, Input: 3, Output: 2, Tier: "flex", CostUSD: &cost}},
		}, {
			// https://openrouter.ai/docs/api_reference/responses/overview
			name: "a gateway reports the cost and no status",
			body: `{"id":"resp_1","model":"openai/o4-mini","output":[{"type":"message","content":[{"type":"output_text","text":"B."}]}],"usage":{"input_tokens":3,"output_tokens":2,"cost":0.002}}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Model: "openai/o4-mini", Usage: providers.Usage{Reported: true, Input: 3, Output: 2, CostUSD: &cost}},
		},
		{
			name: "another word for completed", // a server's own, with an answer that was paid for
			body: `{"id":"resp_1","status":"complete","model":"m","output":[{"type":"message","content":[{"type":"output_text","text":"B."}]}]}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Model: "m"},
		},
		{
			name: "items and fields of forms not foreseen",
			body: `{"status":"completed","output":[7,{"type":"mcp_call","content":1},{"type":"reasoning","summary":"hm"},{"type":"web_search_call","action":"search"},{"type":"message","content":[{"type":"output_text","text":"B.","annotations":{"url":1}}]}],"usage":{"input_tokens":"?","output_tokens":2.0,"output_tokens_details":[]}}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Grounding: providers.Grounding{Searches: 1}, Usage: providers.Usage{Reported: true, Output: 2}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			provider := endpoint(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Request-Id", "req_1")
				w.Header().Set("X-Ratelimit-Limit-Requests", "60")
				_, _ = io.WriteString(w, test.body)
			})
			got, err := provider.Call(t.Context(), request())
			if err != nil {
				t.Fatal(err)
			}
			test.want.Raw, test.want.RequestID = []byte(test.body), "req_1"
			test.want.Limits = []providers.LimitState{{Kind: providers.LimitRequests, Limit: 60, Remaining: -1}}
			if diff := cmp.Diff(&test.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

func TestJSONIsOfRequestsWithASchema(t *testing.T) {
	t.Parallel()
	provider := endpoint(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":" {\"a\":1} "}]}]}`)
	})
	for _, test := range []struct {
		schema *providers.Schema
		want   string
	}{{nil, ""}, {&providers.Schema{Name: "v"}, `{"a":1}`}} {
		req := request()
		req.Schema = test.schema
		result, err := provider.Call(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if string(result.JSON) != test.want {
			t.Errorf("got %q, want %q", result.JSON, test.want)
		}
	}
}

// TestFailures holds what this dialect has beside transport's table: failures in
// an answer with status 200, and answers that are none.
func TestFailures(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		status int
		header string // Retry-After
		body   string
		class  providers.Class
		code   string
		after  time.Duration
		billed bool
	}{
		// The codes are those of the API's reference.
		{"rate limit after 200", 200, "7", `{"id":"resp_1","status":"failed","error":{"code":"rate_limit_exceeded","message":"Rate limit reached"},"output":[],"usage":null}`, providers.RateLimited, "rate_limit_exceeded", 7 * time.Second, true},
		{"rate limit in the midst of it", 200, "", `{"id":"resp_1","status":"failed","error":{"code":"rate_limit_exceeded","message":"Rate limit reached. Please try again in 1.5s."},"output":[],"usage":{"input_tokens":900,"output_tokens":40}}`, providers.RateLimited, "rate_limit_exceeded", 1500 * time.Millisecond, true},
		{"server error after 200", 200, "", `{"id":"resp_1","status":"failed","error":{"code":"server_error","message":"The model failed"}}`, providers.Transient, "server_error", 0, true},
		{"policy after 200", 200, "", `{"id":"resp_1","status":"failed","error":{"code":"invalid_prompt","message":"Invalid prompt: flagged"}}`, providers.Refused, "invalid_prompt", 0, true},
		{"failed without an error", 200, "", `{"id":"resp_1","status":"failed","error":null}`, providers.Transient, "", 0, true},
		{"no text, and no reason", 200, "", `{"id":"resp_1","status":"completed","output":[{"type":"reasoning","summary":[]}],"usage":{"input_tokens":9,"output_tokens":64}}`, providers.Transient, "", 0, true},
		{"cancelled", 200, "", `{"id":"resp_1","status":"cancelled"}`, providers.Cancelled, "", 0, true},
		{"a gateway's error after 200", 200, "", `{"error":{"code":429,"message":"upstream"}}`, providers.RateLimited, "", 0, true},
		{"not ended", 200, "", `{"id":"resp_1","status":"in_progress","output":[]}`, providers.Transient, "", 0, true},
		{"failed with half a text and without an error", 200, "", `{"id":"resp_1","status":"failed","error":null,"output":[{"type":"message","content":[{"type":"output_text","text":"Half a"}]}]}`, providers.Transient, "", 0, true},
		{"an unknown status", 200, "", `{"id":"resp_1","status":"sleeping","output":[]}`, providers.Transient, "", 0, true},
		{"a web page", 200, "", `<html>Welcome</html>`, providers.Transient, "", 0, true},
		{"nothing", 200, "", ``, providers.Transient, "", 0, true},
		{"a stream that breaks off", 200, "", "event: response.created\ndata: {\"type\": \"response.created\", \"response\": {\"id\": \"r\", \"status\": \"in_progress\"}}\n\n", providers.Transient, "", 0, true},
		{"a stream with an error", 200, "", "event: error\ndata: {\"type\": \"error\", \"code\": \"rate_limit_exceeded\", \"message\": \"Rate limit\"}\n\n", providers.RateLimited, "rate_limit_exceeded", 0, true},
		{"a vendor's own error", 200, "", `{"code":"Arrearage","message":"in bad standing"}`, providers.QuotaBilling, "Arrearage", 0, true},
		{"an empty object", 200, "", `{}`, providers.Transient, "", 0, true},
		{"cut JSON", 200, "", `{"id":"resp_1","status":"completed","output":[{"type":"mess`, providers.Transient, "", 0, true},
		{"a message without parts", 200, "", `{"status":"completed","output":[{"type":"message","content":7}]}`, providers.Transient, "", 0, true},
		// https://learn.microsoft.com/azure/ai-foundry/openai/concepts/content-filter
		{"azure's filter", 400, "", `{"error":{"message":"The response was filtered","type":null,"param":"prompt","code":"content_filter","status":400}}`, providers.Refused, "content_filter", 0, false},
		{"openai context", 400, "", `{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}`, providers.ContextLength, "context_length_exceeded", 0, false},
		{"wrong key", 401, "", `{"error":{"message":"Incorrect API key provided: sk-secret-key.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`, providers.Auth, "invalid_api_key", 0, false},
		{"unpaid", 429, "20", `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`, providers.QuotaBilling, "insufficient_quota", 0, false},
		{"overloaded", 503, "2", `{"error":{"message":"The server is overloaded","type":"server_error"}}`, providers.Overloaded, "server_error", 2 * time.Second, false},
		{"no such model", 404, "", `{"error":{"message":"The model 'x' does not exist","type":"invalid_request_error","param":"model","code":"model_not_found"}}`, providers.ModelUnavailable, "model_not_found", 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			provider := endpoint(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
				if test.header != "" {
					w.Header().Set("Retry-After", test.header)
				}
				w.Header().Set("X-Request-Id", "req_9")
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
			})
			result, err := provider.Call(t.Context(), request())
			var got *providers.Error
			if !errors.As(err, &got) || result != nil {
				t.Fatalf("got result %+v and error %v, want a *providers.Error alone", result, err)
			}
			if got.Class != test.class || got.Code != test.code || got.RetryAfter != test.after || got.MayBeBilled != test.billed {
				t.Errorf("got class %s, code %q, retry after %v, may be billed %v (%s); want %s, %q, %v, %v",
					got.Class, got.Code, got.RetryAfter, got.MayBeBilled, got.Message, test.class, test.code, test.after, test.billed)
			}
			raw := strings.ReplaceAll(test.body, "sk-secret-key", "[key]")
			if got.Status != test.status || got.RequestID != "req_9" || string(got.Raw) != raw || got.Message == "" || strings.Contains(got.Message, "sk-secret-key") {
				t.Errorf("got status %d, id %q, message %q, body %q", got.Status, got.RequestID, got.Message, got.Raw)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	providertest.Fuzz(f, []string{
		done,
		`{"status":"incomplete","incomplete_details":{"reason":"content_filter"},"output":[{"type":"message","content":[{"type":"refusal","refusal":"no"}]}]}`,
		`{"status":"completed","output":[{"type":"web_search_call","status":"completed","action":{"type":"search","queries":["q"],"sources":[{"type":"url","url":"u"}]}},{"type":"reasoning","summary":[{"type":"summary_text","text":"s"}]}]}`,
		`{"output":[{"type":"message","phase":"commentary","content":[{"type":"output_text","text":"B","annotations":[{"type":"url_citation","url":"u","title":"t"}]}]}],"usage":{"input_tokens":1,"output_tokens":1e99,"cost":0.1}}`,
		`{"status":"failed","error":{"code":"rate_limit_exceeded","message":"x"}}`, `{"status":"cancelled"}`, `{"status":"queued"}`,
		`{"error":"x"}`, `null`, `[]`, `{"output":null}`, `{"output":[null]}`,
	}, func(_ *testing.T, body []byte) (*providers.Result, error) {
		answer := &transport.Answer{Body: body}
		r, err := decode(answer)
		if err != nil {
			return nil, err
		}
		return r.result(answer)
	})
}
