package simulator

import (
	"net/http"
	"time"
)

// dialect is how clients are spoken with: everything that differs between
// families of providers, and nothing that decides what becomes of a call.
type dialect interface {
	// parse understands a request. Its error is told as a bad request; the request
	// is never nil, and then has what was understood.
	parse(r *http.Request, body []byte) (*request, error)
	// head sets the headers that answers of every kind have.
	head(h http.Header, c *call)
	// hint sets the headers that say when to come back.
	hint(h http.Header, how Hint, wait time.Duration)
	// answer is the body of what is planned.
	answer(c *call) any
	// problem words what went wrong.
	problem(p problem) (status int, body any)
}

// problem is what went wrong, before a dialect words it.
type problem struct {
	failure failure
	status  int           // 0: the dialect's own
	message string        // empty: the dialect's own
	counted quantity      // by the limit that was met; empty: it is not about one
	wait    time.Duration // until there is room; 0: nobody knows
}

// failure is a kind of problem.
type failure string

const (
	rateLimited      failure = "rate_limited"
	overloaded       failure = "overloaded"
	serverError      failure = "server_error"
	modelUnavailable failure = "model_unavailable"
	badRequest       failure = "bad_request"
	withoutSchema    failure = "without schema" // the model cannot answer after one
)

// failureOf is what an HTTP status says.
func failureOf(status int) failure {
	switch {
	case status == http.StatusTooManyRequests:
		return rateLimited
	case status == http.StatusServiceUnavailable, status == 529:
		return overloaded
	case status >= 500:
		return serverError
	}
	return badRequest
}
