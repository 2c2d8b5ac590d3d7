package simulator

import (
	"fmt"
	"net/http"
)

// dialect is a provider's way to talk to clients. It has everything that differs between families
// of providers, and nothing that decides the outcome of a call.
type dialect interface {
	// parse parses a request. Its error is reported as a bad request; the request is never nil, and
	// then has what was understood.
	parse(r *http.Request, body []byte) (*request, error)
	// head sets the headers that answers of every kind have.
	head(h http.Header, c *call)
	// hint sets the headers that say when to come back, p.wait from now, if the dialect has any.
	hint(h http.Header, c *call, p problem)
	// key returns the name of the header that authenticates the client, and its value; empty: none.
	key(h http.Header) (name, key string)
	// answer returns the body of a planned answer.
	answer(c *call) any
	// problem returns the status and body of an error. c may be a request that did not arrive at a
	// model; then it has no luck or plan.
	problem(c *call, p problem) (status int, body any)
}

// complaint is a provider's reason for refusing an invalid request.
type complaint string

func (c complaint) Error() string { return string(c) }

func complain(format string, about ...any) complaint {
	return complaint(fmt.Sprintf(format, about...))
}
