// Package responses speaks the dialect of OpenAI's Responses API, which Azure's v1
// API shares. It makes plain calls and background jobs (deep research).
//
// It makes one attempt per call and streams nothing. Conversations kept by the
// provider, images and tools other than its web search are deliberately absent:
// evalfleet asks for one text.
package responses

import (
	"context"
	"net/http"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// Config describes one endpoint.
type Config struct {
	// BaseURL stands before /responses, for example "https://api.openai.com/v1" or
	// "https://NAME.openai.azure.com/openai/v1". Required; a query is kept.
	BaseURL string
	// HTTPClient's connections are used; its redirect policy and timeout are
	// not. Share one of transport.NewClient's. Required.
	HTTPClient *http.Client
	// KeyHeader is the header of the key: "Authorization" when empty, in which it
	// stands behind "Bearer"; Azure has "api-key".
	KeyHeader string
	// Capabilities knows the endpoint's models; nil: nothing is known of any.
	// Capabilities.Search is the type of the search tool.
	Capabilities providers.CapabilitiesOf
}

// Provider calls one endpoint in the responses dialect. It implements
// providers.Background and is safe for concurrent use.
type Provider struct {
	client       *transport.Client
	keyHeader    string
	capabilities providers.CapabilitiesOf
	formats      transport.Formats
	bare         bare
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
	return &Provider{client: client, keyHeader: config.KeyHeader, capabilities: config.Capabilities}, nil
}

// Call makes one attempt; see providers.Provider. Nothing of it is stored at the
// provider. A refusal in a good answer is a Result with FinishRefused, a prompt
// refused outright an error of class Refused. An endpoint that refuses a way of
// structured output, or what asks for more evidence than it gives, is asked
// without it from then on for that model, beginning with providers.ErrAgain.
func (p *Provider) Call(ctx context.Context, req *providers.Request) (*providers.Result, error) {
	answer, dropped, err := p.create(ctx, req, false)
	if err != nil {
		return nil, err
	}
	r, err := decode(answer)
	if err != nil {
		return nil, err
	}
	result, err := r.result(answer)
	if err != nil {
		return nil, err
	}
	result.JSON = transport.JSONText(req, result.Text)
	result.Dropped = dropped
	return result, nil
}

// create sends req and learns from what is refused of it.
func (p *Provider) create(ctx context.Context, req *providers.Request, background bool) (answer *transport.Answer, dropped []string, err error) {
	caps := p.capabilities(req.Model)
	if err := caps.Check(req); err != nil {
		return nil, nil, err
	}
	w := way{background: background, bare: p.bare.is(req.Model), format: providers.JSONNone}
	if req.Schema != nil {
		w.format = p.formats.Of(req.Model, caps.JSON)
	}
	body, dropped, err := w.encode(req, caps)
	if err != nil {
		return nil, nil, &providers.Error{Class: providers.BadRequest, Message: err.Error(), Err: err}
	}
	header, err := transport.Header(req, p.keyHeader)
	if err != nil {
		return nil, nil, err
	}
	answer, err = p.client.Do(ctx, transport.Post{Path: "responses", Header: header, Key: req.Key, Body: body, Ready: req.Ready})
	if err != nil {
		if !w.bare && (req.Search || req.Reason) && p.bare.learn(req.Model, err) {
			return nil, nil, err
		}
		return nil, nil, p.formats.Learn(req.Model, caps.JSON, w.format, err)
	}
	return answer, dropped, nil
}
