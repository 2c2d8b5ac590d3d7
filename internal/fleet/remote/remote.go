// Package remote submits evaluations to a controller over HTTP, waits for their ends and downloads
// their files: `enqueue --server`. It is the client of the API of package web.
package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/machine/hostname"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
)

// PasswordVariable names the environment variable with the password of the user in a server's
// address.
const PasswordVariable = "EVALFLEET_SERVER_PASSWORD"

// Server is a controller that takes evaluations over HTTP.
type Server struct {
	url    *url.URL // without user and password
	user   *url.Userinfo
	client *http.Client
}

// Open returns the server of a controller's pages at an address. env looks up the password of the
// user in it. proxy is as in http.Transport.
func Open(address string, env func(string) (string, bool), proxy func(*url.URL) (*url.URL, error)) (*Server, error) {
	u, ok := hostname.ParseWeb(address)
	if !ok {
		return nil, failure.Usagef("want the URL of a controller's pages, such as https://ann@evals.example.org")
	}
	user := u.User
	if user != nil {
		if _, given := user.Password(); !given {
			password, ok := env(PasswordVariable)
			if !ok {
				return nil, failure.Usagef("the address names the user %s: put the password into %s", user.Username(), PasswordVariable)
			}
			user = url.UserPassword(user.Username(), password)
		}
	}
	u.User = nil
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ExpectContinueTimeout = 10 * time.Second
	transport.Proxy = func(r *http.Request) (*url.URL, error) { return proxy(r.URL) }
	return &Server{u, user, &http.Client{Transport: transport, CheckRedirect: func(to *http.Request, _ []*http.Request) error {
		return fmt.Errorf("it redirects to %s://%s%s: use that address", to.URL.Scheme, to.URL.Host, to.URL.Path)
	}}}, nil
}

// String returns the address without user and password.
func (s *Server) String() string { return s.url.String() }

// errBusy means that the server asks to try again in a moment.
var errBusy = failure.With(failure.Unavailable, errors.New("the server is busy"))

// do sends a request. The status of the answer is 2xx; the caller closes its body.
func (s *Server) do(ctx context.Context, method, path string, query url.Values, mediaType string, body io.Reader) (*http.Response, error) {
	at := s.url.JoinPath(path)
	at.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, method, at.String(), body)
	if err != nil {
		return nil, failure.Usagef("server %s: %w", s, err)
	}

	if s.user != nil {
		password, _ := s.user.Password()
		request.SetBasicAuth(s.user.Username(), password)
	}

	if method == http.MethodPost {
		request.Header.Set("Content-Type", mediaType)
		// A server that refuses can say so before the files are sent.
		request.Header.Set("Expect", "100-continue")
	}

	answer, err := s.client.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return nil, failure.With(failure.Interrupted, ctx.Err())
		}
		return nil, failure.With(failure.Unavailable, fmt.Errorf("server %s: %w", s, err))
	}
	if answer.StatusCode/100 == 2 {
		return answer, nil
	}
	defer answer.Body.Close()
	return nil, s.refusal(method, answer)
}

func (s *Server) refusal(method string, answer *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	var said struct{ Error string }
	if json.Unmarshal(text, &said) != nil || said.Error == "" {
		said.Error = strings.TrimSpace(string(text))
	}
	code := failure.Usage
	switch {
	case answer.StatusCode == http.StatusUnprocessableEntity:
		return failure.With(failure.Usage, errors.New(harmless.Text(said.Error)))
	case answer.StatusCode == http.StatusUnauthorized:
		said.Error = "needs a login: use https://USER@… and put the password into " + PasswordVariable
	case answer.StatusCode == http.StatusNotFound && method == http.MethodPost:
		said.Error = "does not accept evaluations: is this the address of a controller's pages?"
	case answer.StatusCode == http.StatusTooManyRequests:
		return errBusy
	case answer.StatusCode >= 500:
		code = failure.Unavailable
	}
	return failure.With(code, fmt.Errorf("server %s: %s (status %d)", s, harmless.OneLine(said.Error), answer.StatusCode))
}

func (s *Server) get(ctx context.Context, path string, into any) error {
	answer, err := s.do(ctx, http.MethodGet, path, nil, "", http.NoBody)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
		return failure.With(failure.Unavailable, fmt.Errorf("server %s: %s: %w", s, path, err))
	}
	return nil
}
