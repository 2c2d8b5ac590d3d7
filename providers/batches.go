package providers

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Batches is implemented by providers that answer many requests together, later and for less. A provider that
// implements it may be at an endpoint that has no batches: Capabilities.Batch says whether it does.
//
// A batch belongs to the account, not to the process: any process that has its ID may poll, read or cancel it. Every
// error is an *Error. All methods make one attempt, wait for no retry, and are safe for concurrent use.
type Batches interface {
	// BatchBounds returns the most requests and bytes that one batch may have.
	BatchBounds() BatchBounds
	// SubmitBatch submits requests, all of one model, under a name by which FindBatch finds the batch, and returns its
	// ID. It is not idempotent. If its error has MayBeBilled, the batch may exist: ask FindBatch. Otherwise it does not.
	// The key replaces those of the requests. Ready and Connected of the first request are called for the request that
	// creates the batch; an upload before that creates nothing.
	SubmitBatch(ctx context.Context, key, name string, requests []BatchRequest) (id string, err error)
	// FindBatch looks for a batch with so many requests that was submitted under the name at since or later. An empty ID
	// without an error: the provider lists none. No provider promises that its list is complete at once, so do not
	// believe it within a minute after the submission. The error has ErrUndecided in its chain if the provider cannot tell
	// before another batch has ended: ask again later, or name those of other names with WithOtherBatches.
	FindBatch(ctx context.Context, key, name string, since time.Time, requests int) (id string, err error)
	// PollBatch asks once how far a batch is. An error of class Lost: the provider does not know it.
	PollBatch(ctx context.Context, key, id string) (BatchState, error)
	// BatchAnswers reads the answers of a batch that has ended, one after another, in any order. One is in memory at a
	// time, and read as WithReading says. each gets the BatchRequest's ID, and either a result or an error. An expired or
	// cancelled request has an *Error of class Cancelled, and is not billed; another that failed has the class that the
	// ordinary endpoint would give it. IDs that each has not got have no answer. Its error ends the reading and is
	// returned as it is.
	//
	// Results have the tier TierBatch in their usage. Result.JSON is set if the text is a JSON value, whether or not
	// the request had a schema, and Result.Dropped is empty. A malformed line is an error of its request if it has an
	// ID; otherwise it is skipped, and named in the error of class Malformed that BatchAnswers then returns after the
	// others. An ID that is answered twice is passed to each twice. After an error, all can be read again.
	BatchAnswers(ctx context.Context, key, id string, each func(request string, result *Result, err error) error) error
	// CancelBatch asks for the end of a batch. It is no error if the batch has ended, or was asked before. Answers made
	// before stay, and are billed.
	CancelBatch(ctx context.Context, key, id string) error
}

// BatchRequest is one request of a batch.
type BatchRequest struct {
	ID      string // at most MostBatchID of [A-Za-z0-9_-], unique in the batch
	Request *Request
}

// Bounds on names in batches.
const (
	MostBatchName = 64 // characters of a batch's name
	MostBatchID   = 40 // characters of a BatchRequest's ID; some providers must also hold the batch's name in theirs
)

// LimitEnqueuedTokens is the kind of a limit on the tokens in batches that have not ended.
const LimitEnqueuedTokens LimitKind = "enqueued_tokens"

// Service tiers by which calls are priced: that of the answers of batches, and a cheaper one for calls that can wait.
const (
	TierBatch = "batch"
	TierFlex  = "flex"
)

// BatchBounds are the most requests and bytes of one batch.
type BatchBounds struct {
	Requests int
	Bytes    int64
}

// BatchState says how far a batch is. Counts that the provider does not know yet are 0.
type BatchState struct {
	Ended bool // nothing more will be answered
	// Cancelling: CancelBatch was called, and the batch has not ended yet.
	Cancelling bool
	Total      int // its requests
	// Answered and Failed are the requests that have ended. Failed includes those that expired or were cancelled.
	Answered, Failed int
	Expires          time.Time // what is not answered by then never will be; zero: not known
	// Failure says why the whole batch failed, and none of its requests was answered, in the class and words of the
	// provider; nil: it did not. An enqueued-token limit that was exceeded is of class RateLimited.
	Failure *Error
}

// ErrUndecided is in the chain of the error of FindBatch if the provider cannot tell yet.
var ErrUndecided = errors.New("the provider does not tell yet whether the batch exists")

type otherBatchesKey struct{}

// WithOtherBatches returns a context under which FindBatch passes over the batches with these IDs, which are known to have
// other names. Anthropic's batches have none that it shows at once, so without this, one that is under way may make
// FindBatch answer ErrUndecided.
func WithOtherBatches(ctx context.Context, ids ...string) context.Context {
	return context.WithValue(ctx, otherBatchesKey{}, ids)
}

// OtherBatches returns the IDs of WithOtherBatches.
func OtherBatches(ctx context.Context) []string {
	ids, _ := ctx.Value(otherBatchesKey{}).([]string)
	return ids
}

// CheckBatch returns an error of class BadRequest if the name or a request's ID is invalid, if an ID is there twice, if
// there are no or too many requests, or if they are of several models.
func CheckBatch(name string, requests []BatchRequest, bounds BatchBounds) error {
	bad := func(format string, values ...any) error {
		return &Error{Class: BadRequest, Message: fmt.Sprintf(format, values...)}
	}
	switch {
	case !plainName(name, MostBatchName):
		return bad("batch name %q: want at most %d letters, digits, _ and -", name, MostBatchName)
	case len(requests) == 0:
		return bad("the batch has no requests")
	case len(requests) > bounds.Requests:
		return bad("the batch has %d requests; the provider accepts %d", len(requests), bounds.Requests)
	}

	seen := make(map[string]bool, len(requests))
	for _, r := range requests {
		switch {
		case !plainName(r.ID, MostBatchID):
			return bad("batch request %q: want at most %d letters, digits, _ and -", r.ID, MostBatchID)
		case seen[r.ID]:
			return bad("the batch has two requests %q", r.ID)
		case r.Request.Model != requests[0].Request.Model:
			return bad("the batch has requests to %s and %s; want one model", requests[0].Request.Model, r.Request.Model)
		}
		seen[r.ID] = true
	}
	return nil
}

// plainName reports whether a name has 1 to most letters, digits, _ and -.
func plainName(name string, most int) bool {
	if name == "" || len(name) > most {
		return false
	}
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
