// Package messages speaks Anthropic's messages dialect, that of Claude.
//
// It streams nothing. A turn that Anthropic pauses is gone on with inside of the
// same call, each part a request of its own. Images, prompt caching and tools other
// than Anthropic's own search are deliberately absent: evalfleet asks for one text.
package messages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// version is the one that the dialect has had since 2023; what was added since
// stands in fields.
const version = "2023-06-01"

// mostPauses bounds what one call may cost. Anthropic pauses after ten rounds of
// its tools.
const mostPauses = 8

// Config describes one endpoint.
type Config struct {
	// BaseURL stands before /v1/messages, for example "https://api.anthropic.com".
	// Required; a query is kept.
	BaseURL string
	// HTTPClient's connections are used; its redirect policy and timeout are
	// not. Share one of transport.NewClient's. Required.
	HTTPClient *http.Client
	// KeyHeader is the header of the key: "x-api-key" when empty. In
	// "Authorization" it stands behind "Bearer".
	KeyHeader string
	// Capabilities knows the endpoint's models; nil: nothing is known of any.
	// Capabilities.Search is the type of a tool, "web_search_20250305".
	Capabilities providers.CapabilitiesOf
}

// Provider calls one endpoint in the messages dialect. It is safe for concurrent
// use.
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
		config.KeyHeader = "X-Api-Key"
	}
	if config.Capabilities == nil {
		config.Capabilities = func(string) providers.Capabilities { return providers.Capabilities{} }
	}
	return &Provider{config: config, client: client}, nil
}

// Call makes one attempt; see providers.Provider. A turn that is paused takes a
// further request for each pause, eight at most, each of which asks Request.Ready;
// their usage is summed, Result.Raw has a body a line, and where one of them fails,
// those before it may be billed. The prompt has to ask for a search: models that
// think cannot be made to.
func (p *Provider) Call(ctx context.Context, req *providers.Request) (*providers.Result, error) {
	caps := p.config.Capabilities(req.Model)
	if err := caps.Check(req); err != nil {
		return nil, err
	}
	header, err := transport.Header(req, p.config.KeyHeader)
	if err != nil {
		return nil, err
	}
	header.Set("Anthropic-Version", version)
	format := providers.JSONNone
	if req.Schema != nil {
		format = p.formats.Of(req.Model, caps.JSON)
	}
	body, dropped := compose(req, caps, format)
	var t turn
	for {
		if err := p.part(ctx, req, header, body, &t); err != nil {
			var failed *providers.Error
			if errors.As(err, &failed) && t.parts > 0 {
				failed.MayBeBilled = true
			}
			return nil, p.formats.Learn(req.Model, caps.JSON, format, err)
		}
		if !t.paused() || t.parts > mostPauses {
			break
		}
		body = t.resume(body, req)
	}
	result, err := t.result()
	if err != nil {
		return nil, err
	}
	result.JSON = transport.JSONText(req, result.Text)
	result.Dropped = dropped
	return result, nil
}

// part makes one request and adds its answer to the turn.
func (p *Provider) part(ctx context.Context, req *providers.Request, header http.Header, body object, t *turn) error {
	raw, err := json.Marshal(body)
	if err != nil {
		err = fmt.Errorf("encode request: %w", err)
		return &providers.Error{Class: providers.BadRequest, Message: err.Error(), Err: err}
	}
	answer, err := p.client.Do(ctx, transport.Post{Path: "v1/messages", Header: header, Key: req.Key, Body: raw, Ready: req.Ready})
	if err != nil {
		return err
	}
	return t.add(answer)
}
