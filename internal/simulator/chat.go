package simulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// chat is the dialect of OpenAI's chat completions.
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
		Type       string `json:"type"`
		JSONSchema struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
	ServiceTier string `json:"service_tier"`
	LogProbs    bool   `json:"logprobs"`
	TopLogProbs *int   `json:"top_logprobs"`
	openaiCaching
	ReasoningEffort string `json:"reasoning_effort"`
	Reasoning       *struct {
		Effort  string `json:"effort"`
		Exclude bool   `json:"exclude"`
	} `json:"reasoning"` // OpenRouter's
	WebSearchOptions *struct{} `json:"web_search_options"`
	Tools            []struct {
		Type string `json:"type"`
	} `json:"tools"`
}

// reasons reports whether reasoning is requested, in either form.
func (r chatRequest) reasons() bool {
	if r.Reasoning != nil {
		return r.Reasoning.Effort != "none"
	}
	return r.ReasoningEffort != "" && r.ReasoningEffort != "none"
}

func (chat) parse(_ *http.Request, body []byte) (*request, error) {
	var asked chatRequest
	if err := json.Unmarshal(body, &asked); err != nil {
		return &request{}, fmt.Errorf("the body is not a chat completions request: %w", err)
	}
	req := &request{
		model:  asked.Model,
		tier:   asked.ServiceTier,
		schema: string(asked.ResponseFormat.JSONSchema.Schema),
		bound:  max(asked.MaxTokens, asked.MaxCompletionTokens, 0),
		json:   strings.HasPrefix(asked.ResponseFormat.Type, "json"),
		reason: asked.reasons(),
		routed: true, cacheKey: asked.PromptCacheKey, unasked: asked.PromptCacheOptions.Mode == "explicit",
		shown:  asked.Reasoning == nil || !asked.Reasoning.Exclude,
		search: asked.WebSearchOptions != nil,
	}
	for _, tool := range asked.Tools {
		req.search = req.search || tool.Type == "openrouter:web_search"
	}
	for _, m := range asked.Messages {
		req.say(m.Role, m.Content, tiledTokens)
	}
	switch {
	case asked.Model == "":
		return req, errors.New("model is missing")
	case len(asked.Messages) == 0:
		return req, errors.New("messages is missing")
	case asked.Stream:
		return req, errors.New("stream is not supported")
	}

	return req, req.wantsLogProbs(asked.LogProbs, asked.TopLogProbs)
}

func (chat) head(h http.Header, c *call) { openaiHead(h, c) }

func (chat) hint(h http.Header, c *call, p problem) { openaiHint(h, c, p) }

func (chat) key(h http.Header) (name, key string) { return bearer(h) }

// bearer returns the key of an Authorization header, or of Azure's header, and the header's name.
func bearer(h http.Header) (name, key string) {
	if key := h.Get("Api-Key"); key != "" {
		return "Api-Key", key
	}
	key, _ = strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	return "Authorization", key
}

func (chat) answer(c *call) any {
	said := map[string]any{"role": "assistant", "content": c.plan.text, "refusal": nil}
	choice := map[string]any{"index": 0, "message": said, "logprobs": nil, "finish_reason": "stop"}
	switch c.plan.finish {
	case truncated, overflowing:
		choice["finish_reason"] = "length"
	case filtered:
		choice["finish_reason"] = "content_filter"
	case refused:
		said["content"], said["refusal"] = nil, c.plan.text
	}

	if c.plan.found != nil {
		said["annotations"] = c.plan.chatCitations()
	}
	if c.req.logProbs {
		choice["logprobs"] = map[string]any{"content": openAILogProbs(c.tokensOf(c.plan.text)), "refusal": nil}
	}
	usage := map[string]any{
		"prompt_tokens":     c.spends.input,
		"completion_tokens": c.spends.output,
		"total_tokens":      c.spends.input + c.spends.output,
	}
	if c.plan.cached > 0 || c.plan.written > 0 {
		usage["prompt_tokens_details"] = c.cacheDetails()
	}
	if c.plan.reasoning > 0 {
		usage["completion_tokens_details"] = map[string]int{"reasoning_tokens": c.plan.reasoning}
	}
	body := map[string]any{
		"id":      c.id("chatcmpl-"),
		"object":  "chat.completion",
		"created": time.Now().Unix(),
		"model":   c.named(),
		"choices": []any{choice},
		"usage":   usage,
	}
	if c.req.tier != "" {
		body["service_tier"] = c.req.tier
	}
	c.addManners(body, choice, said, usage)
	return body
}

// chatCitations returns the citations of the Responses API, nested one level deeper.
func (p plan) chatCitations() []any {
	citations := p.urlCitations()
	for i, citation := range citations {
		fields := citation.(map[string]any)
		delete(fields, "type")
		citations[i] = map[string]any{"type": "url_citation", "url_citation": fields}
	}
	return citations
}

var chatWords = map[Failure]words{
	RateLimited: {
		429, "requests", "rate_limit_exceeded",
		"Rate limit reached for %s in organization org-simulated on requests per min (RPM): Limit 60, Used 60, Requested 1. Please slow down.",
	},
	QuotaDaily: {
		429, "requests", "rate_limit_exceeded",
		"Rate limit reached for %s in organization org-simulated on requests per day (RPD): Limit 200, Used 200, Requested 1. Please slow down.",
	},
	QuotaBilling: {
		429, "insufficient_quota", "insufficient_quota",
		"You exceeded your current quota, please check your plan and billing details.",
	},
	SpendLimit:  {429, "insufficient_quota", "project_spend_limit_exceeded", "This project has reached its monthly spend limit."},
	Overloaded:  {503, "overloaded_error", "", "The engine is currently overloaded, please try again later."},
	ServerError: {500, "server_error", "", "The server had an error while processing your request. Sorry about that!"},
	FailedIn200: {200, "server_error", "", "The server had an error while processing your request. Sorry about that!"},
	Loading:     {503, "unavailable_error", "", "Loading model"},
	ContextLength: {
		400, "invalid_request_error", "context_length_exceeded",
		"This model's maximum context length is %[2]d tokens. However, your messages resulted in %[1]d tokens. Please " +
			"reduce the length of the messages.",
	},
	Refused: {
		400, "invalid_request_error", "invalid_prompt",
		"Invalid prompt: your prompt was flagged as potentially violating our usage policy.",
	},
	Auth:             {401, "invalid_request_error", "invalid_api_key", "Incorrect API key provided."},
	keyMissing:       {401, "invalid_request_error", "", "You didn't provide an API key in an Authorization header using Bearer auth."},
	ModelUnavailable: {404, "invalid_request_error", "model_not_found", "The model `%s` does not exist or you do not have access to it."},
	BadRequest:       {400, "invalid_request_error", "", "Invalid value in the request."},
	withoutCapacity: {429, "resource_unavailable", "resource_unavailable", "Resource unavailable. Try again later or " +
		"use another service tier."},
	withoutSystem: {400, "BadRequestError", "", "System role not supported"},
	withoutSchema: {400, "invalid_request_error", "", "This response_format type is not supported: json_schema"},
	searchAndJSON: {400, "invalid_request_error", "", "Web Search cannot be used with JSON mode."},
}

func (chat) problem(c *call, p problem) (status int, body any) { return openaiProblem(c, p) }
