package messages

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/internal/testing/providertest"
	"github.com/evalfleet/evalfleet/providers"
)

const good = `{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"text","text":"B."}],"stop_reason":"end_turn"}`

// TestGoodAnswers holds answers in the shapes of
// https://platform.claude.com/docs/en/api/messages.
func TestGoodAnswers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, body string
		want       providers.Result
	}{
		{
			name: "a stream that was not asked for",
			body: "event: message_start\ndata: {\"type\": \"message_start\", \"message\": {\"model\": \"m\", \"content\": [], \"usage\": {\"input_tokens\": 9, \"output_tokens\": 1}}}\n\nevent: content_block_start\ndata: {\"type\": \"content_block_start\", \"index\": 0, \"content_block\": {\"type\": \"thinking\", \"thinking\": \"\"}}\n\nevent: content_block_delta\ndata: {\"type\": \"content_block_delta\", \"index\": 0, \"delta\": {\"type\": \"thinking_delta\", \"thinking\": \"Hm.\"}}\n\nevent: content_block_stop\ndata: {\"type\": \"content_block_stop\", \"index\": 0}\n\nevent: ping\ndata: {\"type\": \"ping\"}\n\nevent: content_block_start\ndata: {\"type\": \"content_block_start\", \"index\": 1, \"content_block\": {\"type\": \"text\", \"text\": \"\"}}\n\nevent: content_block_delta\ndata: {\"type\": \"content_block_delta\", \"index\": 1, \"delta\": {\"type\": \"text_delta\", \"text\": \"B\"}}\n\nevent: content_block_delta\ndata: {\"type\": \"content_block_delta\", \"index\": 1, \"delta\": {\"type\": \"text_delta\", \"text\": \".\"}}\n\nevent: message_delta\ndata: {\"type\": \"message_delta\", \"delta\": {\"stop_reason\": \"end_turn\"}, \"usage\": {\"output_tokens\": 7}}\n\nevent: message_stop\ndata: {\"type\": \"message_stop\"}\n\n",
			want: providers.Result{Text: "B.", Reasoning: "Hm.", Finish: providers.FinishStop, Model: "m", Usage: providers.Usage{Reported: true, Input: 9, Output: 7}},
		},
		{
			name: "input leaves the cache out, output has thinking in it",
			body: `{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-4-6","content":[{"type":"thinking","thinking":"Weighing. ","signature":"Eo=="},{"type":"redacted_thinking","data":"Ab=="},{"type":"thinking","thinking":"Hm.","signature":"Ec=="},{"type":"text","text":"B.","citations":null}],"stop_reason":"end_turn","stop_sequence":null,"stop_details":null,"container":null,"usage":{"input_tokens":88,"cache_creation_input_tokens":300,"cache_read_input_tokens":512,"output_tokens":240,"output_tokens_details":{"thinking_tokens":192},"server_tool_use":null,"service_tier":"standard"}}`,
			want: providers.Result{Text: "B.", Reasoning: "Weighing. Hm.", Finish: providers.FinishStop, Model: "claude-opus-4-6", Usage: providers.Usage{Reported: true, Input: 900, Output: 240, Cached: 512, Written: 300, Reasoning: 192}},
		},
		{
			name: "a search", // https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool#response
			body: `{"role":"assistant","content":[` +
				`{"type":"text","text":"I'll search."},` +
				`{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"claude shannon birth date"}},` +
				`{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","url":"https://en.wikipedia.org/wiki/Claude_Shannon","title":"Claude Shannon - Wikipedia","encrypted_content":"Eq==","page_age":"April 30, 2025"},{"type":"web_search_result","url":"https://b.example/","title":"B","encrypted_content":"Er=="}]},` +
				`{"type":"text","text":"He was born "},` +
				`{"type":"text","text":"in 1916","citations":[{"type":"web_search_result_location","url":"https://b.example/","title":"B","encrypted_index":"Es==","cited_text":"Claude Elwood Shannon (April 30, 1916"}]},` +
				`{"type":"text","text":"."}],` +
				`"id":"msg_a","stop_reason":"end_turn","usage":{"input_tokens":6039,"output_tokens":931,"server_tool_use":{"web_search_requests":1}}}`,
			want: providers.Result{
				Text: "I'll search.\n\nHe was born in 1916.", Finish: providers.FinishStop,
				Usage: providers.Usage{Reported: true, Input: 6039, Output: 931},
				Grounding: providers.Grounding{
					Searches: 1, Queries: []string{"claude shannon birth date"},
					Sources: []providers.Source{{URL: "https://b.example/", Title: "B"}, {URL: "https://en.wikipedia.org/wiki/Claude_Shannon", Title: "Claude Shannon - Wikipedia"}},
				},
			},
		},
		{
			name: "a search that failed is no evidence", // …/web-search-tool#errors
			body: `{"content":[{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"q"}},{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":{"type":"web_search_tool_result_error","error_code":"max_uses_exceeded"}},{"type":"text","text":"B."}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1,"server_tool_use":{"web_search_requests":1}}}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Usage: providers.Usage{Reported: true, Input: 1, Output: 1}},
		},
		{
			name: "one search of three was answered, without a count; one found nothing",
			body: `{"content":[` +
				`{"type":"server_tool_use","id":"1","name":"web_search","input":{"query":"q1"}},{"type":"web_search_tool_result","tool_use_id":"1","content":{"type":"web_search_tool_result_error","error_code":"unavailable"}},` +
				`{"type":"server_tool_use","id":"2","name":"web_search","input":{"query":"q2"}},{"type":"web_search_tool_result","tool_use_id":"2","content":[]},` +
				`{"type":"server_tool_use","id":"3","name":"web_search","input":{"query":"q3"}},` +
				`{"type":"server_tool_use","id":"2","name":"code_execution","input":{"query":"q4"}},` +
				`{"type":"text","text":"B."}],"stop_reason":"stop_sequence"}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Grounding: providers.Grounding{Searches: 1, Queries: []string{"q2"}}},
		},
		{
			name: "thinking took all of the output",
			body: `{"content":[{"type":"thinking","thinking":"","signature":"Eo=="}],"stop_reason":"max_tokens","usage":{"input_tokens":9,"output_tokens":64,"output_tokens_details":{"thinking_tokens":64}}}`,
			want: providers.Result{Finish: providers.FinishTruncated, Usage: providers.Usage{Reported: true, Input: 9, Output: 64, Reasoning: 64}},
		},
		{
			name: "the window is full", // https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons
			body: `{"content":[{"type":"text","text":"Half a"}],"stop_reason":"model_context_window_exceeded"}`,
			want: providers.Result{Text: "Half a", Finish: providers.FinishTruncated, Reason: "model_context_window_exceeded"},
		},
		{
			name: "a priority tier", // https://platform.claude.com/docs/en/api/service-tiers
			body: `{"content":[{"type":"text","text":"B."}],"stop_reason":"end_turn","usage":{"input_tokens":410,"output_tokens":585,"service_tier":"priority"}}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Usage: providers.Usage{Reported: true, Input: 410, Output: 585, Tier: "priority"}},
		},
		{
			name: "a refusal, explained",
			body: `{"content":[],"stop_reason":"refusal","stop_details":{"type":"refusal","category":"bio","explanation":"This request was declined."}}`,
			want: providers.Result{Text: "This request was declined.", Finish: providers.FinishRefused, Reason: "bio: This request was declined."},
		},
		{
			name: "a refusal without a word",
			body: `{"content":[],"stop_reason":"refusal","stop_details":null}`,
			want: providers.Result{Text: "the model refused", Finish: providers.FinishRefused},
		},
		{
			name: "counts that are no whole numbers, evidence of another form",
			body: `{"content":[{"type":"text","text":"B.","citations":7},{"type":"web_search_tool_result","content":"x"},{"type":"server_tool_use","input":[]}],"stop_reason":"end_turn","usage":{"input_tokens":"?","output_tokens":2.0,"cache_read_input_tokens":-1}}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Usage: providers.Usage{Reported: true, Output: 2}},
		},
		{
			name: "usage of another form",
			body: `{"content":[{"type":"text","text":"B."}],"stop_reason":"end_turn","usage":[]}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			provider := endpoint(t, providers.Capabilities{}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Request-Id", "req_1")
				w.Header().Set("Anthropic-Ratelimit-Requests-Limit", "60")
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

func TestStructuredAnswer(t *testing.T) {
	t.Parallel()
	provider := endpoint(t, providers.Capabilities{}, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":" {\"winner\":\"a\"}\n"}],"stop_reason":"end_turn"}`)
	})
	result, err := provider.Call(t.Context(), with(func(r *providers.Request) { r.Schema = &providers.Schema{Schema: []byte(`{}`)} }))
	if err != nil || string(result.JSON) != `{"winner":"a"}` {
		t.Errorf("got %+v, %v, want the JSON value", result, err)
	}
}

// TestFailures holds what this dialect alone can meet, and failures in Anthropic's
// words (https://platform.claude.com/docs/en/api/errors). The rest is transport's.
func TestFailures(t *testing.T) {
	t.Parallel()
	type headers map[string]string
	for _, test := range []struct {
		name   string
		status int
		header headers
		body   string
		class  providers.Class
		after  time.Duration
		billed bool
	}{
		{name: "no text, and no reason", status: 200, body: `{"content":[],"stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":2}}`, class: providers.Transient, billed: true},
		{name: "nothing at all", status: 200, body: `{}`, class: providers.Transient, billed: true},
		{name: "minimax, status 200", status: 200, body: `{"content":null,"base_resp":{"status_code":1002,"status_msg":"rate limit"}}`, class: providers.RateLimited, billed: true},
		{name: "a stream that breaks off", status: 200, body: "event: message_start\ndata: {\"type\": \"message_start\", \"message\": {\"model\": \"m\"}}\n\n", class: providers.Transient, billed: true},
		{name: "a stream with an error", status: 200, body: "event: error\ndata: {\"type\": \"error\", \"error\": {\"type\": \"overloaded_error\", \"message\": \"Overloaded\"}}\n\n", class: providers.Overloaded, billed: true},
		{name: "a tool that is not run", status: 200, body: `{"content":[{"type":"text","text":"Half"},{"type":"tool_use","id":"toolu_1","name":"f","input":{}}],"stop_reason":"tool_use"}`, class: providers.Transient, billed: true},
		{name: "a block that is none", status: 200, body: `{"content":[7],"stop_reason":"end_turn"}`, class: providers.Transient, billed: true},
		{name: "a web page", status: 200, body: `<html>Welcome</html>`, class: providers.Transient, billed: true},
		{name: "cut JSON", status: 200, body: `{"content":[{"type":"te`, class: providers.Transient, billed: true},
		{name: "an error with status 200", status: 200, body: `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, class: providers.Overloaded, billed: true},

		{name: "overload", status: 529, body: `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}`, class: providers.Overloaded},
		{name: "the rate", status: 429, header: headers{"Retry-After": "12"}, body: `{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your organization's rate limit of 50 requests per minute."}}`, class: providers.RateLimited, after: 12 * time.Second},
		{name: "a spend limit", status: 429, header: headers{"Retry-After": "60"}, body: `{"type":"error","error":{"type":"rate_limit_error","message":"limit","details":{"error_code":"enforced_spend_limit_reached"}}}`, class: providers.QuotaBilling},
		{name: "no credit", status: 400, body: `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}`, class: providers.QuotaBilling},
		{name: "too long", status: 400, body: `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`, class: providers.ContextLength},
		{name: "too large", status: 413, body: `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`, class: providers.ContextLength},
		{name: "a wrong key, repeated", status: 401, body: `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key sk-ant-secret-key"}}`, class: providers.Auth},
		{name: "no such model", status: 404, body: `{"type":"error","error":{"type":"not_found_error","message":"model: claude-9"}}`, class: providers.ModelUnavailable},
		{name: "a field that is refused", status: 400, body: `{"type":"error","error":{"type":"invalid_request_error","message":"\"thinking.type.enabled\" is not supported for this model."}}`, class: providers.BadRequest},
		{name: "an internal error", status: 500, body: `{"type":"error","error":{"type":"api_error","message":"Internal server error"}}`, class: providers.Transient, billed: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			provider := endpoint(t, providers.Capabilities{}, func(w http.ResponseWriter, _ *http.Request) {
				for name, value := range test.header {
					w.Header().Set(name, value)
				}
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
			if shown := fmt.Sprintf("%+v %v %s", *got, errors.Unwrap(got), got.Raw); strings.Contains(shown, "sk-ant-secret-key") {
				t.Errorf("the error shows the key: %s", shown)
			}
		})
	}
}

func FuzzAnswer(f *testing.F) {
	var body []byte
	provider := endpoint(f, providers.Capabilities{}, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
	providertest.Fuzz(f, []string{
		good, `{"content":[{"type":"thinking","thinking":"hm"}],"stop_reason":"max_tokens","usage":{"input_tokens":1e99}}`,
		`{"content":[],"stop_reason":"refusal"}`, `{"content":[{"type":"text","text":"B"}],"stop_reason":"pause_turn"}`,
		`{"content":[{"type":"server_tool_use","id":"1","name":"web_search","input":{"query":"q"}},{"type":"web_search_tool_result","tool_use_id":"1","content":[{"url":"u"}]},{"type":"text","text":"B","citations":[{"url":"u"}]}],"stop_reason":"end_turn"}`,
		`{"error":{"type":"overloaded_error"}}`, `{"error":"x"}`, `null`, `[]`, `{"usage":null,"content":[null]}`,
	}, func(t *testing.T, answer []byte) (*providers.Result, error) {
		body = answer
		return provider.Call(t.Context(), request())
	})
}
