//go:build unix

package main

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// wire is the network between a worker and Redis, or a provider: it can be cut, it can lose
// the answers to scripts of the limiter, which go-redis then sends again, it can deliver requests
// after their connection was reset, and it can lose published messages.
type wire struct {
	listener net.Listener
	ended    chan struct{}

	mu       sync.Mutex // guards all below
	upstream string
	whole    chan struct{}
	links    map[net.Conn]bool
	loses    bool
	lost     map[string]bool // requests whose answer was lost once
	losses   int
	late     []byte          // requests with this text are late; empty: none is
	arrive   chan struct{}   // closed when late requests arrive
	delayed  map[string]bool // requests that are late already
	deaf     bool            // loses what is published
}

// newWire is a wire to the server at a URL, cut for good when the test ends.
func newWire(t *testing.T, server string) *wire {
	t.Helper()
	parsed, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{
		listener: listener, upstream: parsed.Host, ended: make(chan struct{}),
		whole: make(chan struct{}), links: map[net.Conn]bool{}, lost: map[string]bool{}, delayed: map[string]bool{},
	}
	close(w.whole)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { w.link(near) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		close(w.ended)
		w.mu.Lock()
		for conn := range w.links {
			_ = conn.Close()
		}
		w.mu.Unlock()
		all.Wait()
	})
	return w
}

func (w *wire) url() string { return "redis://" + w.listener.Addr().String() }

// connections is how many are open.
func (w *wire) connections() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.links)
}

// cut holds back all later data; mend delivers it, including data from senders that have given
// up since, as a network does.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.whole = make(chan struct{})
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.whole)
}

// snap closes every connection; new ones can be opened at once.
func (w *wire) snap() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for conn := range w.links {
		_ = conn.Close()
	}
}

// lose makes the wire lose the first answer to each script of the limiter, and
// the connection with it, or stop doing so.
func (w *wire) lose(answers bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loses = answers
}

// delay resets each connection that sends a request with a text, and keeps the request until
// arrive delivers it. The client gets through when it sends the same request again.
func (w *wire) delay(requests string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.late, w.arrive = []byte(requests), make(chan struct{})
}

// deliver ends delay, delivers the late requests, and returns how many there were.
func (w *wire) deliver() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.delayed)
	w.late, w.delayed = nil, map[string]bool{}
	close(w.arrive)
	return n
}

// deafen makes the wire lose what Redis publishes, or stop doing so.
func (w *wire) deafen(deaf bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deaf = deaf
}

// lead makes the wire lead to another server, and closes its connections to the one before.
func (w *wire) lead(address string) {
	w.mu.Lock()
	w.upstream = address
	w.mu.Unlock()
	w.snap()
}

// lostAnswers is how many were lost so far.
func (w *wire) lostAnswers() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.losses
}

// pass waits until the wire is whole; false at the end of the test.
func (w *wire) pass() bool {
	w.mu.Lock()
	whole := w.whole
	w.mu.Unlock()
	select {
	case <-whole:
		return true
	case <-w.ended:
		return false
	}
}

// loseAnswerTo decides whether the answer to a request is to be lost.
func (w *wire) loseAnswerTo(request []byte) bool {
	if !bytes.Contains(request, []byte("evalsha")) || !bytes.Contains(request, []byte("{ef}:limits")) {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.loses || w.lost[string(request)] {
		return false
	}
	w.lost[string(request)] = true
	w.losses++
	return true
}

// delays returns a channel that is closed when a late request arrives, and nil for a request that
// is not late.
func (w *wire) delays(request []byte) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.late) == 0 || !bytes.Contains(request, w.late) || w.delayed[string(request)] {
		return nil
	}
	w.delayed[string(request)] = true
	return w.arrive
}

// published reports whether bytes of Redis begin with a published message, in either protocol.
func published(answer []byte) bool {
	return bytes.HasPrefix(answer, []byte("*3\r\n$7\r\nmessage\r\n")) || bytes.HasPrefix(answer, []byte(">3\r\n$7\r\nmessage\r\n"))
}

// loseMessage decides whether bytes of Redis are lost.
func (w *wire) loseMessage(answer []byte) bool {
	if !published(answer) {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deaf
}

// reset closes a connection so that its client sees a reset.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// link carries one connection.
func (w *wire) link(near net.Conn) {
	if !w.keep(near) || !w.pass() {
		return
	}
	w.mu.Lock()
	upstream := w.upstream
	w.mu.Unlock()
	far, err := net.DialTimeout("tcp", upstream, time.Second)
	if err != nil || !w.keep(far) {
		w.drop(near)
		return
	}
	losing := make(chan struct{}) // closed when the next answer is to be lost
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		defer w.drop(near)
		w.carry(near, far, func(answer []byte) fate {
			select {
			case <-losing:
				return ended
			default:
			}
			if w.loseMessage(answer) {
				return dropped
			}
			return carried
		})
	}()

	var once sync.Once
	w.carry(far, near, func(request []byte) fate {
		if arrive := w.delays(request); arrive != nil {
			reset(near)
			select {
			case <-arrive:
			case <-w.ended:
				return ended
			}
		}
		if w.loseAnswerTo(request) {
			once.Do(func() { close(losing) })
		}
		return carried
	})
	w.drop(far)
	<-answered
}

// fate is what happens to bytes on a wire.
type fate int

const (
	carried fate = iota
	dropped      // they are lost
	ended        // and the connection with them
)

// carry takes bytes from one end to the other, until one ends, or decide ends it.
func (w *wire) carry(to io.Writer, from io.Reader, decide func([]byte) fate) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if !w.pass() {
				return
			}
			switch decide(buffer[:n]) {
			case ended:
				return
			case dropped:
				continue
			case carried:
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// keep notes a connection, to be closed at the end; false when that has come.
func (w *wire) keep(conn net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.ended:
		_ = conn.Close()
		return false
	default:
		w.links[conn] = true
		return true
	}
}

func (w *wire) drop(conn net.Conn) {
	w.mu.Lock()
	delete(w.links, conn)
	w.mu.Unlock()
	_ = conn.Close()
}
