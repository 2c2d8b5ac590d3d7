// Package messages speaks Anthropic's messages dialect, that of Claude.
//
// It streams nothing. A turn that Anthropic pauses is continued within the same call, with a separate request for each
// part. Tools other than Anthropic's own search are deliberately absent: evalfleet asks for one text.
package messages

import (
	"context"
	"errors"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// version is the dialect's version since 2023; later additions are fields.
const version = "2023-06-01"

// mostPauses bounds the cost of one call. Anthropic pauses after ten rounds of its tools.
const mostPauses = 8

// Config describes one endpoint. BaseURL is the prefix of /v1/messages, for example
// "https://api.anthropic.com"; KeyHeader is "x-api-key" when empty; Capabilities.Search is the
// type of a tool, "web_search_20250305".
type Config = transport.Config

// Provider calls one endpoint in the messages dialect. It implements providers.Batches and is safe for concurrent
// use.
type Provider struct{ endpoint *transport.Endpoint }

// New checks the configuration; it opens no connection.
func New(config Config) (*Provider, error) {
	endpoint, err := transport.Open(config, "X-Api-Key")
	if err != nil {
		return nil, err
	}
	return &Provider{endpoint}, nil
}

// Call makes one attempt; see providers.Provider. A turn that is paused takes a further request for each pause, eight
// at most. Each request calls Request.Ready. The usage of all is summed, and Result.Raw has their bodies, one per line.
// If a request fails, those before it may be billed. The prompt has to ask for a search: models that think cannot be
// forced to.
func (p *Provider) Call(ctx context.Context, req *providers.Request) (*providers.Result, error) {
	x, err := p.endpoint.Begin(req, req.Model)
	if err != nil {
		return nil, err
	}
	x.Header.Set("Anthropic-Version", version)
	body, dropped := compose(x.Request, x.Capabilities, x.Format)
	asked, _ := body["messages"].([]any)
	var t turn
	for {
		if err := t.part(ctx, x, body); err != nil {
			var failed *providers.Error
			if errors.As(err, &failed) && t.parts > 0 {
				failed.MayBeBilled, failed.Used = true, t.usage
			}
			return nil, x.Learn(err)
		}
		if !t.paused() || t.parts > mostPauses {
			break
		}
		body = t.resume(body, asked)
	}

	result, err := t.result()
	if err != nil {
		return nil, err
	}
	return x.Finish(result, dropped), nil
}

// part makes one request and adds its answer to the turn.
func (t *turn) part(ctx context.Context, x *transport.Exchange, body object) error {
	answer, err := x.Post(ctx, "v1/messages", body)
	if err != nil {
		return err
	}
	return t.add(answer)
}
