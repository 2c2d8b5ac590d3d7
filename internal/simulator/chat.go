package simulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// maxRequestBytes is the longest request read.
const maxRequestBytes = 32 << 20

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type chatRequest struct {
	Model               string    `json:"model"`
	Messages            []message `json:"messages"`
	MaxTokens           int       `json:"max_tokens"`
	MaxCompletionTokens int       `json:"max_completion_tokens"`
	Stream              bool      `json:"stream"`
	ResponseFormat      struct {
		JSONSchema struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
}

// readRequest reads the whole body, without which a server does not notice that
// its client left.
func readRequest(w http.ResponseWriter, r *http.Request) (*chatRequest, error) {
	var req chatRequest
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequestBytes))
	if err := decoder.Decode(&req); err != nil {
		return nil, fmt.Errorf("the body is not a chat completions request: %w", err)
	}
	if decoder.More() {
		return nil, errors.New("the body is more than one JSON object")
	}
	switch {
	case req.Model == "":
		return nil, errors.New("model is missing")
	case len(req.Messages) == 0:
		return nil, errors.New("messages is missing")
	case req.Stream:
		return nil, errors.New("stream is not supported")
	}
	return &req, nil
}

// schema is the one sent beside the prompt; empty: none.
func (r *chatRequest) schema() string { return string(r.ResponseFormat.JSONSchema.Schema) }

// hash is the prompt's identity: the model and everything said to it.
func (r *chatRequest) hash() uint64 {
	parts := []string{r.Model}
	for _, m := range r.Messages {
		parts = append(parts, m.Role, m.Content)
	}
	return hashOf(parts...)
}

// tokens is a plain estimate of four bytes each.
func tokens(bytes int) int { return (bytes + 3) / 4 }

// bound is the most output tokens that the request allows; 0: no bound.
func (r *chatRequest) bound() int { return max(r.MaxTokens, r.MaxCompletionTokens) }

func (r *chatRequest) inputTokens() (n int) {
	for _, m := range r.Messages {
		n += tokens(len(m.Content)) + 4
	}
	return n
}

// completion is the body of a good answer.
func (c *call) completion() reply {
	usage := map[string]any{
		"prompt_tokens":     c.spends.input,
		"completion_tokens": c.spends.output,
		"total_tokens":      c.spends.input + c.spends.output,
	}
	if c.plan.reasoning > 0 {
		usage["completion_tokens_details"] = map[string]int{"reasoning_tokens": c.plan.reasoning}
	}
	body := encode(map[string]any{
		"id":      fmt.Sprintf("chatcmpl-%016x", hashOf("completion", c.luck)),
		"object":  "chat.completion",
		"created": time.Now().Unix(),
		"model":   c.model,
		"choices": []any{map[string]any{
			"index":         0,
			"message":       message{Role: "assistant", Content: c.plan.text},
			"finish_reason": c.plan.finish,
		}},
		"usage": usage,
	})
	return reply{status: http.StatusOK, body: []byte(body), outcome: answered}
}
