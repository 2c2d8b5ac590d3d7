// Package ollama speaks the dialect of Ollama's own server, /api/chat, which says
// more than its copy of OpenAI's: whether a prompt was cut, what a model thought.
//
// It makes one attempt per call and streams nothing. Images, tools and the loading
// of models are deliberately absent: evalfleet asks for one text.
package ollama

import (
	"context"
	"net/http"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// Config describes one endpoint.
type Config struct {
	// BaseURL stands before /api/chat, for example "http://127.0.0.1:11434".
	// Required; a query is kept.
	BaseURL string
	// HTTPClient's connections are used; its redirect policy and timeout are
	// not. Share one of transport.NewClient's. Required.
	HTTPClient *http.Client
	// KeyHeader is the header of the key, of servers that want one: "Authorization"
	// when empty, in which it stands behind "Bearer".
	KeyHeader string
	// Capabilities knows the endpoint's models; nil: nothing is known of any. With
	// providers.ReasoningEffort a model is told how much to think (gpt-oss), else
	// only whether to.
	Capabilities providers.CapabilitiesOf
}

// Provider calls one endpoint in Ollama's dialect. It is safe for concurrent use.
type Provider struct {
	config  Config
	client  *transport.Client
	formats transport.Formats
}

// New checks the configuration; it opens no connection.
func New(config Config) (*Provider, error) {
	client, err := transport.New(config.HTTPClient, config.BaseURL)
	if err != nil {
		return nil, err
	}
	if config.Capabilities == nil {
		config.Capabilities = func(string) providers.Capabilities { return providers.Capabilities{} }
	}
	return &Provider{config: config, client: client}, nil
}

// Call makes one attempt; see providers.Provider. The server waits with it for a
// free place and loads the model where need be, all within the call's time. It has
// no search.
func (p *Provider) Call(ctx context.Context, req *providers.Request) (*providers.Result, error) {
	caps := p.config.Capabilities(req.Model)
	caps.Search = ""
	if err := caps.Check(req); err != nil {
		return nil, err
	}
	format := providers.JSONNone
	if req.Schema != nil {
		format = p.formats.Of(req.Model, caps.JSON)
	}
	body, dropped, err := encode(req, caps, format)
	if err != nil {
		return nil, &providers.Error{Class: providers.BadRequest, Message: err.Error(), Err: err}
	}
	header, err := transport.Header(req, p.config.KeyHeader)
	if err != nil {
		return nil, err
	}
	answer, err := p.client.Do(ctx, transport.Post{Path: "api/chat", Header: header, Key: req.Key, Body: body, Ready: req.Ready})
	if err != nil {
		return nil, p.formats.Learn(req.Model, caps.JSON, format, err)
	}
	result, err := decode(answer)
	if err != nil {
		return nil, err
	}
	result.JSON = transport.JSONText(req, result.Text)
	result.Dropped = dropped
	return result, nil
}
