// Package responses speaks the dialect of OpenAI's Responses API, which Azure's v1
// API shares. It makes plain calls and background jobs (deep research).
//
// It makes one attempt per call and streams nothing. Conversations kept by the
// provider, and tools other than its web search are deliberately absent: evalfleet
// asks for one text.
package responses

import (
	"context"
	"errors"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/filebatch"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// Config describes one endpoint. BaseURL is the prefix of /responses, for example
// "https://api.openai.com/v1" or "https://NAME.openai.azure.com/openai/v1"; KeyHeader is
// "Authorization" when empty, Azure has "api-key"; Capabilities.Search is the type of the
// search tool.
type Config = transport.Config

// Provider calls one endpoint in the responses dialect. It implements
// providers.Background and providers.Batches, and is safe for concurrent use.
type Provider struct {
	batches
	endpoint *transport.Endpoint
	bare     transport.Refusals // models that are not asked for evidence
}

// New checks the configuration; it opens no connection.
func New(config Config) (*Provider, error) {
	endpoint, err := transport.Open(config, "")
	if err != nil {
		return nil, err
	}
	p := &Provider{endpoint: endpoint}
	p.batches = batches{Endpoint: endpoint, Answers: "/v1/responses", Body: p.inBatch, Read: plain}
	return p, nil
}

type batches = filebatch.Batches

// inBatch returns the body of a request in a batch.
func (p *Provider) inBatch(req *providers.Request) (map[string]any, error) {
	x, err := p.endpoint.Begin(req, req.Model)
	if err != nil {
		return nil, err
	}
	if x.Capabilities.Background {
		return nil, &providers.Error{Class: providers.BadRequest, Message: req.Model + " runs in the background and cannot be in a batch"}
	}
	body, _ := p.way(req, x, false).encode(x.Request, x.Capabilities)
	return body, nil
}

// plain reads the answer to a plain call.
func plain(answer *transport.Answer) (*providers.Result, error) {
	r, err := decode(answer)
	if err != nil {
		return nil, err
	}
	return r.result(answer)
}

// way returns how to send a request now.
func (p *Provider) way(req *providers.Request, x *transport.Exchange, background bool) way {
	return way{background: background, bare: p.bare.Has(req.Model), format: x.Format}
}

// Call makes one attempt; see providers.Provider. The provider stores nothing of it. A refusal in a good answer is a
// Result with FinishRefused; a prompt that is refused outright is an error of class Refused. If an endpoint refuses a
// form of structured output, or a request for evidence that it does not give, the error is providers.ErrAgain. Later
// requests for that model omit what was refused.
func (p *Provider) Call(ctx context.Context, req *providers.Request) (*providers.Result, error) {
	x, err := p.endpoint.Begin(req, req.Model)
	if err != nil {
		return nil, err
	}
	answer, dropped, err := p.create(ctx, req, x, false)
	if err != nil {
		return nil, err
	}
	result, err := plain(answer)
	if err != nil {
		return nil, err
	}
	return x.Finish(result, dropped), nil
}

// create sends req and learns from refusals.
func (p *Provider) create(
	ctx context.Context, req *providers.Request, x *transport.Exchange, background bool,
) (answer *transport.Answer, dropped []string, err error) {
	w := p.way(req, x, background)
	body, dropped := w.encode(x.Request, x.Capabilities)
	answer, err = x.Post(ctx, "responses", body)
	if err != nil {
		if !w.bare && (req.Search || req.Reason) {
			if err := p.bare.Learn(req.Model, err, refusesEvidence); errors.Is(err, providers.ErrAgain) {
				return nil, nil, err
			}
		}
		return nil, nil, x.Learn(err)
	}
	return answer, dropped, nil
}
