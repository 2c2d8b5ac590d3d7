package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/evalfleet/evalfleet/internal/machine/hostname"
)

// Paths that Serve answers.
const (
	MetricsPath = "/metrics" // for Prometheus
	// HealthPath answers 200 while the process runs. It depends on nothing else: restarting a worker does not bring
	// Redis back.
	HealthPath = "/healthz"
	// ReadyPath answers 200 while the worker takes runs, otherwise 503 and the reason.
	ReadyPath = "/readyz"
)

// mostScrapes is how many scrapes are answered at once; a controller asks Redis for each.
const mostScrapes = 4

// Handler serves the paths: the metrics of told, and the readiness that ready reports. An error of ready is the reason
// for not being ready.
func Handler(told prometheus.Gatherer, ready func(context.Context) error) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET "+MetricsPath, promhttp.HandlerFor(told, promhttp.HandlerOpts{MaxRequestsInFlight: mostScrapes}))
	mux.HandleFunc("GET "+HealthPath, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET "+ReadyPath, func(w http.ResponseWriter, r *http.Request) {
		if err := ready(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ready\n")
	})
	return mux
}

// ErrRedisAway means that a process is not ready because its Redis does not answer.
var ErrRedisAway = errors.New("redis does not answer")

// Handler returns a handler of the paths for the worker.
func (m *Worker) Handler() http.Handler {
	return Handler(m.registry, func(context.Context) error {
		switch now := m.probe.Vitals(); {
		case now.Ready:
			return nil
		case now.RedisAway:
			return ErrRedisAway
		case len(now.Troubles) > 0:
			return fmt.Errorf("this worker can call none of its providers: %s", reasons(now.Troubles))
		}
		return errors.New("starting or stopping")
	})
}

// reasons joins the reasons of several providers.
func reasons(of map[string]string) string {
	var words []string
	for _, provider := range slices.Sorted(maps.Keys(of)) {
		words = append(words, provider+" ("+of[provider]+")")
	}
	return strings.Join(words, ", ")
}

// Server answers the paths on an address.
type Server struct {
	http *http.Server
	done chan error
}

// Listen starts to serve on an address, such as ":9090". On loopback, it answers only requests for localhost and IP
// addresses.
func Listen(ctx context.Context, address string, handler http.Handler) (*Server, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve metrics: %w", err)
	}
	s := &Server{
		http: &http.Server{Addr: listener.Addr().String(), Handler: hostname.Guard(listener.Addr(), handler), ReadHeaderTimeout: 5 * time.Second},
		done: make(chan error, 1),
	}
	go func() { s.done <- s.http.Serve(listener) }()
	return s, nil
}

// Address returns the address that the server listens on.
func (s *Server) Address() string { return s.http.Addr }

// Close stops the server at once.
func (s *Server) Close() error {
	err := s.http.Close()
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
