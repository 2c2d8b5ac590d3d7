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
	"github.com/evalfleet/evalfleet/providers/transport"
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
		"images": {
			sdk: func(p *openai.ChatCompletionNewParams) {
				part := func(address string) openai.ChatCompletionContentPartUnionParam {
					return openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: address})
				}
				p.Messages = []openai.ChatCompletionMessageParamUnion{openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
					openai.TextContentPart(prompt[:5]), part("data:image/png;base64," + image), openai.TextContentPart(prompt[5:]), part("https://h/i.png"),
				})}
			},
			ours: pictured("https://h/i.png"),
		},
		"log probabilities": {
			sdk:  func(p *openai.ChatCompletionNewParams) { p.Logprobs, p.TopLogprobs = openai.Bool(true), openai.Int(20) },
			ours: providers.Request{LogProbs: true},
		},
		"a beginning to keep": {
			sdk: func(p *openai.ChatCompletionNewParams) {
				p.Messages = []openai.ChatCompletionMessageParamUnion{openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
					{OfText: &openai.ChatCompletionContentPartTextParam{
						Text: prompt[:5], PromptCacheBreakpoint: openai.ChatCompletionContentPartTextPromptCacheBreakpointParam{Mode: "explicit"},
					}},
					openai.TextContentPart(prompt[5:]),
				})}
				p.PromptCacheKey = openai.String("k")
				p.PromptCacheOptions.Mode = "explicit"
			},
			ours: repeating(),
			config: chat.Config{Config: transport.Config{
				Capabilities: known(providers.Capabilities{PromptCache: providers.PromptCacheBreakpoints}),
			}},
		},
		"a repair": {
			sdk: func(p *openai.ChatCompletionNewParams) {
				p.Messages = append(p.Messages, openai.AssistantMessage("a?"), openai.UserMessage("JSON, please."))
			},
			ours: providers.Request{Messages: repair()},
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
			config: chat.Config{Config: transport.Config{Capabilities: known(providers.Capabilities{JSON: providers.JSONObject})}},
		},
		"search": {
			sdk: func(p *openai.ChatCompletionNewParams) {
				p.WebSearchOptions = openai.ChatCompletionNewParamsWebSearchOptions{SearchContextSize: "medium"}
			},
			ours:   providers.Request{Search: true},
			config: chat.Config{Config: transport.Config{Capabilities: known(providers.Capabilities{Search: "web_search_options"})}},
			differ: reasons{"body.web_search_options*": "the SDK leaves out an empty object, so medium is sent; it is the default"},
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
			sdk := func(url string) error {
				params := chatParams(prompt)
				if test.sdk != nil {
					test.sdk(&params)
				}
				service := openai.NewChatService(openaiOptions(t, url)...)
				_, err := service.Completions.New(t.Context(), params)
				return err
			}
			ours := func(url string) error {
				test.config.BaseURL, test.config.HTTPClient = url+"/v1", httpClient(t)
				provider, err := chat.New(test.config)
				if err != nil {
					return err
				}
				_, err = provider.Call(t.Context(), complete(test.ours))
				return err
			}
			sameRequests(t, []string{answer}, sdk, ours, openaiSends.with(test.differ))
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
		contains  string // in the text, or in the refusal
		reasoning bool
		refused   bool
		cites     bool
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
		"search": {
			text: prompt, finish: "stop", contains: "simulated", cites: true,
			params: func(p *openai.ChatCompletionNewParams) {
				p.WebSearchOptions.SearchContextSize = "medium"
			},
		},
		"truncated": {
			text: prompt, finish: "length", contains: "This is",
			params: func(p *openai.ChatCompletionNewParams) { p.MaxCompletionTokens = openai.Int(4) },
		},
		"refused":  {text: prompt, behaviour: simulator.Behaviour{RefuseRate: 1}, finish: "stop", contains: "cannot help", refused: true},
		"filtered": {text: prompt, behaviour: simulator.Behaviour{FilterRate: 1}, finish: "content_filter"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := simulated(t, simulator.Config{
				Keys:      []string{key},
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
			faithful(t, completion, nil)
			if len(completion.Choices) != 1 || completion.Model != "careful" {
				t.Fatalf("got %s", completion.RawJSON())
			}
			choice, usage := completion.Choices[0], completion.Usage
			said, silent := choice.Message.Content, choice.Message.Refusal
			if test.refused {
				said, silent = silent, said
			}
			if choice.FinishReason != test.finish || !strings.Contains(said, test.contains) || silent != "" {
				t.Errorf("got %s, want %q said and %q", completion.RawJSON(), test.contains, test.finish)
			}
			if usage.PromptTokens == 0 || usage.CompletionTokens == 0 && test.contains != "" || usage.TotalTokens != usage.PromptTokens+usage.CompletionTokens ||
				usage.CompletionTokensDetails.ReasoningTokens > 0 != test.reasoning {
				t.Errorf("usage: got %s", usage.RawJSON())
			}
			if cited := choice.Message.Annotations; len(cited) > 0 != test.cites || test.cites && (cited[0].URLCitation.URL == "" || cited[0].URLCitation.EndIndex > int64(len(said))) {
				t.Errorf("citations: got %s", completion.RawJSON())
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

// openaiFailures are how an error of OpenAI's SDK tells each failure.
var openaiFailures = map[simulator.Failure]openai.Error{
	simulator.RateLimited:      {StatusCode: 429, Type: "requests", Code: "rate_limit_exceeded", Message: "requests per min"},
	simulator.QuotaDaily:       {StatusCode: 429, Type: "requests", Code: "rate_limit_exceeded", Message: "requests per day"},
	simulator.QuotaBilling:     {StatusCode: 429, Type: "insufficient_quota", Code: "insufficient_quota", Message: "quota"},
	simulator.Overloaded:       {StatusCode: 503, Type: "overloaded_error", Message: "overloaded"},
	simulator.ServerError:      {StatusCode: 500, Type: "server_error", Message: "server had an error"},
	simulator.ContextLength:    {StatusCode: 400, Type: "invalid_request_error", Code: "context_length_exceeded", Message: "maximum context length"},
	simulator.Refused:          {StatusCode: 400, Type: "invalid_request_error", Code: "invalid_prompt", Message: "flagged"},
	simulator.Auth:             {StatusCode: 401, Type: "invalid_request_error", Code: "invalid_api_key", Message: "API key"},
	simulator.ModelUnavailable: {StatusCode: 404, Type: "invalid_request_error", Code: "model_not_found", Message: "does not exist"},
	simulator.BadRequest:       {StatusCode: 400, Type: "invalid_request_error", Message: "Invalid"},
}

func TestOpenAIsSDKReadsSimulatedFailures(t *testing.T) {
	t.Parallel()
	for failure, want := range openaiFailures {
		t.Run(string(failure), func(t *testing.T) {
			t.Parallel()
			service := openai.NewChatService(openaiOptions(t, simulated(t, failing(failure)).URL)...)
			_, err := service.Completions.New(t.Context(), chatParams(prompt))
			if hint := openaiFailed(t, err, want).Get("Retry-After"); hint != "2" {
				t.Errorf("hint: got %q, want 2", hint)
			}
		})
	}
}

func TestOpenAIsSDKReadsWhatTheSimulatorRejects(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config simulator.Config
		params func(*openai.ChatCompletionNewParams)
		calls  int // the last one fails; 0: the first
		want   openai.Error
	}{
		"another key": {
			config: simulator.Config{Keys: []string{"sk-other"}},
			want:   openaiFailures[simulator.Auth],
		},
		"unknown model": {
			params: func(p *openai.ChatCompletionNewParams) { p.Model = "none" },
			want:   openaiFailures[simulator.ModelUnavailable],
		},
		"no messages": {
			params: func(p *openai.ChatCompletionNewParams) { p.Messages = nil },
			want:   openai.Error{StatusCode: http.StatusBadRequest, Type: "invalid_request_error", Message: "messages"},
		},
		"schema": {
			config: simulator.Config{Behaviour: simulator.Behaviour{WithoutSchemas: true}},
			params: func(p *openai.ChatCompletionNewParams) { p.ResponseFormat = chatSchema() },
			want:   openai.Error{StatusCode: http.StatusBadRequest, Type: "invalid_request_error", Message: "response_format"},
		},
		"longer than the window": {
			config: simulator.Config{Behaviour: simulator.Behaviour{ContextWindow: 5}},
			want:   openaiFailures[simulator.ContextLength],
		},
		"rate": {
			config: simulator.Config{Limits: simulator.Limits{Requests: simulator.Rates{{N: 1, Window: time.Hour}}}},
			calls:  2,
			want:   openai.Error{StatusCode: http.StatusTooManyRequests, Type: "requests", Code: "rate_limit_exceeded", Message: "Rate limit reached"},
		},
		"larger than the limit": {
			config: simulator.Config{Limits: simulator.Limits{Tokens: simulator.Rates{{N: 20, Window: time.Hour}}}},
			want:   openai.Error{StatusCode: http.StatusTooManyRequests, Type: "tokens", Code: "rate_limit_exceeded", Message: "Request too large"},
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
			openaiFailed(t, err, test.want)
		})
	}
}

// openaiFailed checks an error of OpenAI's SDK; want.Message is a part of its message. It
// returns the headers that came with it.
func openaiFailed(t *testing.T, err error, want openai.Error) http.Header {
	t.Helper()
	var got *openai.Error
	if !errors.As(err, &got) {
		t.Fatalf("got %v, want an API error", err)
	}
	faithful(t, got, nil)
	if got.StatusCode != want.StatusCode || got.Type != want.Type || got.Code != want.Code || !strings.Contains(got.Message, want.Message) {
		t.Errorf("got %d %s, want %d, type %q, code %q and %q in the message", got.StatusCode, got.RawJSON(), want.StatusCode, want.Type, want.Code, want.Message)
	}
	if got.Response.Header.Get("X-Request-Id") == "" {
		t.Error("no request id")
	}
	return got.Response.Header
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
