// Package generate speaks Google's generateContent dialect, that of Gemini.
//
// It makes one attempt per call and streams nothing. Several candidates, cached contents
// and tools other than Google's own search are deliberately absent: evalfleet asks
// for one text.
package generate

import (
	"context"
	"net/url"
	"strings"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// Config describes one endpoint. BaseURL is the prefix of
// /v1beta/models/{model}:generateContent, for example
// "https://generativelanguage.googleapis.com"; KeyHeader is "x-goog-api-key" when empty;
// Capabilities.Search is the name of a tool, "googleSearch".
type Config = transport.Config

// Provider calls one endpoint in the generateContent dialect. It implements providers.Batches and is safe for
// concurrent use.
type Provider struct{ endpoint *transport.Endpoint }

// New checks the configuration; it opens no connection.
func New(config Config) (*Provider, error) {
	endpoint, err := transport.Open(config, "X-Goog-Api-Key")
	if err != nil {
		return nil, err
	}
	return &Provider{endpoint}, nil
}

// Call makes one attempt; see providers.Provider. If Google blocks the prompt, or stops the answer because of its
// content, the Result has FinishRefused. Google cannot be made to search: the prompt has to ask for it.
func (p *Provider) Call(ctx context.Context, req *providers.Request) (*providers.Result, error) {
	model := strings.TrimPrefix(req.Model, "models/") // Google's own form of names
	x, err := p.endpoint.Begin(req, model)
	if err != nil {
		return nil, err
	}
	body, dropped := encode(x.Request, x.Capabilities, x.Format)
	answer, err := x.Post(ctx, path(model, "generateContent"), body)
	if err != nil {
		return nil, x.Learn(err)
	}
	result, err := decode(answer)
	if err != nil {
		return nil, x.Learn(err)
	}
	return x.Finish(result, dropped), nil
}

// path returns the path of a model's method. The name is escaped, so that it cannot lead elsewhere.
func path(model, method string) string {
	return "v1beta/models/" + url.PathEscape(model) + ":" + method
}
