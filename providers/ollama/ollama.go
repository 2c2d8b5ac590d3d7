// Package ollama speaks the dialect of Ollama's own server, /api/chat, which reports more than
// its copy of OpenAI's: whether a prompt was truncated, and a model's thoughts.
//
// It makes one attempt per call and streams nothing. Tools and the loading of models are
// deliberately absent: evalfleet asks for one text.
package ollama

import (
	"context"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// Config describes one endpoint. BaseURL is the prefix of /api/chat, for example
// "http://127.0.0.1:11434". KeyHeader, for servers that require a key, is "Authorization" when
// empty. With providers.ReasoningEffort a model is told how much to think (gpt-oss), otherwise
// only whether to.
type Config = transport.Config

// Provider calls one endpoint in Ollama's dialect. It is safe for concurrent use.
type Provider struct{ endpoint *transport.Endpoint }

// New checks the configuration; it opens no connection.
func New(config Config) (*Provider, error) {
	if known := config.Capabilities; known != nil {
		config.Capabilities = func(model string) providers.Capabilities {
			caps := known(model)
			caps.Search = ""
			return caps
		}
	}
	endpoint, err := transport.Open(config, "")
	if err != nil {
		return nil, err
	}
	return &Provider{endpoint}, nil
}

// Call makes one attempt; see providers.Provider. If necessary, the server waits for a free slot and loads the model
// within the call's time. It has no search.
func (p *Provider) Call(ctx context.Context, req *providers.Request) (*providers.Result, error) {
	x, err := p.endpoint.Begin(req, req.Model)
	if err != nil {
		return nil, err
	}
	body, dropped := encode(x.Request, x.Capabilities, x.Format)
	answer, err := x.Post(ctx, "api/chat", body)
	if err != nil {
		return nil, x.Learn(err)
	}
	result, err := decode(answer)
	if err != nil {
		return nil, x.Learn(err)
	}
	return x.Finish(result, dropped), nil
}
