package transport

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/evalfleet/evalfleet/providers"
)

// Config describes one endpoint, for any dialect.
type Config struct {
	// BaseURL is the prefix of the dialect's own paths. Required; a query is kept.
	BaseURL string
	// HTTPClient's connections are used; its redirect policy and timeout are
	// not. Share one of NewClient's. Required.
	HTTPClient *http.Client
	// KeyHeader is the header of the key; the dialect's own when empty. In "Authorization" the
	// key follows "Bearer".
	KeyHeader string
	// Keys has the key of every request. nil: each request brings its own.
	Keys Keys
	// Header is added to every request, and replaces headers of the same name. Its values are secrets, which are
	// removed from the endpoint's answers.
	Header http.Header
	// Capabilities knows the endpoint's models; nil: nothing is known of any.
	Capabilities providers.CapabilitiesOf
}

// Endpoint is the destination of a dialect's requests, and the knowledge gained there about
// models. It is safe for concurrent use.
type Endpoint struct {
	client       *Client
	capabilities providers.CapabilitiesOf
	formats      formats
	systemless   systemless
	cacheless    cacheless
}

// Open checks the configuration; it opens no connection. keyHeader is the
// dialect's own header of the key.
func Open(config Config, keyHeader string) (*Endpoint, error) {
	client, err := New(config.HTTPClient, config.BaseURL, config.Header)
	if err != nil {
		return nil, err
	}
	client.keyHeader, client.keys = cmp.Or(config.KeyHeader, keyHeader), config.Keys
	e := &Endpoint{client: client, capabilities: config.Capabilities}
	if e.capabilities == nil {
		e.capabilities = func(string) providers.Capabilities { return providers.Capabilities{} }
	}
	return e, nil
}

// Exchange is one call in progress.
type Exchange struct {
	Capabilities providers.Capabilities // of the model
	Format       providers.JSON         // the way to ask for the schema; JSONNone if there is none
	Header       http.Header            // of its requests; a dialect may add to it
	Request      *providers.Request     // in the form that the model accepts

	endpoint *Endpoint
	model    string
}

// Begin prepares a call of a model. Its error, a *providers.Error, is about an ability that the model lacks; nothing was
// sent.
func (e *Endpoint) Begin(req *providers.Request, model string) (*Exchange, error) {
	x := &Exchange{
		Capabilities: e.capabilities(model), Format: providers.JSONNone, Header: Header(req), endpoint: e, model: model,
	}
	x.Request = e.systemless.folded(model, req)
	x.Capabilities.PromptCache = e.cacheless.of(model, x.Capabilities.PromptCache)
	if err := x.Capabilities.Check(req); err != nil {
		return nil, err
	}
	if req.Schema != nil {
		x.Format = e.formats.of(model, x.Capabilities.JSON)
		if req.Schema.Enforced && x.Format == providers.JSONNone {
			return nil, &providers.Error{Class: providers.BadRequest, Message: model + " has no JSON mode here", Err: providers.ErrNoJSON}
		}
	}
	return x, nil
}

// Post sends body as JSON with sorted keys; see Client.Do. A body that cannot be encoded is a bad request.
func (x *Exchange) Post(ctx context.Context, path string, body map[string]any) (*Answer, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		err = fmt.Errorf("encode request: %w", err)
		return nil, &providers.Error{Class: providers.BadRequest, Message: err.Error(), Err: err}
	}
	return x.endpoint.client.Do(
		ctx,
		Post{Path: path, Header: x.Header, Key: x.Request.Key, Body: raw, Ready: x.Request.Ready, Connected: x.Request.Connected},
	)
}

// Learn learns from the error of a call and returns the error for the caller. If the endpoint refuses system messages,
// what is said about prompt caches, or the way to ask for the schema, providers.ErrAgain is in the chain of that error.
// The model is asked in another way from then on.
func (x *Exchange) Learn(err error) error {
	err = x.endpoint.systemless.learn(x.model, x.Request, err)
	err = x.endpoint.cacheless.learn(x.model, x.Capabilities.PromptCache, err)
	return x.endpoint.formats.learn(x.model, x.Capabilities.JSON, x.Format, err)
}

// Finish completes the result of a good answer. dropped are the fields of the
// request that were not sent.
func (x *Exchange) Finish(result *providers.Result, dropped []string) *providers.Result {
	result.JSON = JSONText(x.Request, result.Text)
	result.Dropped = dropped
	return result
}

// Ask makes a request without a body, about an object at the endpoint.
func (e *Endpoint) Ask(ctx context.Context, method, path, key string) (*Answer, error) {
	return e.Send(ctx, Post{Method: method, Path: path, Key: key})
}

// Send makes a request that is no call of a model; see Client.Do. If its key was refused and there is another one now, it
// is sent once more: no limit counts it.
func (e *Endpoint) Send(ctx context.Context, p Post) (*Answer, error) {
	answer, err := e.client.Do(ctx, p)
	if errors.Is(err, providers.ErrAgain) {
		return e.client.Do(ctx, p)
	}
	return answer, err
}

// Stream makes a request as Send does, and passes its answer to read while it arrives; see Client.Stream.
func (e *Endpoint) Stream(ctx context.Context, p Post, read func(body io.Reader, answer *Answer) error) error {
	err := e.client.Stream(ctx, p, read)
	if errors.Is(err, providers.ErrAgain) {
		return e.client.Stream(ctx, p, read)
	}
	return err
}
