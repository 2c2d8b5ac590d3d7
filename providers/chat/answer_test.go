package chat

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/internal/testing/providertest"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/transport"
)

func usd(v float64) *float64 { return &v }

// TestGoodAnswers holds answers in the shapes of several vendors.
func TestGoodAnswers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, body string
		want       providers.Result
	}{
		{
			name: "openai",
			body: `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"gpt-5-mini-2025-08-07","choices":[{"index":0,"message":{"role":"assistant","content":"B.","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":900,"completion_tokens":240,"total_tokens":1140,"prompt_tokens_details":{"cached_tokens":512,"cache_write_tokens":300,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":192}},"service_tier":"default"}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Model: "gpt-5-mini-2025-08-07", Usage: providers.Usage{Reported: true, Input: 900, Output: 240, Cached: 512, Written: 300, Reasoning: 192}},
		},
		{
			name: "log probabilities", // as the API documents them
			body: `{"model":"m","choices":[{"message":{"content":"B."},"logprobs":{"content":[{"token":"B","logprob":-0.25,"bytes":[66],"top_logprobs":[{"token":"B","logprob":-0.25,"bytes":[66]},{"token":"A","logprob":-1.5,"bytes":[65]}]},{"token":".","logprob":0,"bytes":[46],"top_logprobs":[]}],"refusal":null},"finish_reason":"stop"}]}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Model: "m", Tokens: []providers.Token{
				{Alternative: providers.Alternative{Text: "B", LogProb: -0.25}, Top: []providers.Alternative{{Text: "B", LogProb: -0.25}, {Text: "A", LogProb: -1.5}}},
				{Alternative: providers.Alternative{Text: ".", LogProb: 0}},
			}},
		},
		{
			name: "log probabilities in a stream that was not asked for",
			body: "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"B\"},\"logprobs\":{\"content\":[{\"token\":\"B\",\"logprob\":-0.25}]}}]}\n\n" +
				"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\".\"},\"logprobs\":{\"content\":[{\"token\":\".\",\"logprob\":-1}]},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Model: "m", Tokens: []providers.Token{
				{Alternative: providers.Alternative{Text: "B", LogProb: -0.25}}, {Alternative: providers.Alternative{Text: ".", LogProb: -1}},
			}},
		},
		{
			name: "log probabilities in another form", // of the older API, and of Together
			body: `{"model":"m","choices":[{"message":{"content":"B."},"logprobs":{"tokens":["B","."],"token_logprobs":[-0.25,0],"content":7},"finish_reason":"stop"}]}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Model: "m"},
		},
		{
			name: "openai refuses",
			body: `{"model":"gpt-5","choices":[{"message":{"role":"assistant","content":null,"refusal":"I can't help with that."},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":8,"total_tokens":17}}`,
			want: providers.Result{Text: "I can't help with that.", Finish: providers.FinishRefused, Reason: "I can't help with that.", Model: "gpt-5", Usage: providers.Usage{Reported: true, Input: 9, Output: 8}},
		},
		{
			name: "azure filters the answer",
			body: `{"model":"gpt-4.1","prompt_filter_results":[],"choices":[{"message":{"content":"Half a"},"finish_reason":"content_filter","content_filter_results":{"hate":{"filtered":true}}}]}`,
			want: providers.Result{Text: "Half a", Finish: providers.FinishRefused, Reason: "content_filter", Model: "gpt-4.1"},
		},
		{
			name: "a verdict in the reasoning alone",
			body: `{"model":"m","choices":[{"message":{"content":null,"reasoning_content":" {\"winner\":\"B\"}\n"},"finish_reason":"stop"}]}`,
			want: providers.Result{Text: `{"winner":"B"}`, Finish: providers.FinishStop, Model: "m"},
		},
		{
			name: "a stream that was not asked for",
			body: ": PROCESSING\n\ndata: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"reasoning_content\":\"h\"},\"finish_reason\":null}]}\r\n\r\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"B\",\"reasoning_content\":\"m\"}}]}\n\ndata:{\"choices\":[{\"index\":0,\"delta\":{\"content\":\".\"},\"finish_reason\":\"stop\"}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n",
			want: providers.Result{Text: "B.", Reasoning: "hm", Finish: providers.FinishStop, Model: "m", Usage: providers.Usage{Reported: true, Input: 9, Output: 2}},
		},
		{
			name: "a whole answer as the one event",
			body: "data: {\"model\":\"m\",\"choices\":[{\"message\":{\"content\":\"B.\"},\"finish_reason\":\"stop\"}]}",
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Model: "m"},
		},
		{
			name: "a filter with a word of its own",
			body: `{"model":"m","choices":[{"message":{"content":""},"finish_reason":"flagged"}]}`,
			want: providers.Result{Finish: providers.FinishRefused, Reason: "flagged", Model: "m"},
		},
		{
			name: "reasoning took all of the output",
			body: `{"model":"gpt-5","choices":[{"message":{"content":""},"finish_reason":"length"}],"usage":{"prompt_tokens":9,"completion_tokens":64,"total_tokens":73,"completion_tokens_details":{"reasoning_tokens":64}}}`,
			want: providers.Result{Finish: providers.FinishTruncated, Model: "gpt-5", Usage: providers.Usage{Reported: true, Input: 9, Output: 64, Reasoning: 64}},
		},
		{
			name: "xAI reports the cost in ticks, and the tier", // https://docs.x.ai/developers/cost-tracking
			body: `{"model":"grok-4.6","choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"B."}}],"usage":{"prompt_tokens":199,"completion_tokens":1,"total_tokens":200,"cost_in_usd_ticks":158500},"service_tier":"priority"}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Model: "grok-4.6", Usage: providers.Usage{Reported: true, Input: 199, Output: 1, Tier: "priority", CostUSD: usd(0.00001585)}},
		},
		{
			name: "Perplexity reports the parts of the cost", // https://docs.perplexity.ai/api-reference/chat-completions-post
			body: `{"model":"sonar","choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"B."}}],"usage":{"prompt_tokens":14,"completion_tokens":70,"total_tokens":84,"cost":{"input_tokens_cost":0.0,"output_tokens_cost":0.0,"request_cost":0.005,"total_cost":0.006}},"service_tier":"default"}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Model: "sonar", Usage: providers.Usage{Reported: true, Input: 14, Output: 70, CostUSD: usd(0.006)}},
		},
		{
			name: "Perplexity lists what it found beside the message", // as recorded: ruby_llm, spec/fixtures/vcr_cassettes/chat_basic_chat_functionality_perplexity_sonar_returns_raw_responses.yml
			body: `{"model":"sonar","choices":[{"index":0,"message":{"role":"assistant","content":"B.[2][1]"},"delta":{"role":"assistant","content":""},"finish_reason":"stop"}],"usage":{"prompt_tokens":8,"completion_tokens":15,"total_tokens":23,"search_context_size":"low","cost":{"input_tokens_cost":1e-05,"output_tokens_cost":1e-05,"request_cost":0.005,"total_cost":0.00502}},"citations":["https://a.example/1","https://b.example/"],"search_results":[{"title":"A","url":"https://a.example/1","last_updated":"2026-06-08","snippet":"…","source":"web"}]}`,
			want: providers.Result{
				Text: "B.[2][1]", Finish: providers.FinishStop, Model: "sonar", Usage: providers.Usage{Reported: true, Input: 8, Output: 15, CostUSD: usd(0.00502)},
				Grounding: providers.Grounding{Sources: []providers.Source{{URL: "https://a.example/1", Title: "A"}, {URL: "https://b.example/"}}},
			},
		},
		{
			name: "Perplexity counts the queries of deep research", // https://docs.perplexity.ai/api-reference/chat-completions-post
			body: `{"model":"sonar-deep-research","choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"B."}}],"usage":{"prompt_tokens":33,"completion_tokens":70,"total_tokens":103,"citation_tokens":20,"num_search_queries":18}}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Model: "sonar-deep-research", Usage: providers.Usage{Reported: true, Input: 33, Output: 70}, Grounding: providers.Grounding{Searches: 18}},
		},
		{
			name: "Groq's systems say what they ran", // as recorded: pydantic-ai, tests/models/cassettes/test_groq/test_groq_web_search_tool_domain_filters.yaml
			body: `{"model":"groq/compound","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"B.","executed_tools":[{"index":0,"type":"search","arguments":"{\"query\": \"a or b\"}","output":"Title: A","search_results":{"results":[{"title":"A","url":"https://a.example/","content":"…","score":0.9}]}},{"index":1,"type":"visit","arguments":"{\"url\": \"https://b.example/\"}","output":"…","search_results":{"results":[]}},{"index":2,"type":"python","arguments":7}]}}],"usage":{"prompt_tokens":14100,"completion_tokens":921,"total_tokens":15021},"usage_breakdown":{"models":[]},"service_tier":"on_demand"}`,
			want: providers.Result{
				Text: "B.", Finish: providers.FinishStop, Model: "groq/compound", Usage: providers.Usage{Reported: true, Input: 14100, Output: 921},
				Grounding: providers.Grounding{Searches: 1, Queries: []string{"a or b"}, Sources: []providers.Source{{URL: "https://a.example/", Title: "A"}}},
			},
		},
		{
			name: "OpenRouter counts the searches of its server tool", // https://openrouter.ai/docs/guides/features/server-tools
			body: `{"model":"openai/gpt-5.4","choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"B."}}],"usage":{"prompt_tokens":100,"completion_tokens":50,"total_tokens":150,"cost":0.012,"server_tool_use_details":{"web_search_requests":2,"tool_calls_requested":2,"tool_calls_executed":2}}}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Model: "openai/gpt-5.4", Usage: providers.Usage{Reported: true, Input: 100, Output: 50, CostUSD: usd(0.012)}, Grounding: providers.Grounding{Searches: 2}},
		},
		{
			name: "Mistral's cache", // https://docs.mistral.ai/api/endpoint/chat
			body: `{"model":"mistral-large-latest","choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"B."}}],"usage":{"prompt_tokens":1016,"completion_tokens":5,"total_tokens":1021,"num_cached_tokens":1008}}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Model: "mistral-large-latest", Usage: providers.Usage{Reported: true, Input: 1016, Output: 5, Cached: 1008}},
		},
		{
			name: "openrouter reports the cost",
			body: `{"id":"gen-1","provider":"Novita","model":"meta-llama/llama-3.3-70b-instruct","error":null,"choices":[{"finish_reason":"stop","native_finish_reason":"eos","message":{"role":"assistant","content":"B.","reasoning":"hm"}}],"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12,"cost":0.000123,"is_byok":false}}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Model: "meta-llama/llama-3.3-70b-instruct", Usage: providers.Usage{Reported: true, Input: 10, Output: 2, CostUSD: usd(0.000123)}, Reasoning: "hm"},
		},
		{
			// https://openrouter.ai/docs/guides/features/server-tools/web-search
			name: "openrouter searches",
			body: `{"model":"openai/gpt-5","choices":[{"finish_reason":"stop","message":{"content":"B.","annotations":[{"type":"url_citation","url_citation":{"url":"https://a.example/x","title":"A","content":"…","start_index":1,"end_index":9}},{"type":"file","file":{"hash":"h"}},{"type":"url_citation","url_citation":{"url":"https://a.example/x","title":"again"}},{"type":"url_citation","url_citation":{"url":"https://b.example"}}]}}],"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12,"server_tool_use":{"web_search_requests":2}}}`,
			want: providers.Result{
				Text: "B.", Finish: providers.FinishStop, Model: "openai/gpt-5", Usage: providers.Usage{Reported: true, Input: 10, Output: 2},
				Grounding: providers.Grounding{Searches: 2, Sources: []providers.Source{{URL: "https://a.example/x", Title: "A"}, {URL: "https://b.example"}}},
			},
		},
		{
			// https://developers.openai.com/api/docs/guides/tools-web-search
			name: "openai's search model",
			body: `{"model":"gpt-5-search-api","choices":[{"index":0,"message":{"role":"assistant","content":"B.","refusal":null,"annotations":[{"type":"url_citation","url_citation":{"end_index":985,"start_index":764,"title":"T","url":"https://a.example"}}]},"finish_reason":"stop"}]}`,
			want: providers.Result{
				Text: "B.", Finish: providers.FinishStop, Model: "gpt-5-search-api",
				Grounding: providers.Grounding{Sources: []providers.Source{{URL: "https://a.example", Title: "T"}}},
			},
		},
		{
			// https://api-docs.deepseek.com/guides/reasoning_model
			name: "deepseek reasons",
			body: `{"model":"deepseek-reasoner","choices":[{"message":{"content":"B.","reasoning_content":"hm"},"finish_reason":"stop"}],"usage":{"prompt_tokens":30,"completion_tokens":9,"total_tokens":39,"completion_tokens_details":{"reasoning_tokens":7}}}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Model: "deepseek-reasoner", Reasoning: "hm", Usage: providers.Usage{Reported: true, Input: 30, Output: 9, Reasoning: 7}},
		},
		{
			name: "vllm, without usage details",
			body: `{"model":"qwen","choices":[{"message":{"content":"B.","reasoning_content":null,"tool_calls":[]},"finish_reason":"stop","stop_reason":null}],"usage":{"prompt_tokens":10,"total_tokens":12,"completion_tokens":2,"prompt_tokens_details":null}}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Model: "qwen", Usage: providers.Usage{Reported: true, Input: 10, Output: 2}},
		},
		{
			name: "xai leaves reasoning out of the completion",
			body: `{"model":"grok","choices":[{"message":{"content":"B."},"finish_reason":"stop"}],"usage":{"prompt_tokens":30,"completion_tokens":2,"total_tokens":132,"completion_tokens_details":{"reasoning_tokens":100}}}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Model: "grok", Usage: providers.Usage{Reported: true, Input: 30, Output: 102, Reasoning: 100}},
		},
		{
			name: "deepseek's cache",
			body: `{"model":"deepseek-chat","choices":[{"message":{"content":"B."},"finish_reason":"stop"}],"usage":{"prompt_tokens":30,"completion_tokens":2,"total_tokens":32,"prompt_cache_hit_tokens":20,"prompt_cache_miss_tokens":10}}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Model: "deepseek-chat", Usage: providers.Usage{Reported: true, Input: 30, Output: 2, Cached: 20}},
		},
		{
			name: "mistral's thoughts are parts",
			body: `{"model":"magistral","choices":[{"message":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"B"},{"type":"text","text":"."}]},"finish_reason":"model_length"}]}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishTruncated, Model: "magistral", Reasoning: "hm"},
		},
		{
			name: "evidence of forms not foreseen",
			body: `{"choices":[{"message":{"content":[{"type":"thinking","thinking":"so"},{"type":"thinking","thinking":7},{"type":"text","text":"B."}],"reasoning":{"steps":[]},"annotations":{"url_citation":1}},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,"prompt_tokens_details":[],"server_tool_use":"none"}}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Reasoning: "so", Usage: providers.Usage{Reported: true, Input: 3, Output: 2}},
		},
		{
			name: "counts that are no whole numbers, and no finish reason",
			body: `{"choices":[{"message":{"content":"B."},"finish_reason":null}],"usage":{"prompt_tokens":"?","completion_tokens":2.0,"total_tokens":-1,"cost":"free"}}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Usage: providers.Usage{Reported: true, Output: 2}},
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

// TestFailures holds the ways in which this dialect meets a failure; what the
// vendors say in them is classified, and tested, in transport.
func TestFailures(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		status int
		body   string
		class  providers.Class
		code   string
		after  time.Duration
		billed bool
	}{
		{name: "refused", status: 429, body: `{"error":{"message":"Rate limit reached. Please try again in 1.574s.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`, class: providers.RateLimited, code: "rate_limit_exceeded", after: 1574 * time.Millisecond},
		{name: "lm studio, status 200", status: 200, body: `{"error":"The number of tokens to keep from the initial prompt is greater than the context length."}`, class: providers.ContextLength, billed: true},
		{name: "openrouter, status 200", status: 200, body: `{"id":"gen-1","error":{"code":429,"message":"Provider returned error","metadata":{"raw":"upstream is temporarily rate-limited","provider_name":"X"}},"user_id":"u"}`, class: providers.RateLimited, billed: true},
		{name: "error in 200 without a known code", status: 200, body: `{"error":{"code":"server_error","message":"x"}}`, class: providers.Transient, code: "server_error", billed: true},
		{name: "a web page", status: 200, body: `<html>Welcome</html>`, class: providers.Transient, billed: true},
		{name: "nothing", status: 200, class: providers.Transient, billed: true},
		{name: "cut JSON", status: 200, body: `{"choices":[{"message":{"content":"B`, class: providers.Transient, billed: true},
		{name: "no choices", status: 200, body: `{"choices":[]}`, class: providers.Transient, billed: true},
		{name: "a stream that breaks off", status: 200, body: "data: {\"choices\":[{\"delta\":{\"content\":\"Half\"}}]}\n\n", class: providers.Transient, billed: true},
		{name: "a stream with an error", status: 200, body: "data: {\"choices\":[{\"delta\":{\"content\":\"Half\"}}]}\n\ndata: {\"error\":{\"code\":429,\"message\":\"upstream\"}}\n\n", class: providers.RateLimited, billed: true},
		{name: "minimax, status 200", status: 200, body: `{"id":"1","choices":null,"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}`, class: providers.QuotaBilling, code: "1008", billed: true},
		{name: "zhipu's gateway, status 200", status: 200, body: `{"code":1113,"msg":"no resources left","success":false}`, class: providers.QuotaBilling, code: "1113", billed: true},
		{name: "no text, and no reason", status: 200, body: `{"choices":[{"message":{"role":"assistant","content":null},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":1}}`, class: providers.Transient, billed: true},
		{name: "thoughts alone", status: 200, body: `{"choices":[{"message":{"content":"","reasoning_content":"hm"},"finish_reason":"stop"}]}`, class: providers.Transient, billed: true},
		{name: "openrouter breaks off", status: 200, body: `{"choices":[{"message":{"content":"Half"},"finish_reason":"error"}]}`, class: providers.Transient, billed: true},
		{name: "openrouter's error in the choice", status: 200, body: `{"choices":[{"message":{"content":""},"finish_reason":"error","error":{"code":502,"message":"upstream"}}]}`, class: providers.Transient, billed: true},
		{name: "rate limit in the choice", status: 200, body: `{"choices":[{"message":{"content":""},"error":{"code":429,"message":"upstream"}}]}`, class: providers.RateLimited, billed: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			provider := endpoint(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Request-Id", "req_9")
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
			})
			result, err := provider.Call(t.Context(), request())
			var got *providers.Error
			if !errors.As(err, &got) {
				t.Fatalf("got result %+v and error %v, want a *providers.Error", result, err)
			}
			if got.Class != test.class || got.Code != test.code || got.RetryAfter != test.after || got.MayBeBilled != test.billed {
				t.Errorf("got class %s, code %q, retry after %v, may be billed %v (%s); want %s, %q, %v, %v",
					got.Class, got.Code, got.RetryAfter, got.MayBeBilled, got.Message, test.class, test.code, test.after, test.billed)
			}
			if got.Status != test.status || got.RequestID != "req_9" || string(got.Raw) != test.body || got.Message == "" {
				t.Errorf("got status %d, id %q, message %q, body %q", got.Status, got.RequestID, got.Message, got.Raw)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	providertest.Fuzz(f, []string{
		`{"choices":[{"message":{"content":"B"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1e99}}`,
		`{"choices":[{"message":{"content":[{"type":"text","text":"B"}],"refusal":"no"}}]}`,
		`{"choices":[{"message":{"content":[{"type":"thinking","thinking":[{"text":"hm"}]}],"reasoning":"x","annotations":[{"url_citation":{"url":"u","title":"t"}}]}}]}`,
		`{"usage":{"server_tool_use":{"web_search_requests":3},"cost":0.1},"choices":[{"finish_reason":"length","message":{"content":null,"reasoning_content":"y"}}]}`,
		`{"error":{"code":429}}`, `{"error":"x"}`, `{"choices":[{"error":null}]}`, `null`, `[]`, `{"usage":null}`,
	}, func(_ *testing.T, body []byte) (*providers.Result, error) {
		return decode(&transport.Answer{Body: body})
	})
}
