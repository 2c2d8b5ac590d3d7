// Package chat speaks the chat completions dialect: OpenAI's, and that of every endpoint compatible with it (Azure,
// OpenRouter, vLLM, LM Studio, …).
//
// It makes one attempt per call and streams nothing. A text to be continued is sent to the older completions endpoint.
// Tools other than an endpoint's own search are deliberately absent.
package chat

import (
	"cmp"
	"context"
	"fmt"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/filebatch"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// Config describes one endpoint.
type Config struct {
	// Config's BaseURL is the prefix of /chat/completions and /completions, for example
	// "http://127.0.0.1:8000/v1"; its KeyHeader is "Authorization" when empty, Azure has
	// "api-key"; Capabilities.Search is a name of Flavour.Search's kind.
	transport.Config
	// Flavour is how the endpoint's requests differ from others'.
	Flavour Flavour
	// Batches is the vendor whose batch endpoints it has, if Capabilities.Batch says that it has them.
	Batches filebatch.Vendor
}

// Flavour is how the requests of endpoints of this dialect differ. The zero value is what most servers accept.
type Flavour struct {
	// MaxTokensField is the body's field for Request.MaxOutputTokens:
	// "max_tokens" when empty; OpenAI itself wants "max_completion_tokens".
	MaxTokensField string
	// Effort is the field for Request.ReasoningEffort.
	Effort EffortStyle
	// Search is the way to ask for the endpoint's own search.
	Search SearchStyle
	// RequireParameters makes a gateway route a request with a schema only to upstreams that know all of its fields,
	// not to one that ignores the schema.
	RequireParameters bool
}

// EffortStyle is the field for a reasoning effort.
type EffortStyle string

// The styles.
const (
	EffortField  EffortStyle = ""       // "reasoning_effort": "low"
	EffortObject EffortStyle = "object" // "reasoning": {"effort": "low"}
	EffortAbsent EffortStyle = "absent" // nowhere; it is named in Result.Dropped
)

// SearchStyle is how the name in Capabilities.Search asks for a search.
type SearchStyle string

// The styles.
const (
	SearchField SearchStyle = ""     // a field of that name: "web_search_options": {}
	SearchTool  SearchStyle = "tool" // a tool of that type: "tools": [{"type": "openrouter:web_search"}]
)

// Provider calls one endpoint in the chat dialect. It implements providers.Batches and is safe for concurrent
// use.
type Provider struct {
	batches
	endpoint *transport.Endpoint
	flavour  Flavour
	bounds   bounds
}

// New checks the configuration; it opens no connection.
func New(config Config) (*Provider, error) {
	endpoint, err := transport.Open(config.Config, "")
	if err != nil {
		return nil, err
	}
	if err := config.Flavour.validate(); err != nil {
		return nil, err
	}
	config.Flavour.MaxTokensField = cmp.Or(config.Flavour.MaxTokensField, maxTokens)
	p := &Provider{endpoint: endpoint, flavour: config.Flavour}
	p.batches = batches{Endpoint: endpoint, Answers: "/v1/chat/completions", Body: p.inBatch, Read: decode, Vendor: config.Batches}
	return p, nil
}

type batches = filebatch.Batches

// inBatch returns the body of a request in a batch.
func (p *Provider) inBatch(req *providers.Request) (map[string]any, error) {
	if req.Complete {
		return nil, &providers.Error{Class: providers.BadRequest, Message: "a text to be continued cannot be in a batch"}
	}
	x, err := p.endpoint.Begin(req, req.Model)
	if err != nil {
		return nil, err
	}
	body, _ := p.flavour.encode(x.Request, x.Capabilities, x.Format)
	p.bounds.rename(req.Model, body)
	return body, nil
}

func (f Flavour) validate() error {
	switch f.Effort {
	case EffortField, EffortObject, EffortAbsent:
	default:
		return fmt.Errorf("effort style %q: want none, object or absent", string(f.Effort))
	}
	switch f.Search {
	case SearchField, SearchTool:
		return nil
	}
	return fmt.Errorf("search style %q: want none or tool", string(f.Search))
}

// Call makes one attempt; see providers.Provider. A refusal in a good answer is a Result with FinishRefused; a prompt
// that is refused outright is an error of class Refused. An endpoint may turn out not to know a form of structured
// output, system messages or the field that bounds the answer. The error is then providers.ErrAgain, and another form
// is used from then on for that model. A model that may search decides itself whether to.
func (p *Provider) Call(ctx context.Context, req *providers.Request) (*providers.Result, error) {
	x, err := p.endpoint.Begin(req, req.Model)
	if err != nil {
		return nil, err
	}
	body, dropped := p.flavour.encode(x.Request, x.Capabilities, x.Format)
	path := "chat/completions"
	if req.Complete {
		path = "completions"
		continues(body, x.Request)
	} else {
		p.bounds.rename(req.Model, body)
	}

	answer, err := x.Post(ctx, path, body)
	var result *providers.Result
	if err == nil {
		result, err = decode(answer)
	}
	if err != nil && !req.Complete {
		err = p.bounds.learn(req.Model, body, err)
	}
	if err != nil {
		return nil, x.Learn(err)
	}
	return x.Finish(result, dropped), nil
}
