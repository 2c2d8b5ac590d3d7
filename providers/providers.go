// Package providers makes one call to a model provider and returns its result.
//
// A Provider makes exactly one attempt: it never sleeps, never retries, never reads the
// environment and knows nothing of limits. The caller decides how to handle a failure from the
// Error's class. Each wire dialect has a folder of its own; a provider is a dialect plus data
// (base URL, name).
package providers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Provider calls one endpoint. It is safe for concurrent use.
type Provider interface {
	// Call makes one attempt and blocks until it is answered, fails, or ctx
	// ends. Its error is always an *Error.
	Call(ctx context.Context, req *Request) (*Result, error)
}

// Background is implemented by providers that can run a request as a job of their own (deep
// research). The response ID belongs to the run, not to the process: any process that has it
// may poll or cancel. Every error is an *Error.
type Background interface {
	// Submit starts the job and returns its response id. It is not idempotent.
	Submit(ctx context.Context, req *Request) (responseID string, err error)
	// Poll asks once. done is false while the job is queued or in progress. Beside
	// an error it tells apart what failed: the job (done: it ended so, or is unknown
	// to the provider, class Lost) or only the question (ask again).
	Poll(ctx context.Context, key, responseID string) (result *Result, done bool, err error)
	// Cancel ends the job; cancelling an ended job is no error.
	Cancel(ctx context.Context, key, responseID string) error
}

// Request is one call's content. A Provider does not change it.
type Request struct {
	Key             string // sent in headers only; empty: none is sent
	Model           string
	Messages        []Message
	Schema          *Schema // structured output wanted; nil: prose
	MaxOutputTokens int     // 0: the provider's default
	Temperature     *float64
	ReasoningEffort string // one of Efforts; empty: the provider's default
	// Search offers the provider's own web search and has the model use it.
	// Result.Grounding tells whether it did.
	Search bool
	// BoundSearches tells the endpoint that the request may come to MostSearches
	// searches and no more, where the dialect can. A bound in Extra is always told.
	BoundSearches bool
	// Reason asks for reasoning that shows: Result.Reasoning and the usage's
	// Reasoning tell whether there was any.
	Reason bool
	// Complete asks for the continuation of the one message's text instead of an
	// answer to it. Only the dialect of chat completions has such a call; others
	// answer.
	Complete bool
	Extra    map[string]any // further fields of the dialect's body, passed through
	// Ready is called when the request has its connection, directly before its first
	// byte is written. On HTTP/2 it is called several times, also from several
	// goroutines at once, and for the last time before the first part of the body is
	// written. Its error ends the call unbilled and is
	// in the chain of the call's error. nil: nothing is checked.
	Ready func() error
	// Connected is told how long a connection took that was opened for the call, from its address to
	// its answer. It may be nil.
	Connected     func(took time.Duration)
	IdempotencyID string // names this call in logs of both sides; sent as a header where the dialect has one
}

// MaxToolCalls is the field of Request.Extra, and of bodies in the dialect
// Responses, that bounds the searches of one request.
const MaxToolCalls = "max_tool_calls"

// DefaultSearches is how many searches a request is supposed to come to where Extra
// says nothing else. Only with BoundSearches is it a bound: models may search more.
const DefaultSearches = 5

// MostSearches is the maximum number of searches of the request, if known.
func (r *Request) MostSearches() int {
	if !r.Search {
		return 0
	}
	if n, ok := r.saidSearches(); ok {
		return n
	}
	return DefaultSearches
}

// ToldSearches is the bound on searches to send; false: none.
func (r *Request) ToldSearches() (n int, ok bool) {
	_, said := r.saidSearches()
	return r.MostSearches(), r.Search && (said || r.BoundSearches)
}

// saidSearches is the bound in Extra.
func (r *Request) saidSearches() (int, bool) {
	switch n := r.Extra[MaxToolCalls].(type) {
	case float64:
		return int(n), true
	case int:
		return n, true
	}
	return 0, false
}

// Efforts are the words of Request.ReasoningEffort, rising. A dialect that takes
// a number of tokens instead says in its documentation which.
var Efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// Message is one turn.
type Message struct {
	Role    Role   `json:"role"`
	Content string `json:"content"`
}

// Role is the author of a Message.
type Role string

// The roles.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
)

// Schema is a JSON schema that the answer must satisfy.
type Schema struct {
	Name   string // letters, digits, _ and -
	Schema json.RawMessage
	Open   bool // Schema admits any object, so strict modes, which need every property, do not take it
	// Enforced: where the endpoint has no JSON mode for the model, the call fails with
	// ErrNoJSON and nothing is sent. Otherwise the prompt alone asks for JSON there.
	Enforced bool
}

// Result is a provider's answer.
type Result struct {
	Text      string
	Others    []string        // further answers, where Request.Extra asked for several
	JSON      json.RawMessage // Text, where a schema was asked and Text is one JSON value; else nil
	Finish    Finish
	Reason    string // of an answer that was refused or cut off: the provider's words, where it has any
	Usage     Usage
	Grounding Grounding
	Reasoning string       // what the provider shows of the model's reasoning; empty: nothing
	Dropped   []string     // fields of the Request that were not sent because the model refuses them: "temperature", …
	Model     string       // the model that the provider says answered
	RequestID string       // of the HTTP request, by its headers
	Limits    []LimitState // what the headers say, if anything
	Raw       []byte       // the body as received, bounded
}

// Grounding is the evidence in an answer that the provider searched for it.
type Grounding struct {
	Searches int      `json:"searches,omitempty"` // that the provider made; its bill counts these
	Queries  []string `json:"queries,omitempty"`  // the query, if the provider reports it
	Sources  []Source `json:"sources,omitempty"`  // what the answer cites or was given, each address once
	// Safety is no evidence of a search: what the provider says of the answer's harm. It
	// is kept here because stores keep this as one JSON value.
	Safety []SafetyRating `json:"safety,omitempty"`
}

// SafetyRating is how probably an answer does a harm, in the provider's words.
type SafetyRating struct {
	Category    string `json:"category"`
	Probability string `json:"probability"`
	Blocked     bool   `json:"blocked,omitempty"`
}

// Source is a page that an answer rests on.
type Source struct {
	URL   string `json:"url"`
	Title string `json:"title,omitempty"`
}

// Evident reports whether there is a search or a source to be seen.
func (g Grounding) Evident() bool { return g.Searches > 0 || len(g.Queries) > 0 || len(g.Sources) > 0 }

// UniqueSources are the sources that have an address, in the order in which it was
// first named, each with the first title that was given for it.
func UniqueSources(named []Source) []Source {
	var unique []Source
	at := make(map[string]int, len(named))
	for _, source := range named {
		i, known := at[source.URL]
		switch {
		case source.URL == "":
		case !known:
			at[source.URL] = len(unique)
			unique = append(unique, source)
		case unique[i].Title == "":
			unique[i].Title = source.Title
		}
	}
	return unique
}

// Finish says why the answer ended.
type Finish string

// The ways an answer ends.
const (
	FinishStop      Finish = "stop"
	FinishTruncated Finish = "truncated"
	FinishRefused   Finish = "refused"
)

// Usage counts tokens. Input includes cached ones and those that the provider's
// tools brought in, Output includes reasoning.
// A count that the provider did not report is 0 and Reported is false.
type Usage struct {
	Reported  bool     `json:"reported"`
	Input     int64    `json:"input"`
	Output    int64    `json:"output"`
	Cached    int64    `json:"cached,omitempty"`
	Written   int64    `json:"written,omitempty"` // input that the provider charged for keeping in its cache
	Reasoning int64    `json:"reasoning,omitempty"`
	Tools     int64    `json:"tools,omitempty"`    // input that the provider's search brought in and does not charge (Google)
	Tier      string   `json:"tier,omitempty"`     // service tier, as the answer names it; empty: the standard one, or none named
	CostUSD   *float64 `json:"cost_usd,omitempty"` // only where the provider reports it
}

// Bounds on the usage and cost of one call. No model comes near them, and sums of millions of
// calls do not overflow.
const (
	MostTokens   = 1_000_000_000
	MostSearches = 1_000_000
	GreatestCost = 10_000 // USD
)

// Check reports a count or a cost that no call has.
func (u Usage) Check() error {
	for _, tokens := range []int64{u.Input, u.Output, u.Cached, u.Written, u.Reasoning, u.Tools} {
		if tokens < 0 || tokens > MostTokens {
			return fmt.Errorf("invalid number of tokens: %d", tokens)
		}
	}
	if c := u.CostUSD; c != nil && !(*c >= 0 && *c <= GreatestCost) { // also refuses NaN
		return fmt.Errorf("invalid cost: %g USD", *c)
	}
	return nil
}

// Class says what kind of failure a call met; the words are those of run
// results and of `retry --class`.
type Class string

// The classes of failure.
const (
	RateLimited      Class = "rate_limited"
	Overloaded       Class = "overloaded"
	Transient        Class = "transient"
	Timeout          Class = "timeout"
	QuotaDaily       Class = "quota_daily"
	QuotaBilling     Class = "quota_billing"
	ContextLength    Class = "context_length"
	Refused          Class = "refused"
	Blocked          Class = "blocked" // by a firewall before the provider, not by its API
	Auth             Class = "auth"
	ModelUnavailable Class = "model_unavailable"
	BadRequest       Class = "bad_request"
	Ungrounded       Class = "ungrounded"
	Unreasoned       Class = "unreasoned"
	Malformed        Class = "malformed"
	Lost             Class = "lost"
	Cancelled        Class = "cancelled"
)

// Classes are all of them.
var Classes = []Class{
	RateLimited, Overloaded, Transient, Timeout, QuotaDaily, QuotaBilling, ContextLength, Refused, Blocked,
	Auth, ModelUnavailable, BadRequest, Ungrounded, Unreasoned, Malformed, Lost, Cancelled,
}

// Retryable reports whether another attempt of the same call may succeed.
func (c Class) Retryable() bool {
	switch c {
	case RateLimited, Overloaded, Transient, Timeout, Blocked, Ungrounded, Unreasoned:
		return true
	}
	return false
}

// Error is a failed call.
type Error struct {
	Class       Class
	Status      int           // HTTP status; 0 without a response
	Code        string        // the provider's own code, where it gave one
	Message     string        // the provider's words, or the transport's; never a key
	RetryAfter  time.Duration // the provider's hint; 0: none given
	MayBeBilled bool          // the request was written, so it may have been charged
	// Used is what parts of the call used that were answered before it failed, and
	// were paid for. Not Reported: nothing is known.
	Used      Usage
	RequestID string
	// Exceeded is the kind of limit that a failure of class RateLimited or
	// QuotaDaily (a limit a day) is about; empty: the provider does not say.
	Exceeded LimitKind
	Limits   []LimitState // as in Result
	Raw      []byte       // the body as received, bounded
	Err      error        // the cause, if any
}

// Error names the class, the status and the provider's words.
func (e *Error) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("%s (HTTP %d): %s", e.Class, e.Status, e.Message)
	}
	return fmt.Sprintf("%s: %s", e.Class, e.Message)
}

// NoSuchPath reports whether the address may be wrong, rather than the request: nothing is there,
// or not an API.
func (e *Error) NoSuchPath() bool {
	return e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed || bytes.HasPrefix(bytes.TrimSpace(e.Raw), []byte("<"))
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// ErrAgain is in the chain of an Error after which the provider would send the request
// differently (it learnt, say, that the endpoint refuses a schema). The caller should repeat
// the same Request at once; it counts as no attempt. A provider can only learn so much: five
// repeats at most.
var ErrAgain = errors.New("the provider adapted to this answer; repeat the request")

// ErrNoJSON is in the chain of the Error, of class BadRequest, of a call that was not sent
// because its schema is to be enforced and the endpoint has no JSON mode for the model.
var ErrNoJSON = errors.New("the model has no JSON mode here")

// ErrNoServer is in the chain of the Error, of class Transient, of a call to an address
// where no server listens. Nothing was sent.
var ErrNoServer = errors.New("nothing is listening")

// ErrUnreached is in the chain of the Error of a call that did not reach its provider: its name
// was not resolved, no connection was made, a proxy opened no tunnel, or a certificate was not
// accepted. Nothing was sent. That of ErrNoServer is one.
var ErrUnreached = errors.New("the provider was not reached")

// ErrExhausted is in the chain of the Error of a call for which this process or machine had no
// file descriptors, ports or memory left. Nothing was sent.
var ErrExhausted = errors.New("no resources for another connection")

// ClassOf is the class of err: that of the *Error in its chain, Cancelled for a
// cancelled context, Timeout for a deadline, else Transient.
func ClassOf(err error) Class {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Class
	case errors.Is(err, context.Canceled):
		return Cancelled
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	}
	return Transient
}
