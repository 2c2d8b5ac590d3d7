package simulator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Server is a Simulator that listens on an address.
type Server struct {
	*Simulator
	URL         string // "http://127.0.0.1:41234"; with "/v1", it is a base_url
	Certificate []byte // PEM, of ListenTLS

	http *http.Server
	done chan error
}

// Listen serves a Simulator on a TCP address; port 0 selects a free one. The caller must close it.
func Listen(addr string, config Config) (*Server, error) { return listen(addr, config, nil) }

// idle is how long a connection may wait for its first request. Clients keep idle connections for a minute; a server that
// closes them sooner can break the call that a client sends at that moment.
const idle = 2 * time.Minute

// listen serves HTTP, or HTTPS if identity is not nil.
func listen(addr string, config Config, identity *tls.Certificate) (*Server, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr) // does not block
	if err != nil {
		return nil, fmt.Errorf("simulator: %w", err)
	}
	simulator := New(config)
	s := &Server{
		Simulator: simulator,
		URL:       "http://" + listener.Addr().String(),
		http:      &http.Server{Handler: simulator, ReadHeaderTimeout: idle},
		done:      make(chan error, 1),
	}
	serve := s.http.Serve
	if identity != nil {
		s.URL, s.Certificate = "https://"+listener.Addr().String(), asPEM(identity)
		s.http.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*identity}, MinVersion: tls.VersionTLS12}
		serve = func(l net.Listener) error { return s.http.ServeTLS(l, "", "") }
	}
	go func() { s.done <- serve(listener) }()
	return s, nil
}

// Close stops listening and ends every call in flight.
func (s *Server) Close() error {
	s.stopJobs()
	err := s.http.Close() // hanging calls would never let a graceful shutdown end
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
