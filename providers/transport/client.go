// Package transport is what every wire dialect shares: a pooled HTTP client, one
// bounded attempt at a request, and the classification of what failed.
//
// It knows no dialect's format of a good answer. It never sleeps, retries,
// follows a redirect or reads the environment, and a key it is given leaves in
// the request's headers and nowhere else.
package transport

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

// NewClient returns an HTTP client whose pool keeps a connection for each of
// slots concurrent calls. It has no timeout of its own (a call's context ends
// it) and uses no proxy. Share one among all providers of a process.
func NewClient(slots int) *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Client{Transport: &http.Transport{
		DialContext:            guarded(dialer.DialContext),
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConnsPerHost:    max(slots, 1),
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: 256 << 10,
		// What does not fit passes by the buffers in one piece, so that larger ones
		// would only be memory for every call in flight.
		WriteBufferSize:   1 << 10,
		ReadBufferSize:    2 << 10,
		ForceAttemptHTTP2: true,
		// A connection that died without a word would otherwise hold every
		// call multiplexed on it until that call's deadline.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}}
}

// Client makes requests below one base URL. It is safe for concurrent use.
type Client struct {
	http *http.Client
	base *url.URL
}

// New returns a Client that sends through httpClient's connections, whatever
// that client's own timeout, cookies and redirect policy are. A query in baseURL
// is kept on every request.
func New(httpClient *http.Client, baseURL string) (*Client, error) {
	base, err := url.Parse(baseURL)
	switch {
	case err != nil:
		// The parser's error repeats the URL, in which a key may stand.
		return nil, errors.New("base_url: not a URL")
	case base.Scheme != "http" && base.Scheme != "https", base.Host == "":
		return nil, fmt.Errorf("base_url %q: want http://… or https://…", base.Redacted())
	case base.User != nil:
		return nil, fmt.Errorf("base_url %q: user and password do not belong in it; a key is sent as a header", base.Redacted())
	}
	return &Client{
		http: &http.Client{
			Transport: httpClient.Transport,
			// A redirected POST would become a GET, and its key another host's.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		base: base,
	}, nil
}
