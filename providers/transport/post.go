package transport

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/evalfleet/evalfleet/providers"
)

// MaxErrorBytes is how much of an error's body is read; the rest is ignored. An answer that is longer than
// providers.Reading allows is a failure.
const MaxErrorBytes = 64 << 10

// Post is one request.
type Post struct {
	Method string       // "POST" when empty
	Path   string       // below the base URL; characters that cannot be part of the path are escaped
	Query  url.Values   // added to that of the base URL
	Header http.Header  // the dialect's own
	Key    string       // ignored if the endpoint has Keys; removed from everything that the other side sends
	Body   []byte       // empty: none is sent
	Type   string       // of the body, "application/json" when empty
	Ready  func() error // as in providers.Request
	// Connected is as in providers.Request.
	Connected func(took time.Duration)
}

// Answer is a whole response with a 2xx status. The secrets of its request are removed from it, in case the other side
// has repeated them.
type Answer struct {
	Body      []byte
	Header    http.Header // rate limits and request id only
	RequestID string

	status int
	most   int // as in providers.Reading
	struck secrets
	sent   time.Time // by the provider's clock
}

// Do makes exactly one attempt and blocks until the whole answer is read or ctx ends. Its error is always a
// *providers.Error. A request that was never written completely is not billed. After a later failure it may be billed,
// and also if ctx ended while it was written. Only a GET, which changes nothing, may be sent again by net/http, if a
// reused connection turns out to be closed. If the key was refused, and there is another one now, providers.ErrAgain is in
// the error's chain.
func (c *Client) Do(ctx context.Context, p Post) (*Answer, error) {
	out := newSending(ctx, p)
	defer out.end(nil)
	resp, answer, err := c.send(ctx, out, p)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var tooLong bool
	answer.Body, tooLong, err = answer.readAll(ctx, resp.Body, answer.most)
	switch {
	case err != nil:
		return nil, answer.Interrupted(ctx, err)
	case tooLong:
		return nil, answer.Fits(len(answer.Body) + 1)
	}
	return answer, nil
}

// Stream makes exactly one attempt, as Do does, and passes the body of a good answer to read while it arrives; Body of
// that answer is empty. It returns the error of read.
func (c *Client) Stream(ctx context.Context, p Post, read func(body io.Reader, answer *Answer) error) error {
	out := newSending(ctx, p)
	defer out.end(nil)
	resp, answer, err := c.send(ctx, out, p)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return read(resp.Body, answer)
}

// send sends a request and returns the response to it, which has a status of success. The caller reads its body and
// closes it.
func (c *Client) send(ctx context.Context, out *sending, p Post) (*http.Response, *Answer, error) {
	target := c.base.JoinPath(p.Path)
	if len(p.Query) > 0 {
		query := target.Query()
		maps.Copy(query, p.Query)
		target.RawQuery = query.Encode()
	}
	req, err := http.NewRequestWithContext(out, cmp.Or(p.Method, http.MethodPost), target.String(), out)
	if err != nil {
		return nil, nil, &providers.Error{Class: providers.BadRequest, Message: "the base URL is invalid", Err: err}
	}
	if req.ContentLength = int64(len(p.Body)); len(p.Body) == 0 {
		req.Body = http.NoBody
	}
	// Without a way to read the body again, net/http cannot repeat a request after it has written a byte.
	req.GetBody = nil
	for name, values := range p.Header {
		req.Header[name] = values
	}
	if len(p.Body) > 0 {
		req.Header.Set("Content-Type", cmp.Or(p.Type, "application/json"))
	}
	req.Header.Set("Accept", "application/json")
	key := c.key(p.Key)
	if err := setKey(req.Header, c.keyHeader, key); err != nil {
		return nil, nil, err
	}
	maps.Copy(req.Header, c.header)
	struck := append(secrets{key}, c.secrets...)

	resp, err := c.http.Do(req)
	if err != nil {
		failed := interrupted(ctx, cmp.Or(out.refusal(), err), out.mayHaveArrived(ctx.Err() != nil), struck)
		if failed.Class == providers.Transient {
			c.noServer(failed)
		}
		if cause := unsent(failed.Err); cause != nil {
			failed.Err = fmt.Errorf("%w: %w", cause, failed.Err)
		}
		return nil, nil, failed
	}
	answer := &Answer{
		Header:    keep(resp.Header),
		RequestID: struck.strike(requestID(resp.Header)),
		status:    resp.StatusCode,
		most:      providers.ReadingOf(ctx).Most,
		struck:    struck,
		sent:      sent(resp.Header),
	}
	if resp.StatusCode/100 == 2 {
		return resp, answer, nil
	}

	defer resp.Body.Close()
	answer.Body, _, err = answer.readAll(ctx, resp.Body, MaxErrorBytes)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, nil, answer.Interrupted(ctx, err)
	case resp.StatusCode/100 == 3:
		message := "the endpoint redirects" + location(resp) + "; redirects are refused, correct base_url"
		return nil, nil, answer.fail(providers.BadRequest, "", message)
	}
	failed := answer.Failure()
	if c.renewed(ctx, resp.StatusCode, key) {
		failed.Class, failed.Err = providers.Transient, providers.ErrAgain // nothing is wrong with the account
	}
	return nil, nil, failed
}

// readAll reads a body, at most limit bytes of it, and removes the secrets from it.
func (a *Answer) readAll(ctx context.Context, body io.Reader, limit int) (whole []byte, tooLong bool, err error) {
	whole, err = read(ctx, body, limit+1, providers.ReadingOf(ctx).Room)
	tooLong = len(whole) > limit
	return a.struck.strikeBytes(whole[:min(len(whole), limit)]), tooLong, err
}

// Interrupted returns the error of an answer that was not read to its end because of err.
func (a *Answer) Interrupted(ctx context.Context, err error) *providers.Error {
	failed := interrupted(ctx, err, true, a.struck)
	failed.RequestID, failed.Limits = a.RequestID, a.Limits()
	return failed
}

// read reads at most limit bytes. It asks for room before it reads more than a small
// answer.
func read(ctx context.Context, body io.Reader, limit int, room func(context.Context) error) ([]byte, error) {
	begun, err := io.ReadAll(io.LimitReader(body, int64(min(limit, providers.SmallAnswer))))
	if err != nil || len(begun) < providers.SmallAnswer {
		return begun, err
	}
	if err := room(ctx); err != nil {
		return begun, err
	}
	whole := bytes.NewBuffer(begun)
	_, err = whole.ReadFrom(io.LimitReader(body, int64(limit-len(begun))))
	return whole.Bytes(), err
}

// ErrTooLong is in the chain of the error for an answer that is longer than allowed.
var ErrTooLong = errors.New("the answer is too long")

// Fits returns an error if an answer of n bytes, in all its parts, is too long. Its
// class is not retried: the answer was paid for, and would be as long again.
func (a *Answer) Fits(n int) error {
	most := cmp.Or(a.most, providers.DefaultAnswer)
	if n <= most {
		return nil
	}
	failed := a.fail(providers.Malformed, "", fmt.Sprintf("the answer is longer than %d bytes; --max-answer-mib allows more", most))
	failed.Err = ErrTooLong
	return failed
}

// Malformed returns the error for an answer that cannot be parsed.
func (a *Answer) Malformed(err error) *providers.Error {
	failed := a.fail(providers.Transient, "", "unreadable answer: "+err.Error())
	failed.Err = err
	return failed
}

// Without returns the error for an answer that lacks its essential part. If the vendor reports an error instead, with a
// status of success, that error counts; otherwise the message is missing.
func (a *Answer) Without(missing string) *providers.Error {
	if f := parseFailure(a.Body); f.number != 0 || len(f.codes) > 0 || f.status != 0 || f.message != "" {
		return a.classify(f)
	}
	return a.Malformed(errors.New(missing))
}

// Fail returns an error of the given class, with the dialect's own message, for a response that is not a usable answer.
func (a *Answer) Fail(class providers.Class, message string) *providers.Error {
	return a.fail(class, "", message)
}

// Empty returns the error for an answer that is complete and has no text. Its usage was charged. reasoning is the
// visible reasoning in the answer.
func (a *Answer) Empty(used providers.Usage, reasoning string) *providers.Error {
	why := "the answer has no text and no reason why"
	if reasoning != "" || used.Reasoning > 0 {
		why = "the answer has only reasoning and no text; reasoning_effort: none makes the model answer at once"
	}
	failed := a.Fail(providers.Transient, why)
	failed.Used, failed.MayBeBilled = used, true
	return failed
}

// fail returns an error about this answer. It removes the secrets, because decoded text may contain one that the body
// spells differently.
func (a *Answer) fail(class providers.Class, code, message string) *providers.Error {
	return &providers.Error{
		Class:       class,
		Status:      a.status,
		Code:        excerpt(a.struck.strike(code)),
		Message:     excerpt(a.struck.strike(message)),
		MayBeBilled: mayBeBilled(class, a.status),
		RequestID:   a.RequestID,
		Limits:      a.Limits(),
		Raw:         []byte(a.struck.strike(string(a.Body[:min(len(a.Body), MaxErrorBytes)]))),
	}
}

// mayBeBilled reports whether a failed request may be charged. Providers do not charge for requests that they refused.
// They may charge for an answer lost on the way back, and for work done before a failure: its status was success.
func mayBeBilled(class providers.Class, status int) bool {
	return status/100 == 2 || class == providers.Transient
}

// interrupted returns the error of a request without a complete answer.
func interrupted(ctx context.Context, err error, written bool, struck secrets) *providers.Error {
	// The URL is not included: a base URL may contain a token in its query.
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	failed := &providers.Error{Class: providers.Transient, Message: struck.strike(err.Error()), MayBeBilled: written, Err: err}
	deadline, timed := ctx.Deadline()
	var refusal *proxyRefusal
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		failed.Class, failed.Err = providers.Cancelled, context.Cause(ctx)
		failed.Message = struck.strike(failed.Err.Error())
	case ctx.Err() != nil, timed && !time.Now().Before(deadline): // a dialer applies the deadline by its own clock
		failed.Class, failed.Err = providers.Timeout, context.DeadlineExceeded
		failed.Message = "no complete answer before the timeout"
	case errors.As(err, &refusal):
		failed.Class, failed.Status = refusal.class(), refusal.status
	}
	return failed
}

// noServer adds to a failure that no server listens at the base URL, if that is the cause.
func (c *Client) noServer(failed *providers.Error) {
	var dial *net.OpError
	var name *net.DNSError
	var why string
	switch {
	case errors.As(failed.Err, &dial) && dial.Op != "dial": // such as proxyconnect
		return
	case errors.Is(failed.Err, syscall.ECONNREFUSED):
		why = "connection refused"
	case errors.As(failed.Err, &name) && name.IsNotFound:
		why = "no such host"
	default:
		return
	}
	at := url.URL{Scheme: c.base.Scheme, Host: c.base.Host, Path: c.base.Path} // its query may contain a secret
	failed.Message = fmt.Sprintf("%v at %s (%s)", providers.ErrNoServer, at.String(), why)
	failed.Err = fmt.Errorf("%w: %w", providers.ErrNoServer, failed.Err)
}

// noResources are the errors of a machine that cannot open more connections.
var noResources = []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL}

// unsent returns providers.ErrExhausted or providers.ErrUnreached if that is why nothing was sent; otherwise nil.
func unsent(err error) error {
	if slices.ContainsFunc(noResources, func(e error) bool { return errors.Is(err, e) }) {
		return providers.ErrExhausted
	}
	var connecting *net.OpError
	var name *net.DNSError
	var refusal *proxyRefusal
	var certificate *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	switch {
	case errors.As(err, &name), errors.As(err, &refusal), errors.As(err, &certificate), errors.As(err, &plain):
		return providers.ErrUnreached
	case errors.As(err, &connecting) && (connecting.Op == "dial" || strings.HasSuffix(connecting.Op, "connect")): // to a proxy
		return providers.ErrUnreached
	}
	return nil
}

// location returns where a redirect leads, without its query.
func location(resp *http.Response) string {
	to, err := resp.Location()
	if err != nil {
		return ""
	}
	return " to " + (&url.URL{Scheme: to.Scheme, Host: to.Host, Path: to.Path}).String()
}
