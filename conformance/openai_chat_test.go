package conformance

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/chat"
)

// openaiOptions are those of a client below url + "/v1". Services are made
// with them directly, because openai.NewClient reads the environment.
func openaiOptions(t *testing.T, url string) []option.RequestOption {
	return []option.RequestOption{
		option.WithBaseURL(url + "/v1"), option.WithAPIKey(key), option.WithMaxRetries(0), option.WithHTTPClient(httpClient(t)),
	}
}

// openaiSends are what its SDK sends besides.
var openaiSends = reasons{
	"header.User-Agent":    "each names itself",
	"header.X-Stainless-*": "the SDK reports the platform",
}

func chatParams(text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:    "careful",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)},
	}
}

func chatSchema() openai.ChatCompletionNewParamsResponseFormatUnion {
	return openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
		JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "verdict", Strict: openai.Bool(true), Schema: json.RawMessage(verdict)},
	}}
}

func TestTheChatDialectSendsWhatOpenAIsSDKSends(t *testing.T) {
	t.Parallel()
	const answer = `{"id":"c","object":"chat.completion","created":1,"model":"careful","choices":[{"index":0,"finish_reason":"stop","logprobs":null,"message":{"role":"assistant","content":"{}","refusal":null}}]}`
	zero := 0.0
	for name, test := range map[string]struct {
		sdk    func(*openai.ChatCompletionNewParams)
		ours   providers.Request
		config chat.Config
		differ reasons
	}{
		"plain": {},
		"system and user": {
			sdk: func(p *openai.ChatCompletionNewParams) {
				p.Messages = []openai.ChatCompletionMessageParamUnion{openai.SystemMessage(system), openai.UserMessage(prompt)}
			},
			ours: providers.Request{Messages: conversation()},
		},
		"a repair": {
			sdk: func(p *openai.ChatCompletionNewParams) {
				p.Messages = append(p.Messages, openai.AssistantMessage("a?"), openai.UserMessage("JSON, please."))
			},
			ours: providers.Request{Messages: append(user(),
				providers.Message{Role: providers.Assistant, Content: "a?"},
				providers.Message{Role: providers.User, Content: "JSON, please."})},
		},
		"bounds": {
			sdk: func(p *openai.ChatCompletionNewParams) {
				p.MaxCompletionTokens, p.Temperature = openai.Int(500), openai.Float(0)
			},
			ours:   providers.Request{MaxOutputTokens: 500, Temperature: &zero},
			config: chat.Config{Flavour: chat.Flavour{MaxTokensField: "max_completion_tokens"}},
		},
		"bound of a compatible endpoint": {
			sdk:  func(p *openai.ChatCompletionNewParams) { p.MaxTokens = openai.Int(500) },
			ours: providers.Request{MaxOutputTokens: 500},
		},
		"effort": {
			sdk:  func(p *openai.ChatCompletionNewParams) { p.ReasoningEffort = shared.ReasoningEffortLow },
			ours: providers.Request{ReasoningEffort: "low"},
		},
		"schema": {
			sdk:  func(p *openai.ChatCompletionNewParams) { p.ResponseFormat = chatSchema() },
			ours: providers.Request{Schema: verdictSchema()},
		},
		"any JSON object": {
			sdk: func(p *openai.ChatCompletionNewParams) {
				p.ResponseFormat = openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONObject: &shared.ResponseFormatJSONObjectParam{}}
			},
			ours:   providers.Request{Schema: verdictSchema()},
			config: chat.Config{JSON: providers.JSONObject},
		},
		"search": {
			sdk: func(p *openai.ChatCompletionNewParams) {
				p.WebSearchOptions = openai.ChatCompletionNewParamsWebSearchOptions{SearchContextSize: "medium"}
			},
			ours:   providers.Request{Search: true},
			config: chat.Config{Capabilities: known(providers.Capabilities{Search: "web_search_options"})},
			differ: reasons{"body.web_search_options*": "the SDK leaves out an empty object, so medium stands there; it is the default"},
		},
		"named": {
			ours:   providers.Request{IdempotencyID: "run-1"},
			differ: reasons{"header.X-Client-Request-Id": "OpenAI documents it for its logs; the SDK leaves it to its user"},
		},
		"seed": {
			sdk:  func(p *openai.ChatCompletionNewParams) { p.Seed = openai.Int(7) },
			ours: providers.Request{Extra: map[string]any{"seed": 7}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			theirs, own := record(t, answer), record(t, answer)
			params := chatParams(prompt)
			if test.sdk != nil {
				test.sdk(&params)
			}
			service := openai.NewChatService(openaiOptions(t, theirs.URL)...)
			if _, err := service.Completions.New(t.Context(), params); err != nil {
				t.Fatal(err)
			}
			test.config.BaseURL, test.config.HTTPClient = own.URL+"/v1", httpClient(t)
			provider, err := chat.New(test.config)
			if err != nil {
				t.Fatal(err)
			}
			calls(t, provider, test.ours)
			compare(t, theirs.only(t), own.only(t), openaiSends.with(test.differ))
		})
	}
}

func TestOpenAIsSDKReadsSimulatedCompletions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text      string
		params    func(*openai.ChatCompletionNewParams)
		behaviour simulator.Behaviour
		finish    string
		contains  string
		reasoning bool
	}{
		"prose": {text: prompt, finish: "stop", contains: "simulated answer"},
		"system and user": {
			text: twoDocuments, finish: "stop", contains: better,
			params: func(p *openai.ChatCompletionNewParams) {
				p.Messages = append([]openai.ChatCompletionMessageParamUnion{openai.SystemMessage(system)}, p.Messages...)
				p.ResponseFormat = chatSchema()
			},
		},
		"verdict": {
			text: twoDocuments, finish: "stop", contains: better,
			params: func(p *openai.ChatCompletionNewParams) { p.ResponseFormat = chatSchema() },
		},
		"reasoning": {text: prompt, behaviour: simulator.Behaviour{AnswerTokens: simulator.Range{Min: 300, Max: 300}}, finish: "stop", contains: "simulated", reasoning: true},
		"truncated": {
			text: prompt, finish: "length", contains: "This is",
			params: func(p *openai.ChatCompletionNewParams) { p.MaxCompletionTokens = openai.Int(4) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := simulated(t, simulator.Config{
				Behaviour: test.behaviour,
				Limits:    simulator.Limits{Requests: simulator.Rates{{N: 10, Window: time.Minute}}},
			})
			params := chatParams(test.text)
			if test.params != nil {
				test.params(&params)
			}
			var response *http.Response
			service := openai.NewChatService(openaiOptions(t, server.URL)...)
			completion, err := service.Completions.New(t.Context(), params, option.WithResponseInto(&response))
			if err != nil {
				t.Fatal(err)
			}
			faithful(t, completion)
			if len(completion.Choices) != 1 || completion.Model != "careful" {
				t.Fatalf("got %s", completion.RawJSON())
			}
			choice, usage := completion.Choices[0], completion.Usage
			if choice.FinishReason != test.finish || !strings.Contains(choice.Message.Content, test.contains) {
				t.Errorf("got %q, finished by %q, want %q in it and %q", choice.Message.Content, choice.FinishReason, test.contains, test.finish)
			}
			if usage.PromptTokens == 0 || usage.CompletionTokens == 0 || usage.TotalTokens != usage.PromptTokens+usage.CompletionTokens ||
				usage.CompletionTokensDetails.ReasoningTokens > 0 != test.reasoning {
				t.Errorf("usage: got %s", usage.RawJSON())
			}
			for header, want := range map[string]string{"Limit": "10", "Remaining": "9"} {
				if got := response.Header.Get("X-Ratelimit-" + header + "-Requests"); got != want {
					t.Errorf("%s: got %q, want %q", header, got, want)
				}
			}
			if response.Header.Get("X-Request-Id") == "" {
				t.Error("no request id")
			}
		})
	}
}

func TestOpenAIsSDKReadsSimulatedFailures(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config  simulator.Config
		params  func(*openai.ChatCompletionNewParams)
		calls   int // the last one fails; 0: the first
		status  int
		kind    string
		code    string
		message string
		hint    string // Retry-After
	}{
		"unknown model": {
			params: func(p *openai.ChatCompletionNewParams) { p.Model = "none" },
			status: http.StatusNotFound, kind: "invalid_request_error", code: "model_not_found", message: "does not exist",
		},
		"no messages": {
			params: func(p *openai.ChatCompletionNewParams) { p.Messages = nil },
			status: http.StatusBadRequest, kind: "invalid_request_error", message: "messages",
		},
		"schema refused": {
			config: simulator.Config{Behaviour: simulator.Behaviour{WithoutSchemas: true}},
			params: func(p *openai.ChatCompletionNewParams) { p.ResponseFormat = chatSchema() },
			status: http.StatusBadRequest, kind: "invalid_request_error", message: "response_format",
		},
		"rate": {
			config: simulator.Config{
				Limits:    simulator.Limits{Requests: simulator.Rates{{N: 1, Window: time.Hour}}},
				Behaviour: simulator.Behaviour{RetryAfter: simulator.Span{Min: 7 * time.Second, Max: 7 * time.Second}},
			},
			calls: 2, status: http.StatusTooManyRequests, kind: "requests", code: "rate_limit_exceeded", message: "Rate limit reached", hint: "7",
		},
		"too large": {
			config: simulator.Config{Limits: simulator.Limits{Tokens: simulator.Rates{{N: 20, Window: time.Hour}}}},
			status: http.StatusTooManyRequests, kind: "tokens", code: "rate_limit_exceeded", message: "Request too large",
		},
		"overloaded": {
			config: simulator.Config{Behaviour: simulator.Behaviour{FailRate: 1, FailStatus: 503, RetryAfter: simulator.Span{Min: 2 * time.Second, Max: 2 * time.Second}}},
			status: http.StatusServiceUnavailable, kind: "overloaded_error", message: "asked of the simulator", hint: "2",
		},
		"broken": {
			config: simulator.Config{Behaviour: simulator.Behaviour{FailRate: 1}},
			status: http.StatusInternalServerError, kind: "server_error", message: "asked of the simulator",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			params := chatParams(prompt)
			if test.params != nil {
				test.params(&params)
			}
			service := openai.NewChatService(openaiOptions(t, simulated(t, test.config).URL)...)
			var err error
			for range max(test.calls, 1) {
				_, err = service.Completions.New(t.Context(), params)
			}
			failed(t, err, test.status, test.kind, test.code, test.message)
			var apiError *openai.Error
			if errors.As(err, &apiError) && strings.TrimSpace(apiError.Response.Header.Get("Retry-After")) != test.hint {
				t.Errorf("hint: got %q, want %q", apiError.Response.Header.Get("Retry-After"), test.hint)
			}
		})
	}
}

// failed checks an error of OpenAI's SDK.
func failed(t *testing.T, err error, status int, kind, code, message string) {
	t.Helper()
	var got *openai.Error
	if !errors.As(err, &got) {
		t.Fatalf("got %v, want an API error", err)
	}
	faithful(t, got)
	if got.StatusCode != status || got.Type != kind || got.Code != code || !strings.Contains(got.Message, message) {
		t.Errorf("got %d %s, want %d, type %q, code %q and %q in the message", got.StatusCode, got.RawJSON(), status, kind, code, message)
	}
}

// TestOpenAIsSDKWaitsAsHinted has the SDK retry by itself: its own delay would be
// half a second at most.
func TestOpenAIsSDKWaitsAsHinted(t *testing.T) {
	t.Parallel()
	const hint = 800 * time.Millisecond
	server := simulated(t, simulator.Config{
		KeepArrivals: 4,
		Behaviour:    simulator.Behaviour{FailEvery: 1, FailStatus: 503, RetryAfter: simulator.Span{Min: hint, Max: hint}},
	})
	service := openai.NewChatService(openaiOptions(t, server.URL)...)
	if _, err := service.Completions.New(t.Context(), chatParams(prompt), option.WithMaxRetries(1)); err != nil {
		t.Fatal(err)
	}
	arrivals := server.Arrivals()
	if len(arrivals) != 2 || arrivals[1].At.Sub(arrivals[0].At) < hint {
		t.Errorf("got %+v, want two arrivals that are %v apart", arrivals, hint)
	}
}
