package simulator

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Failure is a kind of error. Each dialect reports it in its own words.
type Failure string

// The failures with which a model can be configured to answer.
const (
	RateLimited      Failure = "rate_limited"
	Overloaded       Failure = "overloaded"
	ServerError      Failure = "server_error"
	QuotaDaily       Failure = "quota_daily"   // of requests per day
	QuotaBilling     Failure = "quota_billing" // no credit is left
	SpendLimit       Failure = "spend_limit"   // the spending limit is reached
	ContextLength    Failure = "context_length"
	Refused          Failure = "refused" // the prompt, before any answer
	Auth             Failure = "auth"
	ModelUnavailable Failure = "model_unavailable"
	BadRequest       Failure = "bad_request"
	FailedIn200      Failure = "failed_in_200" // an error reported with status 200
	Garbage          Failure = "garbage"       // a page of HTML with status 200
	Loading          Failure = "loading"       // the model is not in memory yet
)

var failures = []Failure{
	RateLimited, Overloaded, ServerError, QuotaDaily, QuotaBilling, SpendLimit, ContextLength, Refused,
	Auth, ModelUnavailable, BadRequest, FailedIn200, Garbage, Loading,
}

// Failures caused by the request.
const (
	keyMissing    Failure = "key missing"
	withoutSchema Failure = "without schema" // the model supports no schemas
	withoutSystem Failure = "without system" // the model accepts no system messages
	searchAndJSON Failure = "search and JSON"
	// withoutCapacity: the service tier has none left.
	withoutCapacity Failure = "without capacity"
)

// failureOf returns the kind of failure that the simulator reports with an HTTP status.
func failureOf(status int) Failure {
	switch {
	case status == http.StatusTooManyRequests:
		return RateLimited
	case status == http.StatusServiceUnavailable, status == 529:
		return Overloaded
	case status >= 500:
		return ServerError
	}
	return BadRequest
}

// problem describes an error before a dialect words it.
type problem struct {
	failure Failure
	status  int           // configured for the simulator; 0: the dialect's own
	message string        // empty: the dialect's own
	counted quantity      // by the limit that refused; empty: not about a limit
	window  time.Duration // of that limit, if it has one
	wait    time.Duration // until there is room; 0: unknown
}

// trouble returns the problem with which the call was configured to fail.
func (c *call) trouble() problem {
	b := c.behaviour
	p := problem{failure: b.FailAs, wait: b.RetryAfter.at(c.draw("retry after"))}
	switch b.FailAs {
	case "":
		p.status = b.FailStatus
		if p.status == 0 {
			p.status = http.StatusInternalServerError
		}
		p.failure, p.message = failureOf(p.status), "This failure was requested from the simulator"
	case RateLimited:
		p.counted, p.window = requestCount, time.Minute
	case QuotaDaily:
		p.counted, p.window = requestCount, day
	}
	return p
}

// day is the window from which on a limit counts as a daily quota.
const day = 24 * time.Hour

// wreck is a body that replaces an answer.
const wreck = "<!doctype html>\n<title>One moment, please</title>\n<p>You will be with us shortly.</p>\n"

// words hold a dialect's form of a failure. The message may have placeholders: for too much input,
// two numbers, what there was and what is allowed; for other failures, the model.
type words struct {
	status     int
	kind, code string // the latter may be empty
	message    string
}

// say returns the message: that of the problem, or the dialect's own with the numbers or the model
// inserted.
func (w words) say(c *call, p problem) string {
	switch {
	case p.message != "":
		return p.message
	case p.failure == ContextLength && strings.Contains(w.message, "%"):
		has, most := c.excess()
		return fmt.Sprintf(w.message, has, most)
	case strings.Contains(w.message, "%s"):
		return fmt.Sprintf(w.message, c.req.model)
	}
	return w.message
}
