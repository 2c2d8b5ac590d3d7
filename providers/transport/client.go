// Package transport holds what every wire dialect shares: a pooled HTTP client, one bounded attempt at a request, and
// the classification of failures.
//
// It knows no dialect's format of a good answer. It never sleeps, retries, follows a redirect or reads the environment,
// and sends keys only in request headers.
package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/evalfleet/evalfleet/providers"
)

// Connections configures how a process connects to its providers.
type Connections struct {
	Slots int // concurrent calls; the pool keeps a connection for each
	// Proxy returns the proxy for a target, nil for none. A nil Proxy uses none.
	Proxy func(target *url.URL) (*url.URL, error)
	// TLS holds the trusted CA certificates and the client certificate. nil: the system's are trusted, and no client
	// certificate is sent.
	TLS *tls.Config
}

// NewClient returns an HTTP client with one pool of connections. It has no timeout of
// its own: a call's context ends it. Share one among all providers of a process that
// have the same Connections.
func NewClient(c Connections) *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second, ControlContext: opens}
	pool := &http.Transport{
		DialContext:            guarded(dialer.DialContext),
		TLSClientConfig:        c.TLS,
		OnProxyConnectResponse: proxyAnswer,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConnsPerHost:    max(c.Slots, 1),
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: 256 << 10,
		// Larger data bypasses the buffers in one piece, so larger buffers would only use
		// memory for every call in flight.
		WriteBufferSize:   1 << 10,
		ReadBufferSize:    2 << 10,
		ForceAttemptHTTP2: true,
		// A connection that died silently would otherwise hold every call multiplexed on it until that call's deadline.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}
	if c.Proxy != nil {
		pool.Proxy = func(r *http.Request) (*url.URL, error) { return c.Proxy(r.URL) }
	}
	return &http.Client{Transport: pool}
}

// A proxyRefusal is the error of a proxy that opens no tunnel.
type proxyRefusal struct {
	proxy  string
	status int
}

func (r *proxyRefusal) Error() string {
	hint := ""
	if r.status == http.StatusProxyAuthRequired {
		hint = "; set its user and password in HTTPS_PROXY"
	}
	return fmt.Sprintf("the proxy %s refuses to connect to the provider: %d %s%s", r.proxy, r.status, http.StatusText(r.status), hint)
}

// class returns the class of failure that another attempt through the same proxy would probably have.
func (r *proxyRefusal) class() providers.Class {
	switch {
	case r.status >= 500, r.status == http.StatusTooManyRequests, r.status == http.StatusRequestTimeout:
		return providers.Transient
	}
	return providers.Auth
}

func proxyAnswer(_ context.Context, proxy *url.URL, _ *http.Request, answer *http.Response) error {
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	return &proxyRefusal{proxy: proxy.Host, status: answer.StatusCode}
}

// Client makes requests below one base URL. It is safe for concurrent use.
type Client struct {
	http      *http.Client
	base      *url.URL
	keyHeader string      // the header of the key; empty: Authorization
	keys      Keys        // nil: each request brings its own key
	header    http.Header // added to every request; overrides the request's own
	secrets   secrets     // the header's values
}

// New returns a Client that sends through httpClient's connections, whatever
// that client's own timeout, cookies and redirect policy are. A query in baseURL
// is kept on every request. header is added to every request; its values are secrets.
func New(httpClient *http.Client, baseURL string, header http.Header) (*Client, error) {
	base, err := url.Parse(baseURL)
	switch {
	case err != nil:
		// The parser's error repeats the URL, which may contain a key.
		return nil, errors.New("base_url: not a URL")
	case base.Scheme != "http" && base.Scheme != "https", base.Host == "":
		return nil, errors.New("base_url: want http://… or https://…")
	case base.User != nil:
		return nil, fmt.Errorf("base_url at %s: user and password do not belong in it; a key is sent as a header", base.Host)
	}
	return &Client{
		http: &http.Client{
			Transport: httpClient.Transport,
			// A redirected POST would become a GET, and its key would go to another host.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		base:    base,
		header:  header,
		secrets: secretsOf(header),
	}, nil
}
