// Package chat speaks the chat completions dialect: OpenAI's, and that of every
// endpoint compatible with it (Azure, OpenRouter, vLLM, LM Studio, …).
//
// It makes one attempt per call and streams nothing. Images, several choices and
// tools other than an endpoint's own search are deliberately absent: evalfleet
// asks for one text.
package chat

import (
	"cmp"
	"context"
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
	// Capabilities knows the endpoint's models; nil: nothing is known of any.
	// Capabilities.Search is a name of Flavour.Search's kind.
	Capabilities providers.CapabilitiesOf
	// Flavour is in what the endpoint's requests differ from others'.
	Flavour Flavour
}

// Flavour is in what the requests of endpoints of this dialect differ. The zero
// value is what most servers take.
type Flavour struct {
	// MaxTokensField is the body's field for Request.MaxOutputTokens:
	// "max_tokens" when empty; OpenAI itself wants "max_completion_tokens".
	MaxTokensField string
	// Effort is where Request.ReasoningEffort goes.
	Effort EffortStyle
	// Search is how the endpoint's own search is asked for.
	Search SearchStyle
	// RequireParameters has a gateway route a request with a schema only to
	// upstreams that know all of its fields, not to one that leaves the schema out.
	RequireParameters bool
}

// EffortStyle is where a reasoning effort goes.
type EffortStyle string

// The styles.
const (
	EffortField  EffortStyle = ""       // "reasoning_effort": "low"
	EffortObject EffortStyle = "object" // "reasoning": {"effort": "low"}
	EffortAbsent EffortStyle = "absent" // nowhere; it is named in Result.Dropped
)

// SearchStyle is how search is asked for by the name in Capabilities.Search.
type SearchStyle string

// The styles.
const (
	SearchField SearchStyle = ""     // a field of that name: "web_search_options": {}
	SearchTool  SearchStyle = "tool" // a tool of that type: "tools": [{"type": "openrouter:web_search"}]
)

// Provider calls one endpoint in the chat dialect. It is safe for concurrent
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
	if err := config.validate(); err != nil {
		return nil, err
	}
	config.Flavour.MaxTokensField = cmp.Or(config.Flavour.MaxTokensField, "max_tokens")
	if config.Capabilities == nil {
		config.Capabilities = func(string) providers.Capabilities { return providers.Capabilities{} }
	}
	return &Provider{config: config, client: client}, nil
}

func (c Config) validate() error {
	switch c.Flavour.Effort {
	case EffortField, EffortObject, EffortAbsent:
	default:
		return fmt.Errorf("effort style %q: want none, object or absent", string(c.Flavour.Effort))
	}
	switch c.Flavour.Search {
	case SearchField, SearchTool:
		return nil
	}
	return fmt.Errorf("search style %q: want none or tool", string(c.Flavour.Search))
}

// Call makes one attempt; see providers.Provider. A refusal in a good answer is
// a Result with FinishRefused, a prompt refused outright an error of class
// Refused. Where the endpoint turns out not to know a way of structured output,
// the error is providers.ErrAgain and the next way is used from then on for that
// model. Whether a model searches that may is up to the model.
func (p *Provider) Call(ctx context.Context, req *providers.Request) (*providers.Result, error) {
	caps := p.config.Capabilities(req.Model)
	if err := caps.Check(req); err != nil {
		return nil, err
	}
	format := providers.JSONNone
	if req.Schema != nil {
		format = p.formats.Of(req.Model, caps.JSON)
	}
	body, dropped, err := p.config.Flavour.encode(req, caps, format)
	if err != nil {
		return nil, &providers.Error{Class: providers.BadRequest, Message: err.Error(), Err: err}
	}
	header, err := transport.Header(req, p.config.KeyHeader)
	if err != nil {
		return nil, err
	}
	answer, err := p.client.Do(ctx, transport.Post{Path: "chat/completions", Header: header, Key: req.Key, Body: body, Ready: req.Ready})
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
