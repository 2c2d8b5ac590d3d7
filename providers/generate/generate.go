// Package generate speaks Google's generateContent dialect, that of Gemini.
//
// It makes one attempt per call and streams nothing. Images, several candidates,
// cached contents and tools other than Google's own search are deliberately
// absent: evalfleet asks for one text.
package generate

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// Config describes one endpoint.
type Config struct {
	// BaseURL stands before /v1beta/models/{model}:generateContent, for example
	// "https://generativelanguage.googleapis.com". Required; a query is kept.
	BaseURL string
	// HTTPClient's connections are used; its redirect policy and timeout are
	// not. Share one of transport.NewClient's. Required.
	HTTPClient *http.Client
	// KeyHeader is the header of the key: "x-goog-api-key" when empty. In
	// "Authorization" it stands behind "Bearer".
	KeyHeader string
	// Capabilities knows the endpoint's models; nil: nothing is known of any.
	// Capabilities.Search is the name of a tool, "googleSearch".
	Capabilities providers.CapabilitiesOf
}

// Provider calls one endpoint in the generateContent dialect. It is safe for
// concurrent use.
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
	if config.KeyHeader == "" {
		config.KeyHeader = "X-Goog-Api-Key"
	}
	if config.Capabilities == nil {
		config.Capabilities = func(string) providers.Capabilities { return providers.Capabilities{} }
	}
	return &Provider{config: config, client: client}, nil
}

// Call makes one attempt; see providers.Provider. A prompt that Google blocks and
// an answer that it stops for what stands in it are Results with FinishRefused.
// Google cannot be made to search: the prompt has to ask for it.
func (p *Provider) Call(ctx context.Context, req *providers.Request) (*providers.Result, error) {
	model := strings.TrimPrefix(req.Model, "models/") // Google's own form of names
	caps := p.config.Capabilities(model)
	if err := caps.Check(req); err != nil {
		return nil, err
	}
	format := providers.JSONNone
	if req.Schema != nil {
		format = p.formats.Of(model, caps.JSON)
	}
	body, dropped, err := encode(req, caps, format)
	if err != nil {
		return nil, &providers.Error{Class: providers.BadRequest, Message: err.Error(), Err: err}
	}
	header, err := transport.Header(req, p.config.KeyHeader)
	if err != nil {
		return nil, err
	}
	answer, err := p.client.Do(ctx, transport.Post{Path: path(model), Header: header, Key: req.Key, Body: body, Ready: req.Ready})
	if err != nil {
		return nil, p.formats.Learn(model, caps.JSON, format, err)
	}
	result, err := decode(answer)
	if err != nil {
		return nil, err
	}
	result.JSON = transport.JSONText(req, result.Text)
	result.Dropped = dropped
	return result, nil
}

// path is the endpoint of a model, whose name cannot lead elsewhere.
func path(model string) string {
	return "v1beta/models/" + url.PathEscape(model) + ":generateContent"
}
