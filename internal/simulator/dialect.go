package simulator

import (
	"fmt"
	"net/http"
)

// dialect is how clients are spoken with: everything that differs between
// families of providers, and nothing that decides what becomes of a call.
type dialect interface {
	// parse understands a request. Its error is told as a bad request; the request
	// is never nil, and then has what was understood.
	parse(r *http.Request, body []byte) (*request, error)
	// head sets the headers that answers of every kind have.
	head(h http.Header, c *call)
	// hint sets the headers that say when to come back, p.wait from now, if the
	// dialect has any.
	hint(h http.Header, c *call, p problem)
	// key is the header that authenticates the client, and its value; empty: none.
	key(h http.Header) (name, key string)
	// answer is the body of a planned answer.
	answer(c *call) any
	// problem words what went wrong. A request that did not arrive at a model is
	// a call, too, without luck or plan.
	problem(c *call, p problem) (status int, body any)
}

// complaint is what a provider says of a request that it does not take.
type complaint string

func (c complaint) Error() string { return string(c) }

func complain(format string, about ...any) complaint {
	return complaint(fmt.Sprintf(format, about...))
}
