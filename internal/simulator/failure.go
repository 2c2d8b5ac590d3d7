package simulator

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Failure is a kind of trouble. Each dialect tells it in its own words.
type Failure string

// The failures that a model can be told to answer with.
const (
	RateLimited      Failure = "rate_limited"
	Overloaded       Failure = "overloaded"
	ServerError      Failure = "server_error"
	QuotaDaily       Failure = "quota_daily"   // of a day's requests
	QuotaBilling     Failure = "quota_billing" // nothing is left to pay with
	SpendLimit       Failure = "spend_limit"   // as much is spent as may be
	ContextLength    Failure = "context_length"
	Refused          Failure = "refused" // the prompt, before any answer
	Auth             Failure = "auth"
	ModelUnavailable Failure = "model_unavailable"
	BadRequest       Failure = "bad_request"
	FailedIn200      Failure = "failed_in_200" // trouble told with status 200
	Garbage          Failure = "garbage"       // a page of HTML with status 200
	Loading          Failure = "loading"       // the model is not in memory yet
)

var failures = []Failure{
	RateLimited, Overloaded, ServerError, QuotaDaily, QuotaBilling, SpendLimit, ContextLength, Refused,
	Auth, ModelUnavailable, BadRequest, FailedIn200, Garbage, Loading,
}

// Failures that come of the request alone.
const (
	keyMissing    Failure = "key missing"
	withoutSchema Failure = "without schema" // the model cannot answer after one
	withoutSystem Failure = "without system" // the model takes no system messages
	searchAndJSON Failure = "search and JSON"
)

// failureOf is what an HTTP status says.
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

// problem is what went wrong, before a dialect words it.
type problem struct {
	failure Failure
	status  int           // asked of the simulator; 0: the dialect's own
	message string        // empty: the dialect's own
	counted quantity      // by the limit that was met; empty: it is not about one
	window  time.Duration // of that limit, if it has one
	wait    time.Duration // until there is room; 0: unknown
}

// trouble is the failure asked of the simulator.
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

// day is the window from which on a limit is a daily quota.
const day = 24 * time.Hour

// wreck replaces an answer.
const wreck = "<!doctype html>\n<title>One moment, please</title>\n<p>You will be with us shortly.</p>\n"

// words are how a dialect tells a failure. The message of one about too much
// input may have two numbers, what there was and what there may be; another the
// model.
type words struct {
	status     int
	kind, code string // the latter may be empty
	message    string
}

// say is the message: that of the problem, or the dialect's own with the numbers
// or the model put in.
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
