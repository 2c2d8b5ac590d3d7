package transport

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/providers"
)

// The most that is read of a body. A longer answer is a failure, a longer error
// is cut.
const (
	MaxAnswerBytes = 16 << 20
	MaxErrorBytes  = 64 << 10
)

// Post is one request.
type Post struct {
	Method string       // "POST" when empty
	Path   string       // below the base URL; what is no part of the path stands in it escaped
	Header http.Header  // the dialect's own, with the key in it
	Key    string       // struck out of whatever the other side says
	Body   []byte       // JSON; empty: none is sent
	Ready  func() error // as in providers.Request
}

// Answer is a whole response with a 2xx status. The key of its request is struck
// out of it, should the other side have repeated it.
type Answer struct {
	Body      []byte
	Header    http.Header // rate limits and request id only
	RequestID string

	status int
	key    string
	sent   time.Time // by the provider's clock
}

// Do makes exactly one attempt and blocks until the whole answer is read or ctx
// ends. Its error is always a *providers.Error. A request that was never wholly
// written is not billed; what went wrong after that may be, and so may a request that
// ctx ended while it was written. Only a GET, which
// changes nothing, may be sent again by net/http, when a kept connection turns
// out to be closed.
func (c *Client) Do(ctx context.Context, p Post) (*Answer, error) {
	out := newSending(ctx, p)
	defer out.end(nil)
	req, err := http.NewRequestWithContext(out, cmp.Or(p.Method, http.MethodPost), c.base.JoinPath(p.Path).String(), out)
	if err != nil {
		return nil, &providers.Error{Class: providers.BadRequest, Message: "the base URL makes no request", Err: err}
	}
	if req.ContentLength = int64(len(p.Body)); len(p.Body) == 0 {
		req.Body = http.NoBody
	}
	// Without a way to read the body again, net/http cannot repeat a request of
	// which a byte was written.
	req.GetBody = nil
	for name, values := range p.Header {
		req.Header[name] = values
	}
	if len(p.Body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json")

	resp, err := c.http.Do(req)
	if err != nil {
		return nil, interrupted(ctx, cmp.Or(out.refusal(), err), out.mayHaveArrived(ctx.Err() != nil), p.Key)
	}
	defer resp.Body.Close()
	answer := &Answer{
		Header:    keep(resp.Header),
		RequestID: strike(requestID(resp.Header), p.Key),
		status:    resp.StatusCode,
		key:       p.Key,
		sent:      sent(resp.Header),
	}
	ok := resp.StatusCode/100 == 2
	limit := MaxErrorBytes
	if ok {
		limit = MaxAnswerBytes
	}
	answer.Body, err = io.ReadAll(io.LimitReader(resp.Body, int64(limit)+1))
	tooLong := len(answer.Body) > limit
	answer.Body = answer.Body[:min(len(answer.Body), limit)]
	if p.Key != "" && bytes.Contains(answer.Body, []byte(p.Key)) {
		answer.Body = []byte(strike(string(answer.Body), p.Key))
	}
	switch {
	case err != nil && (ok || ctx.Err() != nil):
		failed := interrupted(ctx, err, true, p.Key)
		failed.RequestID, failed.Limits = answer.RequestID, answer.Limits()
		return nil, failed
	case resp.StatusCode/100 == 3:
		return nil, answer.fail(providers.BadRequest, "", "the endpoint redirects"+target(resp)+"; redirects are refused, correct base_url")
	case !ok:
		return nil, answer.Failure()
	case tooLong:
		return nil, answer.Malformed(fmt.Errorf("longer than %d bytes", limit))
	}
	return answer, nil
}

// Malformed is the error of an answer that cannot be read as what it should be.
func (a *Answer) Malformed(err error) *providers.Error {
	failed := a.fail(providers.Transient, "", "unreadable answer: "+err.Error())
	failed.Err = err
	return failed
}

// Fail is an error of the given class, in the dialect's own words, about an answer
// that is none.
func (a *Answer) Fail(class providers.Class, message string) *providers.Error {
	return a.fail(class, "", message)
}

// Empty is the error about an answer that is complete and has no text. What it used
// was charged.
func (a *Answer) Empty(used providers.Usage) *providers.Error {
	failed := a.Fail(providers.Transient, "the answer has no text, and no reason for it")
	failed.Used, failed.MayBeBilled = used, true
	return failed
}

// fail is an error about this answer, with the key struck out of it: what was
// decoded out of a body may have the key that the body spells otherwise.
func (a *Answer) fail(class providers.Class, code, message string) *providers.Error {
	return &providers.Error{
		Class:       class,
		Status:      a.status,
		Code:        excerpt(strike(code, a.key)),
		Message:     excerpt(strike(message, a.key)),
		MayBeBilled: mayBeBilled(class, a.status),
		RequestID:   a.RequestID,
		Limits:      a.Limits(),
		Raw:         []byte(strike(string(a.Body[:min(len(a.Body), MaxErrorBytes)]), a.key)),
	}
}

// mayBeBilled: a provider does not charge for what it refused, but may for what
// got lost on the way back, and for what it began to work on before it failed: it
// had answered that all was well.
func mayBeBilled(class providers.Class, status int) bool {
	return status/100 == 2 || class == providers.Transient
}

// interrupted is the error of a request to which no whole answer came.
func interrupted(ctx context.Context, err error, written bool, key string) *providers.Error {
	// The URL is not repeated: a base URL may carry a token in its query.
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	failed := &providers.Error{Class: providers.Transient, Message: strike(err.Error(), key), MayBeBilled: written, Err: err}
	deadline, timed := ctx.Deadline()
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		failed.Class, failed.Err = providers.Cancelled, context.Cause(ctx)
		failed.Message = strike(failed.Err.Error(), key)
	case ctx.Err() != nil, timed && !time.Now().Before(deadline): // a dialler keeps the deadline by its own clock
		failed.Class, failed.Err = providers.Timeout, context.DeadlineExceeded
		failed.Message = "no whole answer within the call's time"
	}
	return failed
}

// leastSecret is the length of a key from which on it is struck out. Vendors' keys
// are longer by far; a word that a server of one's own is given as its key ("none",
// "EMPTY", "lm-studio") may stand in any answer, which must stay as it is.
const leastSecret = 12

// strike removes a key from text that the other side wrote.
func strike(text, key string) string {
	if len(key) < leastSecret {
		return text
	}
	return strings.ReplaceAll(text, key, "[key]")
}

// target says where a redirect leads, without its query.
func target(resp *http.Response) string {
	to, err := resp.Location()
	if err != nil {
		return ""
	}
	return " to " + (&url.URL{Scheme: to.Scheme, Host: to.Host, Path: to.Path}).String()
}
