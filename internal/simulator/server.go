package simulator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Server is a Simulator that listens.
type Server struct {
	*Simulator
	URL string // "http://127.0.0.1:41234"; a base_url is this and "/v1"

	http *http.Server
	done chan error
}

// Listen serves a Simulator on a TCP address; port 0 takes a free one. Close it.
func Listen(addr string, config Config) (*Server, error) {
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
		http:      &http.Server{Handler: simulator, ReadHeaderTimeout: 10 * time.Second},
		done:      make(chan error, 1),
	}
	go func() { s.done <- s.http.Serve(listener) }()
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
