// Package providers makes one call to a model provider and returns its result.
//
// A Provider makes exactly one attempt: it never sleeps, never retries, never reads the environment and knows nothing
// of limits. The caller decides how to handle a failure from the Error's class. Each wire dialect has its own folder; a
// provider is a dialect plus data (base URL, name).
package providers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Provider calls one endpoint. It is safe for concurrent use.
type Provider interface {
	// Call makes one attempt and blocks until it is answered, fails, or ctx
	// ends. Its error is always an *Error.
	Call(ctx context.Context, req *Request) (*Result, error)
}

// Background is implemented by providers that can run a request as a job of their own (deep research). The response ID
// belongs to the run, not to the process: any process that has it may poll or cancel. Every error is an *Error.
type Background interface {
	// Submit starts the job and returns its response ID. It is not idempotent.
	Submit(ctx context.Context, req *Request) (responseID string, err error)
	// Poll asks once. done is false while the job is queued or in progress. With an error, done tells what failed.
	// true: the job, which has failed or is unknown to the provider (class Lost). false: only the request (ask again).
	Poll(ctx context.Context, key, responseID string) (result *Result, done bool, err error)
	// Cancel ends the job; it is no error if the job has ended already.
	Cancel(ctx context.Context, key, responseID string) error
}

// Request is one call's content. A Provider does not change it.
type Request struct {
	Key             string // sent in headers only; empty: none is sent
	Model           string
	Messages        []Message
	Schema          *Schema // structured output; nil: prose
	MaxOutputTokens int     // 0: the provider's default
	Temperature     *float64
	ReasoningEffort string // one of Efforts; empty: the provider's default
	// Search offers the provider's own web search and makes the model use it. Result.Grounding tells whether it did.
	Search bool
	// BoundSearches limits the request to MostSearches searches, if the dialect can. A bound in Extra is always sent.
	BoundSearches bool
	// Reason asks for visible reasoning: Result.Reasoning and the usage's Reasoning tell whether there was any.
	Reason bool
	// Complete asks for the continuation of the one message's text instead of an answer to it. Only the chat
	// completions dialect has such a call; others answer.
	Complete bool
	// LogProbs asks for the log probabilities of the answer's tokens, which are in Result.Tokens if the provider gives them.
	LogProbs bool
	// Prefixes are beginnings of Messages that other requests may have, too, the shortest first. nil: the caller does not
	// know any, and the provider caches as it likes. Empty, but not nil: the provider need cache nothing.
	Prefixes []Prefix
	// CacheKey is the same for requests with a common beginning, which should go to the same prompt cache; empty: none.
	CacheKey string
	Extra    map[string]any // further fields of the dialect's body, passed through
	// Ready is called when the request has its connection, directly before its first byte is written. On HTTP/2 it is
	// called several times, also from several goroutines at once, and for the last time before the first part of the
	// body is written. Its error ends the call unbilled and is in the chain of the call's error. nil: nothing is
	// checked.
	Ready func() error
	// Connected is called with how long a connection took that was opened for the call, from resolving its address to
	// being established. It may be nil.
	Connected     func(took time.Duration)
	IdempotencyID string // names this call in logs of both sides; sent if the dialect has a header for it
}

// MaxToolCalls is the field of Request.Extra, and of bodies in the dialect
// Responses, that bounds the searches of one request.
const MaxToolCalls = "max_tool_calls"

// DefaultSearches is the assumed number of searches of a request if Extra sets none. It is a bound only with
// BoundSearches: otherwise models may search more.
const DefaultSearches = 5

// MostSearches returns the maximum number of searches of the request if one is set, otherwise DefaultSearches; 0 for a
// request without Search.
func (r *Request) MostSearches() int {
	if !r.Search {
		return 0
	}
	if n, ok := r.saidSearches(); ok {
		return n
	}
	return DefaultSearches
}

// ToldSearches returns the bound on searches to send; false: send none.
func (r *Request) ToldSearches() (n int, ok bool) {
	_, said := r.saidSearches()
	return r.MostSearches(), r.Search && (said || r.BoundSearches)
}

// saidSearches returns the bound on searches in Extra.
func (r *Request) saidSearches() (int, bool) {
	switch n := r.Extra[MaxToolCalls].(type) {
	case float64:
		return int(n), true
	case int:
		return n, true
	}
	return 0, false
}

// Efforts are the values of Request.ReasoningEffort, in ascending order. If a dialect sends a number of tokens instead,
// its documentation says which.
var Efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// Message is one turn.
type Message struct {
	Role    Role    `json:"role"`
	Content string  `json:"content"`
	Images  []Image `json:"images,omitempty"` // by their Offset, ascending
}

// Prefix is a beginning of a Request's messages. It ends in a message, after Offset bytes of its content.
type Prefix struct {
	Message, Offset int
	// Keep: the provider should keep the beginning in its prompt cache. Dialects say so in the way of
	// Capabilities.PromptCache.
	Keep bool
}

// Part is a part of a message's content: a text, or an image.
type Part struct {
	Text  string
	Keep  bool   // a Prefix to keep ends with it
	Image *Image // nil: a text
}

// Parts divides the content of the request's i-th message at its images, and where a Prefix to keep ends. No text is
// empty unless the message is.
func (r *Request) Parts(i int) []Part {
	content, images := r.Messages[i].Content, r.Messages[i].Images
	var parts []Part
	from := 0
	until := func(end int) {
		for ; len(images) > 0 && images[0].Offset <= end; images = images[1:] {
			if at := images[0].Offset; at > from {
				parts = append(parts, Part{Text: content[from:at]})
				from = at
			}
			parts = append(parts, Part{Image: &images[0]})
		}
		if end > from {
			parts = append(parts, Part{Text: content[from:end]})
			from = end
		}
	}

	for _, p := range r.Prefixes {
		if p.Keep && p.Message == i && p.Offset > from && p.Offset <= len(content) {
			until(p.Offset)
			parts[len(parts)-1].Keep = true
		}
	}
	until(len(content))
	if parts == nil {
		parts = []Part{{}}
	}
	return parts
}

// Keeps reports whether a Prefix to keep ends in the request's i-th message.
func (r *Request) Keeps(i int) bool {
	return slices.ContainsFunc(r.Parts(i), func(p Part) bool { return p.Keep })
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
	Open   bool // Schema admits any object, so strict modes, which need every property, refuse it
	// Enforced: if the endpoint has no JSON mode for the model, the call fails with ErrNoJSON and nothing is sent.
	// Otherwise the prompt alone asks for JSON then.
	Enforced bool
}

// Result is a provider's answer.
type Result struct {
	Text      string
	Others    []string        // further answers, if Request.Extra asked for several
	JSON      json.RawMessage // Text, if a schema was given and Text is one JSON value; otherwise nil
	Finish    Finish
	Reason    string // why the answer was refused or cut off, in the provider's words; may be empty
	Usage     Usage
	Grounding Grounding
	Reasoning string       // the visible part of the model's reasoning; empty: none
	Dropped   []string     // fields of the Request that were not sent because the model refuses them: "temperature", …
	Model     string       // the model that the provider says answered
	RequestID string       // of the HTTP request, from the response's headers
	Limits    []LimitState // what the headers say, if anything
	Raw       []byte       // the body as received, bounded
	// Tokens are those of the answer, if Request.LogProbs asked for them and the provider gives them. Their texts make up
	// Text, but may have more around it, such as reasoning.
	Tokens []Token
}

// Grounding is the evidence in an answer that the provider searched for it.
type Grounding struct {
	Searches int      `json:"searches,omitempty"` // made by the provider, as counted on its bill
	Queries  []string `json:"queries,omitempty"`  // the query, if the provider reports it
	Sources  []Source `json:"sources,omitempty"`  // what the answer cites or was given, each address once
	// Safety holds the provider's ratings of harm in the answer. They are not evidence of a search; they are here
	// because stores keep this struct as one JSON value.
	Safety []SafetyRating `json:"safety,omitempty"`
}

// SafetyRating is how probably an answer does a kind of harm, in the provider's words.
type SafetyRating struct {
	Category    string `json:"category"`
	Probability string `json:"probability"`
	Blocked     bool   `json:"blocked,omitempty"`
}

// Source is a page on which an answer is based.
type Source struct {
	URL   string `json:"url"`
	Title string `json:"title,omitempty"`
}

// Evident reports whether there is evidence of a search.
func (g Grounding) Evident() bool { return g.Searches > 0 || len(g.Queries) > 0 || len(g.Sources) > 0 }

// UniqueSources returns the sources that have an address, each address once, in the order of first mention. Each has
// the first title that was given for its address.
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

// Usage counts tokens. Input includes cached tokens and those that the provider's tools brought in; Output includes
// reasoning. A count that the provider did not report is 0, and Reported is then false.
type Usage struct {
	Reported  bool     `json:"reported"`
	Input     int64    `json:"input"`
	Output    int64    `json:"output"`
	Cached    int64    `json:"cached,omitempty"`
	Written   int64    `json:"written,omitempty"` // input that the provider charged for writing to its cache
	Reasoning int64    `json:"reasoning,omitempty"`
	Tools     int64    `json:"tools,omitempty"`    // input that the provider's search brought in and does not charge (Google)
	Tier      string   `json:"tier,omitempty"`     // service tier, as the answer names it; empty: the standard one, or none named
	CostUSD   *float64 `json:"cost_usd,omitempty"` // only if the provider reports it
}

// Bounds on the usage and cost of one call. No model comes close to them, and sums of millions of calls do not
// overflow.
const (
	MostTokens   = 1_000_000_000
	MostSearches = 1_000_000
	GreatestCost = 10_000 // USD
)

// Check returns an error if a count or the cost is beyond these bounds.
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

// Class is the kind of failure of a call; the words are those of run results and of `retry --class`.
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

// Classes lists all classes.
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
	Code        string        // the provider's own code, if it gave one
	Message     string        // the provider's words, or the transport's; never a key
	RetryAfter  time.Duration // the provider's hint; 0: none given
	MayBeBilled bool          // the request was written, so it may have been charged
	// Used is the usage of the parts of the call that were answered, and charged, before it failed. Not Reported:
	// unknown.
	Used      Usage
	RequestID string
	// Exceeded is the kind of limit that was exceeded in a failure of class RateLimited or QuotaDaily (a daily limit);
	// empty: the provider does not say.
	Exceeded LimitKind
	Limits   []LimitState // as in Result
	Raw      []byte       // the body as received, bounded
	Err      error        // the cause, if any
}

// Error returns the class, the status and the provider's words.
func (e *Error) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("%s (HTTP %d): %s", e.Class, e.Status, e.Message)
	}
	return fmt.Sprintf("%s: %s", e.Class, e.Message)
}

// NoSuchPath reports whether the address may be wrong, rather than the request: it has no content, or is not an API.
func (e *Error) NoSuchPath() bool {
	return e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed || bytes.HasPrefix(bytes.TrimSpace(e.Raw), []byte("<"))
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ErrAgain is in the chain of an Error after which the provider would send the request differently, for example because
// it learned that the endpoint refuses a schema, or has another key now. The caller should repeat the same Request at once.
// That does not count as an attempt. A provider can learn only so much: five repeats at most, and one for each new key.
var ErrAgain = errors.New("the provider adapted to this answer; repeat the request")

// ErrNoJSON is in the chain of the Error, of class BadRequest, of a call that was not sent. Its schema is to be
// enforced, and the endpoint has no JSON mode for the model.
var ErrNoJSON = errors.New("the model has no JSON mode here")

// ErrNoServer is in the chain of the Error, of class Transient, of a call to an address
// where no server listens. Nothing was sent.
var ErrNoServer = errors.New("nothing is listening")

// ErrUnreached is in the chain of the Error of a call that did not reach its provider. Its name was not resolved, no
// connection was made, a proxy opened no tunnel, or a certificate was not accepted. Nothing was sent. Errors with
// ErrNoServer also have ErrUnreached.
var ErrUnreached = errors.New("the provider was not reached")

// ErrExhausted is in the chain of the Error of a call for which this process or machine had no
// file descriptors, ports or memory left. Nothing was sent.
var ErrExhausted = errors.New("no resources for another connection")

// ClassOf returns the class of err: that of the *Error in its chain, Cancelled for a cancelled context, Timeout for an
// exceeded deadline, otherwise Transient.
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
