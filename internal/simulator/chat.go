package simulator

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// chat is OpenAI's chat completions.
type chat struct{}

type chatRequest struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string `json:"role"`
		Content texts  `json:"content"`
	} `json:"messages"`
	MaxTokens           int  `json:"max_tokens"`
	MaxCompletionTokens int  `json:"max_completion_tokens"`
	Stream              bool `json:"stream"`
	ResponseFormat      struct {
		JSONSchema struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
}

func (chat) parse(_ *http.Request, body []byte) (*request, error) {
	var asked chatRequest
	if err := json.Unmarshal(body, &asked); err != nil {
		return &request{}, fmt.Errorf("the body is not a chat completions request: %w", err)
	}
	req := &request{
		model:  asked.Model,
		schema: string(asked.ResponseFormat.JSONSchema.Schema),
		bound:  max(asked.MaxTokens, asked.MaxCompletionTokens),
	}
	for _, m := range asked.Messages {
		req.messages = append(req.messages, message{m.Role, string(m.Content)})
	}
	switch {
	case asked.Model == "":
		return req, errors.New("model is missing")
	case len(asked.Messages) == 0:
		return req, errors.New("messages is missing")
	case asked.Stream:
		return req, errors.New("stream is not supported")
	}
	return req, nil
}

func (chat) head(h http.Header, c *call) { openaiHead(h, c) }

// openaiHead tells the limits as OpenAI does; those of input and output tokens,
// which it has not, in the same manner.
func openaiHead(h http.Header, c *call) {
	h.Set("X-Request-Id", c.id("req_"))
	for _, state := range c.told {
		suffix := strings.ReplaceAll(string(state.counted), "_", "-")
		h.Set("X-Ratelimit-Limit-"+suffix, strconv.Itoa(state.max))
		h.Set("X-Ratelimit-Remaining-"+suffix, strconv.Itoa(state.left))
		h.Set("X-Ratelimit-Reset-"+suffix, state.reset.String())
	}
}

func (chat) hint(h http.Header, how Hint, wait time.Duration) { openaiHint(h, how, wait) }

func openaiHint(h http.Header, how Hint, wait time.Duration) {
	h.Set("Retry-After", roundedUp(wait, time.Second))
	if how != HintSeconds {
		h.Set("Retry-After-Ms", roundedUp(wait, time.Millisecond))
	}
}

// roundedUp is a whole number of units.
func roundedUp(d, unit time.Duration) string {
	return strconv.FormatFloat(math.Ceil(float64(d)/float64(unit)), 'f', 0, 64)
}

func (chat) key(h http.Header) (name, key string) { return bearer(h) }

// bearer is the key of an Authorization header, or of Azure's own.
func bearer(h http.Header) (name, key string) {
	if key := h.Get("Api-Key"); key != "" {
		return "Api-Key", key
	}
	key, _ = strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	return "Authorization", key
}

func (chat) answer(c *call) any {
	said := map[string]any{"role": "assistant", "content": c.plan.text, "refusal": nil}
	finish := "stop"
	switch c.plan.finish {
	case truncated, overflowing:
		finish = "length"
	case filtered:
		finish = "content_filter"
	case refused:
		said["content"], said["refusal"] = nil, c.plan.text
	}
	usage := map[string]any{
		"prompt_tokens":     c.spends.input,
		"completion_tokens": c.spends.output,
		"total_tokens":      c.spends.input + c.spends.output,
	}
	if c.plan.cached > 0 {
		usage["prompt_tokens_details"] = map[string]int{"cached_tokens": c.plan.cached}
	}
	if c.plan.reasoning > 0 {
		usage["completion_tokens_details"] = map[string]int{"reasoning_tokens": c.plan.reasoning}
	}
	return map[string]any{
		"id":      c.id("chatcmpl-"),
		"object":  "chat.completion",
		"created": time.Now().Unix(),
		"model":   c.req.model,
		"choices": []any{map[string]any{"index": 0, "message": said, "logprobs": nil, "finish_reason": finish}},
		"usage":   usage,
	}
}

var chatWords = map[Failure]words{
	RateLimited:      {429, "requests", "rate_limit_exceeded", "Rate limit reached for %s in organization org-simulated on requests per min (RPM): Limit 60, Used 60, Requested 1. Please slow down."},
	QuotaDaily:       {429, "requests", "rate_limit_exceeded", "Rate limit reached for %s in organization org-simulated on requests per day (RPD): Limit 200, Used 200, Requested 1. Please slow down."},
	QuotaBilling:     {429, "insufficient_quota", "insufficient_quota", "You exceeded your current quota, please check your plan and billing details."},
	SpendLimit:       {429, "insufficient_quota", "project_spend_limit_exceeded", "This project has reached its monthly spend limit."},
	Overloaded:       {503, "overloaded_error", "", "The engine is currently overloaded, please try again later."},
	ServerError:      {500, "server_error", "", "The server had an error while processing your request. Sorry about that!"},
	FailedIn200:      {200, "server_error", "", "The server had an error while processing your request. Sorry about that!"},
	Loading:          {503, "unavailable_error", "", "Loading model"},
	ContextLength:    {400, "invalid_request_error", "context_length_exceeded", "This model's maximum context length is %[2]d tokens. However, your messages resulted in %[1]d tokens. Please reduce the length of the messages."},
	Refused:          {400, "invalid_request_error", "invalid_prompt", "Invalid prompt: your prompt was flagged as potentially violating our usage policy."},
	Auth:             {401, "invalid_request_error", "invalid_api_key", "Incorrect API key provided."},
	keyMissing:       {401, "invalid_request_error", "", "You didn't provide an API key in an Authorization header using Bearer auth."},
	ModelUnavailable: {404, "invalid_request_error", "model_not_found", "The model `%s` does not exist or you do not have access to it."},
	BadRequest:       {400, "invalid_request_error", "", "Invalid value in the request."},
	withoutSchema:    {400, "invalid_request_error", "", "This response_format type is not supported: json_schema"},
	searchAndJSON:    {400, "invalid_request_error", "", "Web Search cannot be used with JSON mode."},
}

func (chat) problem(c *call, p problem) (status int, body any) { return openaiProblem(c, p) }

// openaiProblem is an error as both of OpenAI's dialects have it.
func openaiProblem(c *call, p problem) (status int, body any) {
	said := chatWords[p.failure]
	object := map[string]any{"message": said.say(c, p), "type": said.kind, "param": nil, "code": nil}
	switch {
	case p.status != 0 && p.failure == RateLimited: // asked for by its status
		object["type"] = "rate_limit_error"
	case p.counted != "":
		object["type"], object["code"] = p.counted, said.code
	case said.code != "":
		object["code"] = said.code
	}
	return cmp.Or(p.status, said.status), map[string]any{"error": object}
}
