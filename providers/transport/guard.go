package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// sending is one request on its way out. It calls ready at the last moment before the first
// byte is written, when everything that can take time is done: the handshake, the wait for a
// stream, the wait for other requests on the connection.
//
// On HTTP/1.1 the request has its connection to itself, and that connection calls ready
// (guardedConn); a proxy has opened its tunnel by then. On HTTP/2 requests share a connection,
// and a write that fails would end all of them. There net/http asks the request's context
// (Context.Done) after it has taken the connection's write lock, directly before it writes the
// headers, and again before each part of the body that the server's flow control lets through.
// So sending is that context, and its Done calls ready first. Tests pin both moments, because
// net/http does not promise them.
//
// The body is asked about until its first part is written. A later part may be late because the
// body is large and the network slow, and would be as late next time.
type sending struct {
	context.Context // ends when ready refuses
	end             context.CancelCauseFunc
	ready           func() error
	connected       func(took time.Duration)
	body            *bytes.Reader

	stage   atomic.Int32
	leaving atomic.Bool // it may be written now, or was written in part
	written atomic.Bool // the whole request is in the connection's buffer
	refused atomic.Pointer[error]
}

// The stages of a request on HTTP/2. On HTTP/1.1 it stays unconnected.
const (
	unconnected int32 = iota
	connected         // and none of it is written
	headersOut
	bodyWaits // the first part of the body is about to be written
	bodyOut
)

func newSending(ctx context.Context, p Post) *sending {
	s := &sending{ready: p.Ready, connected: p.Connected, body: bytes.NewReader(p.Body)}
	s.Context, s.end = context.WithCancelCause(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: s.connect,
		// net/http calls this with the write lock held, after it has asked Done and
		// before it writes.
		WroteHeaderField: func(string, []string) { s.stage.CompareAndSwap(connected, headersOut) },
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			s.stage.Store(bodyOut)
			s.written.Store(info.Err == nil)
		},
	}))
	return s
}

// connect prepares the moment at which ready is called.
func (s *sending) connect(info httptrace.GotConnInfo) {
	conn := info.Conn
	secure, ok := conn.(*tls.Conn)
	h2 := ok && secure.ConnectionState().NegotiatedProtocol == "h2"
	for { // the connection to the provider may run inside one to a proxy
		secure, ok := conn.(*tls.Conn)
		if !ok {
			break
		}
		conn = secure.NetConn()
	}

	own, ok := conn.(*guardedConn)
	if ok && !info.Reused && s.connected != nil {
		s.connected(own.took)
	}
	switch {
	case h2:
		s.stage.Store(connected)
	case ok:
		own.guard(func() error {
			err := s.ask()
			s.leaving.CompareAndSwap(false, err == nil)
			return err
		})
	}
}

// Done returns the context's channel, which is already closed if ready refuses.
func (s *sending) Done() <-chan struct{} {
	if stage := s.stage.Load(); stage == connected || stage == bodyWaits {
		err := s.ask()
		s.leaving.CompareAndSwap(false, stage == bodyWaits && err == nil)
	}
	return s.Context.Done()
}

// ask calls ready, and ends the request if ready refuses.
func (s *sending) ask() error {
	if s.ready == nil {
		return nil
	}
	err := s.ready()
	if err != nil {
		s.refused.CompareAndSwap(nil, &err)
		s.end(err) // even if another goroutine is about to, so that no caller sees an open channel
	}
	return err
}

// mayHaveArrived reports whether the provider may have the whole request. If the caller ended the request, the provider
// may have it although net/http has not reported yet that it is written.
func (s *sending) mayHaveArrived(ended bool) bool {
	return s.refusal() == nil && (s.written.Load() || ended && s.leaving.Load())
}

// refusal returns the error with which ready refused the request; nil: it did not.
func (s *sending) refusal() error {
	if err := s.refused.Load(); err != nil {
		return *err
	}
	return nil
}

// Read reads the body. On HTTP/2 a part is read when the one before is written.
func (s *sending) Read(p []byte) (int, error) {
	switch left := int64(s.body.Len()); {
	case left == s.body.Size():
		s.stage.CompareAndSwap(headersOut, bodyWaits)
	case left > 0:
		s.stage.CompareAndSwap(bodyWaits, bodyOut)
	}
	return s.body.Read(p)
}

// guardedConn is a connection that asks once, before it writes the next bytes, whether it may.
type guardedConn struct {
	net.Conn
	took time.Duration // to open it, once its address was known

	mu    sync.Mutex
	ready func() error // nil: ask nothing
}

type dial func(ctx context.Context, network, address string) (net.Conn, error)

// guarded returns a dial function for connections of the type guardedConn.
func guarded(connect dial) dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		began := &opening{}
		began.Store(time.Now().UnixNano())
		conn, err := connect(context.WithValue(ctx, openingKey{}, began), network, address)
		if err != nil {
			return nil, err
		}
		return &guardedConn{Conn: conn, took: time.Since(time.Unix(0, began.Load()))}, nil
	}
}

// opening is when the last attempt to open a connection began: names have several addresses.
type opening struct{ atomic.Int64 }

type openingKey struct{}

// opens records that a connection is being opened. It is a dialer's ControlContext.
func opens(ctx context.Context, _, _ string, _ syscall.RawConn) error {
	if began, ok := ctx.Value(openingKey{}).(*opening); ok {
		began.Store(time.Now().UnixNano())
	}
	return nil
}

func (g *guardedConn) guard(ready func() error) {
	g.mu.Lock()
	g.ready = ready
	g.mu.Unlock()
}

func (g *guardedConn) Write(p []byte) (int, error) {
	g.mu.Lock()
	ready := g.ready
	g.ready = nil
	g.mu.Unlock()
	if ready != nil {
		if err := ready(); err != nil {
			return 0, err
		}
	}
	return g.Conn.Write(p)
}
