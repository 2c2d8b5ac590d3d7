// Package chat speaks the chat completions dialect: OpenAI's, and that of every
// endpoint compatible with it (Azure, OpenRouter, vLLM, LM Studio, …).
//
// It makes one attempt per call and streams nothing. Tools, images and several
// choices are deliberately absent: evalfleet asks for one text.
package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// Config describes one endpoint.
type Config struct {
	// BaseURL stands before /chat/completions, for example
	// "http://127.0.0.1:8000/v1". Required; a query is kept.
	BaseURL string
	// HTTPClient's connections are used; its redirect policy and timeout are
	// not. Share one of transport.NewClient's. Required.
	HTTPClient *http.Client
	// KeyHeader is the header of the key: "Authorization" when empty, in which it
	// stands behind "Bearer"; Azure has "api-key".
	KeyHeader string
	// MaxTokensField is the body's field for Request.MaxOutputTokens:
	// "max_tokens" when empty; OpenAI itself wants "max_completion_tokens".
	MaxTokensField string
	// JSON is how an answer that satisfies Request.Schema is asked for. The
	// default finds out what the endpoint can do.
	JSON providers.JSON
}

// Provider calls one endpoint in the chat dialect. It is safe for concurrent
// use.
type Provider struct {
	client         *transport.Client
	keyHeader      string
	maxTokensField string
	formats        formats
}

// New checks the configuration; it opens no connection.
func New(config Config) (*Provider, error) {
	client, err := transport.New(config.HTTPClient, config.BaseURL)
	if err != nil {
		return nil, err
	}
	if err := validate(config.JSON); err != nil {
		return nil, err
	}
	field := config.MaxTokensField
	if field == "" {
		field = "max_tokens"
	}
	return &Provider{client: client, keyHeader: config.KeyHeader, maxTokensField: field, formats: formats{fixed: config.JSON}}, nil
}

// Call makes one attempt; see providers.Provider. A refusal in a good answer is
// a Result with FinishRefused, a prompt refused outright an error of class
// Refused. Where the endpoint turns out not to know a way of structured output,
// the error is providers.ErrAgain and the next way is used from then on for that
// model.
func (p *Provider) Call(ctx context.Context, req *providers.Request) (*providers.Result, error) {
	format := p.formats.of(req)
	body, err := p.encode(req, format)
	if err != nil {
		return nil, &providers.Error{Class: providers.BadRequest, Message: err.Error(), Err: err}
	}
	header, err := transport.Header(req, p.keyHeader)
	if err != nil {
		return nil, err
	}
	answer, err := p.client.Do(ctx, transport.Post{Path: "chat/completions", Header: header, Key: req.Key, Body: body, Ready: req.Ready})
	if err != nil {
		return nil, p.formats.learn(req.Model, format, err)
	}
	result, err := decode(answer)
	if err != nil {
		return nil, err
	}
	result.JSON = transport.JSONText(req, result.Text)
	return result, nil
}

// encode builds the body. The request's own fields win over Extra's; keys are
// sorted, so that the same request is the same bytes.
func (p *Provider) encode(req *providers.Request, format providers.JSON) ([]byte, error) {
	body := make(map[string]any, len(req.Extra)+6)
	for name, value := range req.Extra {
		body[name] = value
	}
	delete(body, "stream") // the answer is read as one JSON object
	body["model"] = req.Model
	body["messages"] = req.Messages
	if req.MaxOutputTokens > 0 {
		body[p.maxTokensField] = req.MaxOutputTokens
	}
	if req.Temperature != nil {
		body["temperature"] = *req.Temperature
	}
	if req.ReasoningEffort != "" {
		body["reasoning_effort"] = req.ReasoningEffort
	}
	if asked := responseFormat(format, req.Schema); asked != nil {
		body["response_format"] = asked
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	return raw, nil
}
