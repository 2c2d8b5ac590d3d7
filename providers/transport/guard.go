package transport

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
)

// guardedConn asks once, when the next bytes are to be written, whether they may.
type guardedConn struct {
	net.Conn

	mu    sync.Mutex
	ready func() error // nil: nobody wants to be asked
}

type dial func(ctx context.Context, network, address string) (net.Conn, error)

// guarded makes connections that guard knows.
func guarded(connect dial) dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := connect(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &guardedConn{Conn: conn}, nil
	}
}

// guard has a connection ask right before the request that was given to it is
// written. An HTTP/2 connection, which several requests share, cannot be asked
// for one of them: it is not guarded.
func guard(conn net.Conn, ready func() error) {
	if secure, ok := conn.(*tls.Conn); ok {
		if secure.ConnectionState().NegotiatedProtocol == "h2" {
			return
		}
		conn = secure.NetConn()
	}
	if g, ok := conn.(*guardedConn); ok {
		g.mu.Lock()
		g.ready = ready
		g.mu.Unlock()
	}
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
