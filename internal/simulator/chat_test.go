package simulator

import (
	"strings"
	"testing"
	"time"
)

const chatPath = "/v1/chat/completions"

func TestChatOnTheWire(t *testing.T) {
	t.Parallel()
	s := start(t, Config{
		Limits: Limits{Tokens: Rates{{N: 1000, Window: time.Hour}}},
		Models: map[string]Model{
			"long":   {Behaviour: &Behaviour{AnswerTokens: Range{50, 50}}},
			"failed": {Behaviour: &Behaviour{FailRate: 1, FailStatus: 503, RetryAfter: Span{1500 * time.Millisecond, 1500 * time.Millisecond}}},
			"plain":  {Behaviour: &Behaviour{WithoutSchemas: true}},
		},
	})
	for name, test := range map[string]struct {
		body   string
		status int
		want   string
	}{
		"an answer cut by its bound": {
			`{"model":"careful","max_completion_tokens":3,"messages":[{"role":"user","content":"Say something."}]}`, 200,
			`{"object":"chat.completion","model":"careful",
			"choices":[{"index":0,"message":{"role":"assistant","content":"This is a si","refusal":null},"logprobs":null,"finish_reason":"length"}],
			"usage":{"prompt_tokens":8,"completion_tokens":3,"total_tokens":11}}`,
		},
		"an answer with reasoning": {
			`{"model":"long","messages":[{"role":"user","content":[{"type":"text","text":"Say"},{"type":"text","text":"something."}]}]}`, 200,
			`{"object":"chat.completion","model":"long",
			"choices":[{"index":0,"message":{"role":"assistant","content":"This is a simulated answer. I was shown 2 words and 0 documents, and no verdict was asked that I know how to give.","refusal":null},"logprobs":null,"finish_reason":"stop"}],
			"usage":{"prompt_tokens":8,"completion_tokens":50,"total_tokens":58,"completion_tokens_details":{"reasoning_tokens":21}}}`,
		},
		"no JSON": {
			`{"model":`, 400,
			`{"error":{"message":"the body is not a chat completions request: unexpected end of JSON input","type":"invalid_request_error","param":null,"code":null}}`,
		},
		"two objects": {
			`{"model":"careful"} {}`, 400,
			`{"error":{"message":"the body is not a chat completions request: invalid character '{' after top-level value","type":"invalid_request_error","param":null,"code":null}}`,
		},
		"streaming": {
			`{"model":"careful","stream":true,"messages":[{"role":"user","content":"x"}]}`, 400,
			`{"error":{"message":"stream is not supported","type":"invalid_request_error","param":null,"code":null}}`,
		},
		"an unknown model": {
			`{"model":"gpt","messages":[{"role":"user","content":"x"}]}`, 404,
			`{"error":{"message":"The model \"gpt\" does not exist; want careful, average, careless or one in the simulator's configuration","type":"invalid_request_error","param":null,"code":"model_not_found"}}`,
		},
		"over a limit": {
			`{"model":"careful","max_tokens":1,"messages":[{"role":"user","content":"` + strings.Repeat("x", 4000) + `"}]}`, 429,
			`{"error":{"message":"Request too large for tokens per hour: limit 1000, requested 1005; no request of more than 1000 is ever admitted","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`,
		},
		"a failure": {
			`{"model":"failed","messages":[{"role":"user","content":"x"}]}`, 503,
			`{"error":{"message":"This failure was requested from the simulator","type":"overloaded_error","param":null,"code":null}}`,
		},
		"no schemas": {
			`{"model":"plain","response_format":{"type":"json_schema","json_schema":{"schema":{}}},"messages":[{"role":"user","content":"x"}]}`, 400,
			`{"error":{"message":"This response_format type is not supported: json_schema","type":"invalid_request_error","param":null,"code":null}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := s.post(t, chatPath, test.body)
			delete(got.body, "id")
			delete(got.body, "created")
			got.is(t, test.status, test.want)
			if name == "a failure" && (got.header.Get("Retry-After") != "2" || got.header.Get("Retry-After-Ms") != "1500") {
				t.Errorf("hints: got %v", got.header)
			}
		})
	}
}
