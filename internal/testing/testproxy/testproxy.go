// Package testproxy provides an HTTP proxy for tests.
package testproxy

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

// Config says how a Proxy behaves. The zero value opens every tunnel.
type Config struct {
	Secure bool                     // clients connect to the proxy over TLS
	Status int                      // status of the answer to CONNECT; 0: open the tunnel
	Pass   func()                   // called before a tunnel opens; may be nil
	Route  func(host string) string // destination of a tunnel or request to host; nil: host
}

// Proxy opens tunnels for CONNECT and forwards other requests.
type Proxy struct {
	*httptest.Server
	config Config
	mu     sync.Mutex
	seen   []*http.Request
}

// New serves a proxy until the test ends.
func New(t testing.TB, config Config) *Proxy {
	t.Helper()
	p := &Proxy{config: config}
	p.Server = httptest.NewUnstartedServer(p)
	if config.Secure {
		p.StartTLS()
	} else {
		p.Start()
	}
	t.Cleanup(p.Close)
	return p
}

// Seen returns the requests that the proxy received, including those for tunnels.
func (p *Proxy) Seen() []*http.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.seen)
}

// ServeHTTP records a request, and forwards it or opens a tunnel.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.seen = append(p.seen, r.Clone(r.Context()))
	p.mu.Unlock()
	switch {
	case r.Method != http.MethodConnect:
		p.forward(w, r)
	case p.config.Status != 0:
		w.WriteHeader(p.config.Status)
	default:
		if p.config.Pass != nil {
			p.config.Pass()
		}
		p.tunnel(w, r)
	}
}

func (p *Proxy) forward(w http.ResponseWriter, r *http.Request) {
	onward := r.Clone(r.Context())
	if p.config.Route != nil {
		onward.URL.Host = p.config.Route(onward.URL.Host)
	}
	onward.RequestURI = ""
	onward.Header.Del("Proxy-Authorization")
	pool := &http.Transport{}
	defer pool.CloseIdleConnections()
	answer, err := pool.RoundTrip(onward)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer answer.Body.Close()
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, answer.Body)
}

// tunnel copies bytes in both directions until both sides end.
func (p *Proxy) tunnel(w http.ResponseWriter, r *http.Request) {
	host := r.Host
	if p.config.Route != nil {
		host = p.config.Route(host)
	}
	there, err := new(net.Dialer).DialContext(r.Context(), "tcp", host)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	w.WriteHeader(http.StatusOK)
	here, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		there.Close()
		return
	}
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(there, buffered); there.Close() })
	both.Go(func() { _, _ = io.Copy(here, there); here.Close() })
	both.Wait()
}
