package chat

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
			body: `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"gpt-5-mini-2025-08-07","choices":[{"index":0,"message":{"role":"assistant","content":"B.","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":900,"completion_tokens":240,"total_tokens":1140,"prompt_tokens_details":{"cached_tokens":512,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":192}},"service_tier":"default"}`,
			want: providers.Result{Text: "B.", Finish: providers.FinishStop, Model: "gpt-5-mini-2025-08-07", Usage: providers.Usage{Reported: true, Input: 900, Output: 240, Cached: 512, Reasoning: 192}},
		},
		{
			name: "openai refuses",
			body: `{"model":"gpt-5","choices":[{"message":{"role":"assistant","content":null,"refusal":"I can't help with that."},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":8,"total_tokens":17}}`,
			want: providers.Result{Text: "I can't help with that.", Finish: providers.FinishRefused, Model: "gpt-5", Usage: providers.Usage{Reported: true, Input: 9, Output: 8}},
		},
		{
			name: "azure filters the answer",
			body: `{"model":"gpt-4.1","prompt_filter_results":[],"choices":[{"message":{"content":"Half a"},"finish_reason":"content_filter","content_filter_results":{"hate":{"filtered":true}}}]}`,
			want: providers.Result{Text: "Half a", Finish: providers.FinishRefused, Model: "gpt-4.1"},
		},
		{
			name: "reasoning took all of the output",
			body: `{"model":"gpt-5","choices":[{"message":{"content":""},"finish_reason":"length"}],"usage":{"prompt_tokens":9,"completion_tokens":64,"total_tokens":73,"completion_tokens_details":{"reasoning_tokens":64}}}`,
			want: providers.Result{Finish: providers.FinishTruncated, Model: "gpt-5", Usage: providers.Usage{Reported: true, Input: 9, Output: 64, Reasoning: 64}},
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

// TestFailures holds every failure that this dialect can meet, in the words of
// the vendors.
func TestFailures(t *testing.T) {
	t.Parallel()
	type headers map[string]string
	for _, test := range []struct {
		name   string
		status int
		header headers
		body   string
		class  providers.Class
		code   string
		after  time.Duration
		billed bool
	}{
		// 1: too long for the model
		{name: "openai context", status: 400, body: `{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, class: providers.ContextLength, code: "context_length_exceeded"},
		{name: "openai context window", status: 400, body: `{"error":{"message":"Your input exceeds the context window of this model.","code":null}}`, class: providers.ContextLength},
		{name: "proxy's 413", status: 413, body: `<html>413 Request Entity Too Large</html>`, class: providers.ContextLength},
		{name: "larger than the bucket", status: 429, header: headers{"Retry-After": "3"}, body: `{"error":{"message":"Request too large for gpt-4.1 on tokens per min (TPM): Limit 30000, Requested 41000.","type":"tokens","code":"rate_limit_exceeded"}}`, class: providers.ContextLength, code: "rate_limit_exceeded"},
		{name: "vllm context", status: 400, body: `{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens","type":"BadRequestError","param":null,"code":400}`, class: providers.ContextLength, code: "badrequesterror"},
		{name: "newer vllm context", status: 400, body: `{"error":{"message":"You passed 9000 input tokens, but the model's context length is only 8192 tokens.","type":"BadRequestError","param":"input_tokens","code":400}}`, class: providers.ContextLength, code: "badrequesterror"},
		{name: "llama.cpp context", status: 400, body: `{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error"}}`, class: providers.ContextLength, code: "exceed_context_size_error"},
		{name: "lm studio context, status 200", status: 200, body: `{"error":"The number of tokens to keep from the initial prompt is greater than the context length."}`, class: providers.ContextLength},
		{name: "anthropic behind a gateway", status: 400, body: `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`, class: providers.ContextLength, code: "invalid_request_error"},
		{name: "gemini context", status: 400, body: `[{"error":{"code":400,"message":"The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]`, class: providers.ContextLength, code: "invalid_argument"},
		{name: "ollama context", status: 400, body: `{"error":{"message":"the input length exceeds the context length","type":"api_error"}}`, class: providers.ContextLength, code: "api_error"},
		// 2, 3: money
		{name: "402 with a hint", status: 402, header: headers{"Retry-After": "5"}, body: `{"error":{"code":402,"message":"wait"}}`, class: providers.RateLimited, after: 5 * time.Second},
		{name: "openrouter out of credits", status: 402, body: `{"error":{"code":402,"message":"Insufficient credits"}}`, class: providers.QuotaBilling},
		{name: "anthropic spend limit", status: 429, header: headers{"Retry-After": "60"}, body: `{"error":{"type":"rate_limit_error","message":"limit","details":{"error_code":"enforced_spend_limit_reached"}}}`, class: providers.QuotaBilling, code: "rate_limit_error"},
		// 4: the day's quota
		{name: "gemini a day", status: 429, body: `[{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details. Please retry in 34s.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}]}}]`, class: providers.QuotaDaily, code: "resource_exhausted"},
		{name: "openrouter's free models", status: 429, header: headers{}, body: `{"error":{"code":429,"message":"Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day"}}`, class: providers.QuotaDaily},
		{name: "openai a day", status: 429, body: `{"error":{"message":"Rate limit reached for gpt-5 on requests per day (RPD): Limit 200, Used 200, Requested 1. Please try again in 7m12s.","type":"requests","code":"rate_limit_exceeded"}}`, class: providers.QuotaDaily, code: "rate_limit_exceeded", after: 432 * time.Second},
		// 5: unpaid
		{name: "openai unpaid, whatever the header says", status: 429, header: headers{"Retry-After": "20"}, body: `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`, class: providers.QuotaBilling, code: "insufficient_quota"},
		{name: "spend limit by suffix", status: 429, body: `{"error":{"code":"project_spend_limit_exceeded","message":"x"}}`, class: providers.QuotaBilling, code: "project_spend_limit_exceeded"},
		{name: "anthropic usage limit", status: 400, body: `{"error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits."}}`, class: providers.QuotaBilling, code: "invalid_request_error"},
		// 6: overload
		{name: "503", status: 503, header: headers{"Retry-After": "2"}, body: `{"error":{"message":"The engine is currently overloaded","type":"server_error"}}`, class: providers.Overloaded, code: "server_error", after: 2 * time.Second},
		{name: "529", status: 529, body: `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, class: providers.Overloaded, code: "overloaded_error"},
		{name: "slow down", status: 429, body: `{"error":{"code":"slow_down","message":"x"}}`, class: providers.Overloaded, code: "slow_down"},
		{name: "capacity", status: 429, body: `[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"No capacity","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"MODEL_CAPACITY_EXHAUSTED"}]}}]`, class: providers.Overloaded, code: "resource_exhausted"},
		{name: "ollama's queue is full", status: 503, body: `{"error":"server busy, please try again.  maximum pending requests exceeded"}`, class: providers.Overloaded},
		// 7: the rate
		{name: "openai rate", status: 429, header: headers{"Retry-After-Ms": "1250", "Retry-After": "2"}, body: `{"error":{"message":"Rate limit reached for gpt-5 on requests per min (RPM)","type":"requests","code":"rate_limit_exceeded"}}`, class: providers.RateLimited, code: "rate_limit_exceeded", after: 1250 * time.Millisecond},
		{name: "gemini a minute, which speaks of billing", status: 429, body: `[{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.07s"}]}}]`, class: providers.RateLimited, code: "resource_exhausted", after: 34070 * time.Millisecond},
		{name: "429 without a body", status: 429, class: providers.RateLimited},
		{name: "openrouter, status 200", status: 200, body: `{"id":"gen-1","error":{"code":429,"message":"Provider returned error","metadata":{"raw":"upstream is temporarily rate-limited","provider_name":"X"}},"user_id":"u"}`, class: providers.RateLimited},
		{name: "failed after 200", status: 200, body: `{"error":{"code":"rate_limit_exceeded","message":"x"}}`, class: providers.RateLimited, code: "rate_limit_exceeded"},
		// 8: the prompt was refused
		{name: "azure's filter", status: 400, body: `{"error":{"message":"The response was filtered","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}`, class: providers.Refused, code: "responsibleaipolicyviolation"},
		{name: "openai's policy", status: 400, body: `{"error":{"message":"Invalid prompt: flagged as potentially violating our usage policy.","code":"invalid_prompt"}}`, class: providers.Refused, code: "invalid_prompt"},
		{name: "openrouter's moderation", status: 403, body: `{"error":{"code":403,"message":"Your input was flagged","metadata":{"reasons":["violence"],"flagged_input":"…"}}}`, class: providers.Refused},
		// 9, 10: key and model
		{name: "wrong key", status: 401, body: `{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}`, class: providers.Auth, code: "invalid_api_key"},
		{name: "gemini's wrong key", status: 400, body: `[{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}]`, class: providers.Auth, code: "invalid_argument"},
		{name: "forbidden", status: 403, body: `{"error":{"code":"unsupported_country_region_territory","message":"Country not supported"}}`, class: providers.Auth, code: "unsupported_country_region_territory"},
		{name: "no access to the model", status: 403, body: `{"error":{"code":"model_not_found","message":"Project does not have access to model gpt-5"}}`, class: providers.ModelUnavailable, code: "model_not_found"},
		{name: "vllm's model", status: 404, body: "{\"object\":\"error\",\"message\":\"The model `x` does not exist.\",\"type\":\"NotFoundError\",\"code\":404}", class: providers.ModelUnavailable, code: "notfounderror"},
		{name: "openrouter's model", status: 400, body: `{"error":{"code":400,"message":"llama9 is not a valid model ID"}}`, class: providers.ModelUnavailable},
		// 11: passing
		{name: "500", status: 500, body: `{"error":{"message":"The server had an error","type":"server_error"}}`, class: providers.Transient, code: "server_error", billed: true},
		{name: "gateway", status: 504, header: headers{"Retry-After": "1"}, body: `<html>504 Gateway Time-out</html>`, class: providers.Transient, after: time.Second, billed: true},
		{name: "408", status: 408, class: providers.Transient, billed: true},
		{name: "409", status: 409, class: providers.Transient, billed: true},
		{name: "error in 200 without a known code", status: 200, body: `{"error":{"code":"server_error","message":"x"}}`, class: providers.Transient, code: "server_error", billed: true},
		{name: "a web page", status: 200, body: `<html>Welcome</html>`, class: providers.Transient, billed: true},
		{name: "nothing", status: 200, class: providers.Transient, billed: true},
		{name: "cut JSON", status: 200, body: `{"choices":[{"message":{"content":"B`, class: providers.Transient, billed: true},
		{name: "no choices", status: 200, body: `{"choices":[]}`, class: providers.Transient, billed: true},
		{name: "openrouter breaks off", status: 200, body: `{"choices":[{"message":{"content":"Half"},"finish_reason":"error"}]}`, class: providers.Transient, billed: true},
		{name: "openrouter's error in the choice", status: 200, body: `{"choices":[{"message":{"content":""},"finish_reason":"error","error":{"code":502,"message":"upstream"}}]}`, class: providers.Transient, billed: true},
		{name: "rate limit in the choice", status: 200, body: `{"choices":[{"message":{"content":""},"error":{"code":429,"message":"upstream"}}]}`, class: providers.RateLimited},
		// 12: the rest
		{name: "bad parameter", status: 400, body: `{"error":{"message":"Unsupported value","type":"invalid_request_error","param":"temperature","code":"unsupported_value"}}`, class: providers.BadRequest, code: "unsupported_value"},
		{name: "fastapi", status: 422, body: `{"detail":[{"loc":["body","messages"],"msg":"field required","input":{"secret":1}}]}`, class: providers.BadRequest},
		{name: "405", status: 405, body: `{"detail":"Method Not Allowed"}`, class: providers.BadRequest},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			provider := endpoint(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
				for name, value := range test.header {
					w.Header().Set(name, value)
				}
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
	for _, seed := range []string{
		`{"choices":[{"message":{"content":"B"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1e99}}`,
		`{"choices":[{"message":{"content":[{"type":"text","text":"B"}],"refusal":"no"}}]}`,
		`{"choices":[{"message":{"content":[{"type":"thinking","thinking":[{"text":"hm"}]}],"reasoning":"x","annotations":[{"url_citation":{"url":"u","title":"t"}}]}}]}`,
		`{"usage":{"server_tool_use":{"web_search_requests":3},"cost":0.1},"choices":[{"finish_reason":"length","message":{"content":null,"reasoning_content":"y"}}]}`,
		`{"error":{"code":429}}`, `{"error":"x"}`, `{"choices":[{"error":null}]}`, `null`, `[]`, `{"usage":null}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		result, err := decode(&transport.Answer{Body: body})
		var failed *providers.Error
		switch {
		case err == nil && (result.Finish == "" || result.Usage.Output < 0 || result.Usage.Input < 0 || result.Grounding.Searches < 0):
			t.Errorf("result of %q: got %+v", body, result)
		case err != nil && (!errors.As(err, &failed) || failed.Class == "" || result != nil):
			t.Errorf("error of %q: got %v and %+v, want a *providers.Error with a class, alone", body, err, result)
		}
	})
}
