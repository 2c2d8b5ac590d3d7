package chat

import (
	"encoding/json"
	"errors"
	"math"
	"strings"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// completion is what is read of an answer; all else stays in Result.Raw.
type completion struct {
	Model   string           `json:"model"`
	Error   *json.RawMessage `json:"error"` // OpenRouter and LM Studio send errors with status 200
	Choices []struct {
		FinishReason string           `json:"finish_reason"`
		Error        *json.RawMessage `json:"error"`
		Message      struct {
			Content content `json:"content"`
			Refusal string  `json:"refusal"`
		} `json:"message"`
	} `json:"choices"`
	Usage *usage `json:"usage"`
}

// decode turns a whole answer into a result; its error is a *providers.Error.
func decode(answer *transport.Answer) (*providers.Result, error) {
	var c completion
	if err := json.Unmarshal(answer.Body, &c); err != nil {
		return nil, answer.Malformed(err)
	}
	if c.Error != nil {
		return nil, answer.Failure()
	}
	if len(c.Choices) == 0 {
		return nil, answer.Malformed(errors.New("no choices"))
	}
	choice := c.Choices[0]
	if choice.Error != nil {
		return nil, answer.FailureIn(*choice.Error)
	}
	result := &providers.Result{
		Text:      string(choice.Message.Content),
		Usage:     c.Usage.normalised(),
		Model:     c.Model,
		RequestID: answer.RequestID,
		Limits:    answer.Limits(),
		Raw:       answer.Body,
	}
	switch choice.FinishReason {
	case "length", "max_tokens", "model_length":
		result.Finish = providers.FinishTruncated
	case "content_filter", "sensitive":
		result.Finish = providers.FinishRefused
	case "error", "network_error", "insufficient_system_resource", "abort":
		return nil, answer.Malformed(errors.New("the answer broke off: " + choice.FinishReason))
	default: // stop; servers have words of their own for it, or none
		result.Finish = providers.FinishStop
	}
	if choice.Message.Refusal != "" {
		result.Finish, result.Text = providers.FinishRefused, choice.Message.Refusal
	}
	return result, nil
}

// content is a message's text: a string, null, or a list of parts of which the
// texts are joined (a reasoning model's thoughts are parts of another type).
type content string

// UnmarshalJSON accepts any of the three forms.
func (c *content) UnmarshalJSON(raw []byte) error {
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return json.Unmarshal(raw, (*string)(c))
	}
	var text strings.Builder
	for _, part := range parts {
		if part.Type == "text" {
			text.WriteString(part.Text)
		}
	}
	*c = content(text.String())
	return nil
}

type usage struct {
	Prompt        count           `json:"prompt_tokens"`
	Completion    count           `json:"completion_tokens"`
	Total         count           `json:"total_tokens"`
	CacheHit      count           `json:"prompt_cache_hit_tokens"` // DeepSeek
	Cost          json.RawMessage `json:"cost"`                    // OpenRouter, USD
	PromptDetails struct {
		Cached count `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning count `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func (u *usage) normalised() providers.Usage {
	if u == nil {
		return providers.Usage{}
	}
	var cost *float64
	if json.Unmarshal(u.Cost, &cost) != nil {
		cost = nil // unknown, not the answer's loss
	}
	return providers.Usage{
		Reported: true,
		Input:    int64(u.Prompt),
		// xAI and Gemini leave reasoning out of the completion, not of the total.
		Output:    int64(max(u.Completion, u.Total-u.Prompt)),
		Cached:    int64(max(u.PromptDetails.Cached, u.CacheHit)),
		Reasoning: int64(u.CompletionDetails.Reasoning),
		CostUSD:   cost,
	}
}

// count is a number of tokens. What is no such number reads as 0: an odd count
// must not cost the answer that was paid for.
type count int64

// UnmarshalJSON never fails.
func (c *count) UnmarshalJSON(raw []byte) error {
	var n float64
	if json.Unmarshal(raw, &n) == nil && n > 0 && n < math.MaxInt32 {
		*c = count(n)
	}
	return nil
}
