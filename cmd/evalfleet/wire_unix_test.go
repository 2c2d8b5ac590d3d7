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

// wire is the network between a worker and Redis, or a provider: it can be cut, and it can lose
// the answers to scripts of the limiter, which go-redis then sends again.
type wire struct {
	listener net.Listener
	upstream string
	ended    chan struct{}

	mu     sync.Mutex // guards all below
	whole  chan struct{}
	links  map[net.Conn]bool
	loses  bool
	lost   map[string]bool // requests whose answer was lost once
	losses int
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
		whole: make(chan struct{}), links: map[net.Conn]bool{}, lost: map[string]bool{},
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

// link carries one connection.
func (w *wire) link(near net.Conn) {
	if !w.keep(near) || !w.pass() {
		return
	}
	far, err := net.DialTimeout("tcp", w.upstream, time.Second)
	if err != nil || !w.keep(far) {
		w.drop(near)
		return
	}
	losing := make(chan struct{}) // closed when the next answer is to be lost
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		defer w.drop(near)
		w.carry(near, far, func([]byte) bool {
			select {
			case <-losing:
				return false
			default:
				return true
			}
		})
	}()
	var once sync.Once
	w.carry(far, near, func(request []byte) bool {
		if w.loseAnswerTo(request) {
			once.Do(func() { close(losing) })
		}
		return true
	})
	w.drop(far)
	<-answered
}

// carry takes from one end to the other what pleases, until something does not.
func (w *wire) carry(to io.Writer, from io.Reader, pleases func([]byte) bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if !w.pass() || !pleases(buffer[:n]) {
				return
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
