package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// turnstile is a proxy before a provider that lets through as many calls as a
// test allows, and holds the others. So a test can act in the middle of an
// evaluation however slow the machine is.
type turnstile struct {
	*httptest.Server
	passes chan struct{}
	came   atomic.Int64
	held   atomic.Int64 // calls that wait here
	left   atomic.Int64 // calls whose callers left while they waited here
	open   func()       // lets every call through from now on
}

// newTurnstile starts a turnstile that is closed.
func newTurnstile(t *testing.T, provider string) *turnstile {
	t.Helper()
	upstream, err := url.Parse(provider)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(upstream)
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) } // the worker left
	s := &turnstile{passes: make(chan struct{}, 1000)}
	s.open = sync.OnceFunc(func() { close(s.passes) })
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body) // or the server would not see that the caller leaves
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.came.Add(1)
		s.held.Add(1)
		select {
		case <-s.passes:
			s.held.Add(-1)
			proxy.ServeHTTP(w, r)
		case <-r.Context().Done():
			s.held.Add(-1)
			s.left.Add(1)
		}
	}))
	t.Cleanup(func() {
		s.open()
		s.Close()
	})
	return s
}

// await waits until n calls have come, or ctx ends.
func (s *turnstile) await(ctx context.Context, n int64) {
	for s.came.Load() < n && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
}

// allow lets n more calls through.
func (s *turnstile) allow(n int) {
	for range n {
		s.passes <- struct{}{}
	}
}
