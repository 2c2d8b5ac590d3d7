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

// head tells the limits as OpenAI does; those of input and output tokens, which
// it has not, in the same manner.
func (chat) head(h http.Header, c *call) {
	h.Set("X-Request-Id", c.id("req_"))
	for _, state := range c.told {
		suffix := strings.ReplaceAll(string(state.counted), "_", "-")
		h.Set("X-Ratelimit-Limit-"+suffix, strconv.Itoa(state.max))
		h.Set("X-Ratelimit-Remaining-"+suffix, strconv.Itoa(state.left))
		h.Set("X-Ratelimit-Reset-"+suffix, state.reset.String())
	}
}

func (chat) hint(h http.Header, how Hint, wait time.Duration) {
	h.Set("Retry-After", roundedUp(wait, time.Second))
	if how != HintSeconds {
		h.Set("Retry-After-Ms", roundedUp(wait, time.Millisecond))
	}
}

// roundedUp is a whole number of units.
func roundedUp(d, unit time.Duration) string {
	return strconv.FormatFloat(math.Ceil(float64(d)/float64(unit)), 'f', 0, 64)
}

func (chat) answer(c *call) any {
	finish := "stop"
	if c.plan.truncated {
		finish = "length"
	}
	usage := map[string]any{
		"prompt_tokens":     c.spends.input,
		"completion_tokens": c.spends.output,
		"total_tokens":      c.spends.input + c.spends.output,
	}
	if c.plan.reasoning > 0 {
		usage["completion_tokens_details"] = map[string]int{"reasoning_tokens": c.plan.reasoning}
	}
	return map[string]any{
		"id":      c.id("chatcmpl-"),
		"object":  "chat.completion",
		"created": time.Now().Unix(),
		"model":   c.req.model,
		"choices": []any{map[string]any{
			"index":         0,
			"message":       map[string]any{"role": "assistant", "content": c.plan.text, "refusal": nil},
			"logprobs":      nil,
			"finish_reason": finish,
		}},
		"usage": usage,
	}
}

func (chat) problem(p problem) (status int, body any) {
	kind, code := "invalid_request_error", ""
	switch p.failure {
	case rateLimited:
		status, kind = http.StatusTooManyRequests, "rate_limit_error"
		if p.counted != "" {
			kind, code = string(p.counted), "rate_limit_exceeded"
		}
	case overloaded:
		status, kind = http.StatusServiceUnavailable, "overloaded_error"
	case serverError:
		status, kind = http.StatusInternalServerError, "server_error"
	case modelUnavailable:
		status, code = http.StatusNotFound, "model_not_found"
	case withoutSchema:
		status, p.message = http.StatusBadRequest, "This response_format type is not supported: json_schema"
	default:
		status = http.StatusBadRequest
	}
	object := map[string]any{"message": p.message, "type": kind, "param": nil, "code": nil}
	if code != "" {
		object["code"] = code
	}
	return cmp.Or(p.status, status), map[string]any{"error": object}
}
