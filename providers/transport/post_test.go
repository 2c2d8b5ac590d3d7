package transport

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "sk-very-secret-0123456789"

func newClient(t *testing.T, baseURL string) *Client {
	t.Helper()
	httpClient := NewClient(Connections{Slots: 4})
	t.Cleanup(httpClient.CloseIdleConnections)
	client, err := New(httpClient, baseURL, nil)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

func post() Post {
	return Post{Path: "chat/completions", Key: key, Body: []byte(`{}`), Header: http.Header{"Authorization": {"Bearer " + key}}}
}

// fails makes the call and returns its error, which must be a *providers.Error.
func fails(ctx context.Context, t *testing.T, client *Client) *providers.Error {
	t.Helper()
	_, err := client.Do(ctx, post())
	var failed *providers.Error
	if !errors.As(err, &failed) {
		t.Fatalf("error: got %v, want a *providers.Error", err)
	}
	for what, text := range map[string]string{"text": failed.Error(), "code": failed.Code, "body": string(failed.Raw), "cause": fmt.Sprint(failed.Err)} {
		if strings.Contains(text, key) {
			t.Errorf("the error's %s holds the key: %s", what, text)
		}
	}
	return failed
}

func want(t *testing.T, got *providers.Error, class providers.Class, billed bool) {
	t.Helper()
	if got.Class != class || got.MayBeBilled != billed {
		t.Errorf("got class %s, may be billed %v (%v), want %s, %v", got.Class, got.MayBeBilled, got, class, billed)
	}
}

func TestDoKeepsRequestIDAndLimitsOnly(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/chat/completions" || r.URL.RawQuery != "api-version=7" {
			t.Errorf("path: got %s", r.URL)
		}
		w.Header().Set("x-request-id", "req_1")
		w.Header().Set("x-ratelimit-remaining-requests", "3")
		w.Header().Set("set-cookie", "a=b")
		fmt.Fprint(w, `{"ok":true}`)
	})
	answer, err := newClient(t, server.URL+"/v1/?api-version=7").Do(t.Context(), post())
	if err != nil {
		t.Fatal(err)
	}
	if answer.RequestID != "req_1" || answer.Header.Get("X-Ratelimit-Remaining-Requests") != "3" || len(answer.Header) != 2 {
		t.Errorf("got id %q and headers %v, want req_1 and two headers", answer.RequestID, answer.Header)
	}
}

func TestDoSendsWhatTheMethodWants(t *testing.T) {
	t.Parallel()
	for want, post := range map[string]Post{
		`POST /v1/responses "application/json" {}`: {Path: "responses", Body: []byte(`{}`)},
		`GET /v1/responses/a%2Fb "" `:              {Method: http.MethodGet, Path: "responses/a%2Fb"},
		`POST /v1/responses/r/cancel "" `:          {Path: "responses/r/cancel"},
	} {
		var got string
		server := serve(t, func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got = fmt.Sprintf("%s %s %q %s", r.Method, r.URL.EscapedPath(), r.Header.Get("Content-Type"), body)
		})
		if _, err := newClient(t, server.URL+"/v1").Do(t.Context(), post); err != nil {
			t.Error(err)
		}
		if got != want {
			t.Errorf("sent:\ngot  %s\nwant %s", got, want)
		}
	}
}

func TestDoRefusesRedirects(t *testing.T) {
	t.Parallel()
	var reached atomic.Bool
	other := serve(t, func(http.ResponseWriter, *http.Request) { reached.Store(true) })
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect} {
		server := serve(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+"/elsewhere?token="+key, status)
		})
		failed := fails(t.Context(), t, newClient(t, server.URL))
		want(t, failed, providers.BadRequest, false)
		if reached.Load() {
			t.Errorf("the redirect with status %d was followed", status)
		}
		if !strings.Contains(failed.Message, other.URL+"/elsewhere") {
			t.Errorf("message: got %q, want it to name where the redirect leads", failed.Message)
		}
	}
}

func TestDoBoundsBodies(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status, size int
		want         providers.Class // empty: no error
	}{
		{http.StatusOK, providers.DefaultAnswer, ""},
		{http.StatusOK, providers.DefaultAnswer + 1, providers.Malformed},
		{http.StatusBadRequest, MaxErrorBytes * 4, providers.BadRequest},
	} {
		server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(test.status)
			_, _ = w.Write(bytes.Repeat([]byte("x"), test.size))
		})
		answer, err := newClient(t, server.URL).Do(t.Context(), post())
		var failed *providers.Error
		switch {
		case test.want == "" && err == nil:
			if len(answer.Body) != test.size {
				t.Errorf("body: got %d bytes, want %d", len(answer.Body), test.size)
			}
		case !errors.As(err, &failed) || failed.Class != test.want:
			t.Errorf("status %d, %d bytes: got %v, want class %q", test.status, test.size, err, test.want)
		case len(failed.Raw) > MaxErrorBytes:
			t.Errorf("error body: got %d bytes, want at most %d", len(failed.Raw), MaxErrorBytes)
		}
	}
}

func TestDoNeverShowsTheKey(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error":{"message":"Incorrect API key provided: %s","code":"bad %[1]s"}}`, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	})
	failed := fails(t.Context(), t, newClient(t, server.URL))
	want(t, failed, providers.Auth, false)
	if failed.Message != "Incorrect API key provided: [key]" {
		t.Errorf("message: got %q", failed.Message)
	}
	parrot := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", r.Header.Get("Authorization"))
		fmt.Fprintf(w, `{"you sent":%q}`, r.Header.Get("Authorization"))
	})
	answer, err := newClient(t, parrot.URL).Do(t.Context(), post())
	if err != nil {
		t.Fatal(err)
	}
	if answer.RequestID != "Bearer [key]" || string(answer.Body) != `{"you sent":"Bearer [key]"}` {
		t.Errorf("a good answer: got %q of request %q, want neither with the key", answer.Body, answer.RequestID)
	}
	nowhere := "http://127.0.0.1:1/v1?token=" + key
	if failed := fails(t.Context(), t, newClient(t, nowhere)); strings.Contains(failed.Error(), "token") {
		t.Errorf("the error repeats the URL: %v", failed)
	}
}

// A word that a server of one's own is given as its key is in answers by
// chance, here in the names of their fields.
func TestAWordForAKeyChangesNoAnswer(t *testing.T) {
	t.Parallel()
	const body = `{"usage":{"prompt_tokens":7},"error":null}`
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
	for _, word := range []string{"k", "token", "prompt_toke"} {
		request := post()
		request.Key = word
		answer, err := newClient(t, server.URL).Do(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if string(answer.Body) != body {
			t.Errorf("key %q: got %s", word, answer.Body)
		}
	}
}

func TestConnectionRefusedIsNotBilled(t *testing.T) {
	t.Parallel()
	address := testrun.FreeAddress(t)
	failed := fails(t.Context(), t, newClient(t, "http://"+address))
	want(t, failed, providers.Transient, false)
	if !strings.Contains(failed.Message, "refused") {
		t.Errorf("message: got %q, want the transport's words", failed.Message)
	}
}

// A request that was sent only in part cannot have been read.
func TestAHalfWrittenRequestIsNotBilled(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = io.ReadFull(conn, make([]byte, 1<<10)) // it has begun
		_ = conn.Close()
	}()
	p := post()
	p.Body = make([]byte, 64<<20) // more than the sockets' buffers hold
	_, err = newClient(t, "http://"+listener.Addr().String()).Do(t.Context(), p)
	var failed *providers.Error
	if !errors.As(err, &failed) {
		t.Fatalf("error: got %v, want a *providers.Error", err)
	}
	want(t, failed, providers.Transient, false)
}

// expiring is a context whose deadline passes when its channel is closed.
type expiring struct {
	context.Context
	passed chan struct{}
}

func (e expiring) Done() <-chan struct{} { return e.passed }

func (e expiring) Err() error {
	select {
	case <-e.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func TestDeadlineAndCancelAreTold(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{}, 2)
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a server notices that a client left only after the whole body
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	client := newClient(t, server.URL)

	late := expiring{t.Context(), make(chan struct{})}
	go func() {
		<-arrived
		close(late.passed)
	}()
	want(t, fails(late, t, client), providers.Timeout, true)

	fenced := errors.New("lease lost")
	ctx, stop := context.WithCancelCause(t.Context())
	go func() {
		<-arrived
		stop(fenced)
	}()
	failed := fails(ctx, t, client)
	want(t, failed, providers.Cancelled, true)
	if !errors.Is(failed, fenced) {
		t.Errorf("cause: got %v, want %v", failed.Err, fenced)
	}
	want(t, fails(ctx, t, client), providers.Cancelled, false) // never written
}

func TestBodyCutOffIsTransientAndMayBeBilled(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Request-Id", "req_2")
		w.Header().Set("Content-Length", "100")
		fmt.Fprint(w, `{"choices":`)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	failed := fails(t.Context(), t, newClient(t, server.URL))
	want(t, failed, providers.Transient, true)
	if failed.RequestID != "req_2" {
		t.Errorf("request id: got %q, want req_2", failed.RequestID)
	}
}

// A connection that the server closes just as a request is written must not make
// net/http write that request a second time.
func TestOneAttemptOnADyingConnection(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var requests atomic.Int32
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				reader := bufio.NewReader(conn)
				for {
					request, err := http.ReadRequest(reader)
					if err != nil {
						return
					}
					request.Body.Close()
					if requests.Add(1) > 1 {
						return // read, and never answered
					}
					fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
				}
			}()
		}
	}()
	client := newClient(t, "http://"+listener.Addr().String())
	p := post()
	p.Header.Set("Idempotency-Key", "1") // what makes net/http think that it may repeat
	if _, err := client.Do(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	_, err = client.Do(t.Context(), p)
	if got := requests.Load(); got != 2 {
		t.Errorf("requests on the wire: got %d, want 2 (error: %v)", got, err)
	}
	var failed *providers.Error
	if !errors.As(err, &failed) {
		t.Fatalf("error: got %v, want a *providers.Error", err)
	}
	want(t, failed, providers.Transient, true)
}

func TestNewRefusesBadURLs(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "localhost:8000/v1", "ftp://host/", "http://", "http://user:" + key + "@host/", "http://h/%zz" + key} {
		if _, err := New(http.DefaultClient, bad, nil); err == nil || strings.Contains(err.Error(), key) {
			t.Errorf("New(%q): got error %v, want one without the key", bad, err)
		}
	}
}

// An answer without text says whether there was reasoning in its place, and what helps then.
func TestEmptyAnswersSayWhatWasThere(t *testing.T) {
	t.Parallel()
	answer := &Answer{status: 200}
	for _, test := range []struct {
		used      providers.Usage
		reasoning string
		want      string
	}{
		{want: "no text and no reason why"},
		{reasoning: "hm", want: "only reasoning and no text; reasoning_effort: none"},
		{used: providers.Usage{Reasoning: 9}, want: "only reasoning and no text; reasoning_effort: none"},
	} {
		if got := answer.Empty(test.used, test.reasoning); !strings.Contains(got.Message, test.want) {
			t.Errorf("got %q, want %q", got.Message, test.want)
		}
	}
}
