package conformance

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/shared"

	"github.com/evalfleet/evalfleet/internal/simulator"
)

// anthropicMessages is a service below url. It is made directly, because
// anthropic.NewClient reads the environment.
func anthropicMessages(t *testing.T, url string) *anthropic.MessageService {
	service := anthropic.NewMessageService(option.WithBaseURL(url), option.WithAPIKey(key), option.WithMaxRetries(0), option.WithHTTPClient(httpClient(t)))
	return &service
}

// messageParams have a bound, without which Anthropic takes nothing.
func messageParams(text string) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{
		Model:     "careful",
		MaxTokens: 2000,
		Messages:  []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(text))},
	}
}

func messageSchema(t *testing.T) anthropic.JSONOutputFormatParam {
	t.Helper()
	var format anthropic.JSONOutputFormatParam
	if err := json.Unmarshal([]byte(verdict), &format.Schema); err != nil {
		t.Fatal(err)
	}
	return format
}

func messageThinking() anthropic.ThinkingConfigParamUnion {
	return anthropic.ThinkingConfigParamUnion{OfAdaptive: &anthropic.ThinkingConfigAdaptiveParam{Display: anthropic.ThinkingConfigAdaptiveDisplaySummarized}}
}

func messageSearch() []anthropic.ToolUnionParam {
	return []anthropic.ToolUnionParam{{OfWebSearchTool20250305: &anthropic.WebSearchTool20250305Param{MaxUses: anthropic.Int(5)}}}
}

// anthropicOmits are fields that are required by Anthropic's specification, and
// that the live service leaves out all the same where they say nothing.
var anthropicOmits = reasons{
	"answer.container":                   "nothing was executed in one",
	"answer.diagnostics":                 "none were asked for",
	"answer.content.*.citations":         "a text that cites nothing",
	"answer.usage.output_tokens_details": "there was no thinking",
	"answer.usage.speed":                 "it is that of every request",
}

func TestAnthropicsSDKReadsSimulatedMessages(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text      string
		params    func(*anthropic.MessageNewParams)
		behaviour simulator.Behaviour
		stop      anthropic.StopReason // end_turn when empty
		contains  string
		thinks    bool
		searches  bool
	}{
		"prose": {text: prompt, contains: "simulated answer"},
		"system and user": {
			text: twoDocuments, contains: better,
			params: func(p *anthropic.MessageNewParams) {
				p.System = []anthropic.TextBlockParam{{Text: system}}
				p.OutputConfig.Format = messageSchema(t)
			},
		},
		"thinking": {
			text: prompt, contains: "simulated answer", thinks: true,
			params: func(p *anthropic.MessageNewParams) { p.Thinking = messageThinking() },
		},
		"search": {
			text: prompt, contains: "simulated answer", searches: true,
			params: func(p *anthropic.MessageNewParams) { p.Tools = messageSearch() },
		},
		"truncated": {
			text: prompt, stop: anthropic.StopReasonMaxTokens, contains: "This is",
			params: func(p *anthropic.MessageNewParams) { p.MaxTokens = 4 },
		},
		"out of the window": {text: prompt, behaviour: simulator.Behaviour{ContextWindow: 20}, stop: anthropic.StopReasonModelContextWindowExceeded, contains: "This is"},
		"refused":           {text: prompt, behaviour: simulator.Behaviour{RefuseRate: 1}, stop: anthropic.StopReasonRefusal, contains: "cannot help"},
		"filtered":          {text: prompt, behaviour: simulator.Behaviour{FilterRate: 1}, stop: anthropic.StopReasonRefusal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := simulated(t, simulator.Config{
				Keys:      []string{key},
				Behaviour: test.behaviour,
				Limits:    simulator.Limits{InputTokens: simulator.Rates{{N: 1000, Window: time.Minute}}},
			})
			params := messageParams(test.text)
			if test.params != nil {
				test.params(&params)
			}
			var response *http.Response
			message, err := anthropicMessages(t, server.URL).New(t.Context(), params, option.WithResponseInto(&response))
			if err != nil {
				t.Fatal(err)
			}
			faithful(t, message, anthropicOmits)
			said := readMessage(t, message)
			if want := cmp.Or(test.stop, anthropic.StopReasonEndTurn); message.StopReason != want || !strings.Contains(said.text, test.contains) || message.Model != "careful" {
				t.Errorf("got %s, want %q said and %q", message.RawJSON(), test.contains, want)
			}
			usage := message.Usage
			if usage.InputTokens == 0 || usage.OutputTokens > 0 != (len(message.Content) > 0) || usage.OutputTokensDetails.ThinkingTokens > 0 != test.thinks || said.thought != test.thinks {
				t.Errorf("thinking: got %s", message.RawJSON())
			}
			if usage.ServerToolUse.WebSearchRequests > 0 != test.searches || said.searched != test.searches || said.cited != test.searches {
				t.Errorf("search: got %s", message.RawJSON())
			}
			reset, err := time.Parse(time.RFC3339, response.Header.Get("Anthropic-Ratelimit-Input-Tokens-Reset"))
			if response.Header.Get("Anthropic-Ratelimit-Input-Tokens-Limit") != "1000" || err != nil || time.Until(reset) > 2*time.Minute || response.Header.Get("Request-Id") == "" {
				t.Errorf("headers: got %v", response.Header)
			}
		})
	}
}

// reading is what a message has.
type reading struct {
	text                     string
	thought, searched, cited bool
}

func readMessage(t *testing.T, message *anthropic.Message) (r reading) {
	t.Helper()
	var searches []string // that are under way
	for _, block := range message.Content {
		switch block := block.AsAny().(type) {
		case anthropic.TextBlock:
			r.text += block.Text
			r.cited = r.cited || len(block.Citations) > 0
		case anthropic.ThinkingBlock:
			r.thought = block.Thinking != "" && block.Signature != ""
		case anthropic.ServerToolUseBlock:
			searches = append(searches, block.ID)
		case anthropic.WebSearchToolResultBlock:
			if len(searches) == 0 || searches[len(searches)-1] != block.ToolUseID {
				t.Errorf("a result of %q, want of the search before it: %v", block.ToolUseID, searches)
			}
			r.searched = r.searched || len(block.Content.OfWebSearchResultBlockArray) > 0
		default:
			t.Errorf("a block of another kind: %T", block)
		}
	}
	return r
}

// TestAnthropicsSDKReadsASearchInVain finds the error among prompts; for some, the model
// does not search at all.
func TestAnthropicsSDKReadsASearchInVain(t *testing.T) {
	t.Parallel()
	service := anthropicMessages(t, simulated(t, simulator.Config{Behaviour: simulator.Behaviour{UngroundedRate: 1}}).URL)
	for _, text := range []string{"one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"} {
		params := messageParams(text)
		params.Tools = messageSearch()
		message, err := service.New(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		faithful(t, message, anthropicOmits)
		for _, block := range message.Content {
			if result, ok := block.AsAny().(anthropic.WebSearchToolResultBlock); ok {
				if failed := result.Content.AsResponseWebSearchToolResultError(); failed.ErrorCode != anthropic.WebSearchToolResultErrorCodeUnavailable {
					t.Errorf("got %s", block.RawJSON())
				}
				return
			}
		}
	}
	t.Error("no search in vain")
}

// TestAnthropicsSDKGoesOnAfterAPause sends back the answer received, with thoughts and search, as the SDK encodes it.
func TestAnthropicsSDKGoesOnAfterAPause(t *testing.T) {
	t.Parallel()
	service := anthropicMessages(t, simulated(t, simulator.Config{Behaviour: simulator.Behaviour{Pauses: 1}}).URL)
	params := messageParams(prompt)
	params.Tools, params.Thinking = messageSearch(), messageThinking()
	for _, want := range []anthropic.StopReason{anthropic.StopReasonPauseTurn, anthropic.StopReasonEndTurn} {
		message, err := service.New(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		faithful(t, message, anthropicOmits)
		if said := readMessage(t, message); message.StopReason != want || !said.searched {
			t.Errorf("got %s, want a search and %q", message.RawJSON(), want)
		}
		params.Messages = append(params.Messages, message.ToParam())
	}
}

// anthropicFailure is what an error of Anthropic's SDK tells.
type anthropicFailure struct {
	status  int
	kind    shared.ErrorType
	message string // a part of it
}

var anthropicFailures = map[simulator.Failure]anthropicFailure{
	simulator.RateLimited:      {429, shared.ErrorTypeRateLimitError, "rate limit"},
	simulator.QuotaDaily:       {429, shared.ErrorTypeRateLimitError, "daily"},
	simulator.Overloaded:       {529, shared.ErrorTypeOverloadedError, "Overloaded"},
	simulator.ServerError:      {500, shared.ErrorTypeAPIError, "Internal server error"},
	simulator.ContextLength:    {400, shared.ErrorTypeInvalidRequestError, "prompt is too long"},
	simulator.Refused:          {400, shared.ErrorTypeInvalidRequestError, "content filtering"},
	simulator.Auth:             {401, shared.ErrorTypeAuthenticationError, "x-api-key"},
	simulator.ModelUnavailable: {404, shared.ErrorTypeNotFoundError, "careful"},
	simulator.BadRequest:       {400, shared.ErrorTypeInvalidRequestError, "messages"},
}

func TestAnthropicsSDKReadsSimulatedFailures(t *testing.T) {
	t.Parallel()
	for failure, want := range anthropicFailures {
		t.Run(string(failure), func(t *testing.T) {
			t.Parallel()
			_, err := anthropicMessages(t, simulated(t, failing(failure)).URL).New(t.Context(), messageParams(prompt))
			if hint := anthropicFailed(t, err, want).Get("Retry-After"); hint != "2" {
				t.Errorf("hint: got %q, want 2", hint)
			}
		})
	}
}

func TestAnthropicsSDKReadsWhatTheSimulatorRejects(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config simulator.Config
		params func(*anthropic.MessageNewParams)
		calls  int // the last one fails; 0: the first
		want   anthropicFailure
	}{
		"another key": {config: simulator.Config{Keys: []string{"sk-other"}}, want: anthropicFailures[simulator.Auth]},
		"unknown model": {
			params: func(p *anthropic.MessageNewParams) { p.Model = "none" },
			want:   anthropicFailure{404, shared.ErrorTypeNotFoundError, "none"},
		},
		"no bound": {
			params: func(p *anthropic.MessageNewParams) { p.MaxTokens = 0 },
			want:   anthropicFailure{400, shared.ErrorTypeInvalidRequestError, "max_tokens"},
		},
		"schema": {
			config: simulator.Config{Behaviour: simulator.Behaviour{WithoutSchemas: true}},
			params: func(p *anthropic.MessageNewParams) { p.OutputConfig.Format = messageSchema(t) },
			want:   anthropicFailure{400, shared.ErrorTypeInvalidRequestError, "output_config.format"},
		},
		"longer than the window": {config: simulator.Config{Behaviour: simulator.Behaviour{ContextWindow: 5}}, want: anthropicFailures[simulator.ContextLength]},
		"rate": {
			config: simulator.Config{Limits: simulator.Limits{Requests: simulator.Rates{{N: 1, Window: time.Hour}}}},
			calls:  2, want: anthropicFailure{429, shared.ErrorTypeRateLimitError, "per hour"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			params := messageParams(prompt)
			if test.params != nil {
				test.params(&params)
			}
			service := anthropicMessages(t, simulated(t, test.config).URL)
			var err error
			for range max(test.calls, 1) {
				_, err = service.New(t.Context(), params)
			}
			anthropicFailed(t, err, test.want)
		})
	}
}

// anthropicFailed checks an error of Anthropic's SDK, and returns the headers that
// came with it.
func anthropicFailed(t *testing.T, err error, want anthropicFailure) http.Header {
	t.Helper()
	var got *anthropic.Error
	if !errors.As(err, &got) {
		t.Fatalf("got %v, want an API error", err)
	}
	var body shared.ErrorResponse
	if err := json.Unmarshal([]byte(got.RawJSON()), &body); err != nil {
		t.Fatal(err)
	}
	faithful(t, body, nil)
	if got.StatusCode != want.status || got.Type() != want.kind || !strings.Contains(body.Error.Message, want.message) {
		t.Errorf("got %d %s, want %d, %s and %q in the message", got.StatusCode, got.RawJSON(), want.status, want.kind, want.message)
	}
	if id := got.Response.Header.Get("Request-Id"); got.RequestID != id || body.RequestID != id || id == "" {
		t.Errorf("request id: got %q and %q, header %q", got.RequestID, body.RequestID, id)
	}
	return got.Response.Header
}
