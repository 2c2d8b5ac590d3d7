package transport

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/evalfleet/evalfleet/internal/testing/testproxy"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
)

var errLost = errors.New("the lease is lost")

// protocols are the ways in which requests travel: directly, through a proxy, and
// through a proxy that is itself called over TLS.
var protocols = []string{
	"http/1.1", "https/1.1", "https/2",
	"http/1.1 by proxy", "https/1.1 by proxy", "https/2 by proxy", "https/1.1 by https proxy", "https/2 by https proxy",
}

// speak serves handler over one of protocols and returns a client for it, with
// the network between them.
func speak(t *testing.T, protocol string, handler http.HandlerFunc, settings *http.HTTP2Config) (*Client, *network) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.HTTP2 = settings
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // clients open connections that they do not need
	server.EnableHTTP2 = strings.HasPrefix(protocol, "https/2")
	if strings.HasPrefix(protocol, "http/") {
		server.Start()
	} else {
		server.StartTLS()
	}
	t.Cleanup(server.Close)
	n := &network{opened: make(chan struct{}), held: make(chan struct{}, 100)}
	close(n.opened)
	httpClient := NewClient(Connections{Slots: 4})
	t.Cleanup(httpClient.CloseIdleConnections)
	pool := httpClient.Transport.(*http.Transport)
	pool.DialContext, pool.TLSHandshakeTimeout = guarded(n.dial), 0
	if server.TLS != nil {
		pool.TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	}
	if _, by, ok := strings.Cut(protocol, " by "); ok {
		address := testproxy.New(t, testproxy.Config{Secure: by == "https proxy"}).URL
		pool.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse(address) }
	}
	client, err := New(httpClient, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	return client, n
}

// network can stop taking what a client writes.
type network struct {
	mu     sync.Mutex
	opened chan struct{} // closed while it takes all
	held   chan struct{} // one for each write that has to wait
	passed atomic.Int64  // bytes
}

func (n *network) shut() {
	n.mu.Lock()
	n.opened = make(chan struct{})
	n.mu.Unlock()
}

func (n *network) open() { close(n.opened) }

func (n *network) dial(ctx context.Context, how, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, how, address)
	return &link{conn, n}, err
}

// link is a connection over a network.
type link struct {
	net.Conn
	over *network
}

func (l *link) Write(p []byte) (int, error) {
	l.over.mu.Lock()
	opened := l.over.opened
	l.over.mu.Unlock()
	select {
	case <-opened:
	default:
		l.over.held <- struct{}{}
		<-opened
	}
	l.over.passed.Add(int64(len(p)))
	return l.Conn.Write(p)
}

// lease is a Post.Ready that can be lost.
type lease struct{ lost atomic.Bool }

func (l *lease) check() error {
	if l.lost.Load() {
		return errLost
	}
	return nil
}

// isRefused makes a call that must end with errLost, and not be billed.
func isRefused(t *testing.T, client *Client, p Post) {
	t.Helper()
	_, err := client.Do(t.Context(), p)
	var failed *providers.Error
	if !errors.Is(err, errLost) || !errors.As(err, &failed) || failed.MayBeBilled {
		t.Errorf("Do = %v (%+v), want the refusal, unbilled", err, failed)
	}
}

// A request whose lease is lost is not written, on a new connection and on a
// used one.
func TestNothingIsWrittenThatIsNotReady(t *testing.T) {
	t.Parallel()
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			var arrived atomic.Int64
			client, _ := speak(t, protocol, func(w http.ResponseWriter, r *http.Request) {
				arrived.Add(1)
				_, _ = io.Copy(w, r.Body)
			}, nil)
			request := post()
			request.Ready = func() error { return errLost }
			isRefused(t, client, request)
			var asked atomic.Bool
			request.Ready = func() error { asked.Store(true); return nil }
			if answer, err := client.Do(t.Context(), request); err != nil || string(answer.Body) != "{}" {
				t.Fatalf("Do = %v, %v; want the body back", answer, err)
			}
			request.Ready = func() error { return errLost }
			isRefused(t, client, request)
			if got := arrived.Load(); got != 1 || !asked.Load() {
				t.Errorf("%d requests arrived (asked: %v), want 1 (true)", got, asked.Load())
			}
		})
	}
}

// A handshake can take longer than the grant of a call is good for.
func TestNothingIsWrittenAfterAStalledHandshake(t *testing.T) {
	t.Parallel()
	for _, protocol := range protocols {
		if strings.HasPrefix(protocol, "http/") {
			continue
		}
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			var arrived atomic.Int64
			client, network := speak(t, protocol, func(http.ResponseWriter, *http.Request) { arrived.Add(1) }, nil)
			network.shut()
			var own lease
			var calls sync.WaitGroup
			const many = 7
			for range many {
				calls.Go(func() {
					request := post()
					request.Ready = own.check
					isRefused(t, client, request)
				})
			}
			for range many { // each opens a connection, because none is known yet
				<-network.held
			}
			own.lost.Store(true)
			network.open()
			calls.Wait()
			if got := arrived.Load(); got != 0 {
				t.Errorf("%d requests arrived, want none", got)
			}
		})
	}
}

// On HTTP/2 a request waits for its connection while another is being written.
func TestNothingIsWrittenAfterAStalledWrite(t *testing.T) {
	t.Parallel()
	var arrived atomic.Int64
	client, network := speak(t, "https/2", func(http.ResponseWriter, *http.Request) { arrived.Add(1) }, nil)
	if _, err := client.Do(t.Context(), post()); err != nil { // the connection is known
		t.Fatal(err)
	}
	network.shut()
	var calls sync.WaitGroup
	calls.Go(func() {
		if _, err := client.Do(t.Context(), post()); err != nil {
			t.Errorf("the request that is being written: %v", err)
		}
	})
	<-network.held
	var own lease
	waits := make(chan struct{})
	calls.Go(func() {
		request := post()
		var once sync.Once
		request.Ready = func() error {
			once.Do(func() { close(waits) })
			return own.check()
		}
		isRefused(t, client, request)
	})
	<-waits
	own.lost.Store(true)
	network.open()
	calls.Wait()
	if got := arrived.Load(); got != 2 {
		t.Errorf("%d requests arrived, want the first two", got)
	}
}

// On HTTP/2 the server says how much of a body it takes. A request whose lease is
// lost while its body waits for that does not arrive as a whole.
func TestNoBodyIsWrittenAfterAStalledWindow(t *testing.T) {
	t.Parallel()
	const window = 64 << 10
	var whole atomic.Int64
	begun, release := make(chan struct{}, 2), make(chan struct{})
	client, network := speak(t, "https/2", func(_ http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		if r.ContentLength > window {
			<-release
		}
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			whole.Add(1)
		}
	}, &http.HTTP2Config{MaxReceiveBufferPerConnection: window, MaxReceiveBufferPerStream: window})
	var calls sync.WaitGroup
	calls.Go(func() {
		large := post()
		large.Body = make([]byte, 2*window)
		if _, err := client.Do(t.Context(), large); err != nil {
			t.Errorf("large request: %v", err)
		}
	})
	<-begun
	testrun.Eventually(t, "the connection takes hardly more of a body", func() bool { return network.passed.Load() >= window })
	var own lease
	calls.Go(func() {
		small := post()
		small.Body, small.Ready = make([]byte, 8<<10), own.check // more than what is left of the window
		isRefused(t, client, small)
	})
	<-begun
	own.lost.Store(true)
	close(release)
	calls.Wait()
	if got := whole.Load(); got != 1 {
		t.Errorf("%d requests arrived as a whole, want the large one alone", got)
	}
}

// A call that is cancelled at the moment when the provider has it may be billed, also
// where the connection has not yet said that all of it is written.
func TestCancelledAsItArrives(t *testing.T) {
	t.Parallel()
	calls := 300
	if testing.Short() {
		calls = 100
	}
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			var cancel atomic.Pointer[context.CancelFunc]
			client, _ := speak(t, protocol, func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				(*cancel.Load())()
				<-r.Context().Done()
				panic(http.ErrAbortHandler) // no answer
			}, nil)
			for i := range calls {
				ctx, end := context.WithCancel(t.Context())
				cancel.Store(&end)
				_, err := client.Do(ctx, post())
				var failed *providers.Error
				if !errors.As(err, &failed) || !failed.MayBeBilled {
					t.Fatalf("call %d: got %v, want one that may be billed", i, err)
				}
			}
		})
	}
}
