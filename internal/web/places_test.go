package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/evalfleet/evalfleet/internal/web/upload"
)

// One user's submissions and streams leave room for those of others.
func TestOneUserLeavesRoom(t *testing.T) {
	t.Parallel()
	accounts, err := OpenAccounts(accountsFile(t, "ann", "secret", "bob", "other"))
	if err != nil {
		t.Fatal(err)
	}
	entered, leave := make(chan struct{}), make(chan struct{})
	open := sync.OnceFunc(func() { close(leave) })
	defer open()
	s := New(Config{Accounts: accounts, Actions: &acts{}, MaxUpload: 1000, Submit: func(context.Context, Received) (Receipt, error) {
		entered <- struct{}{}
		<-leave
		return Receipt{ID: "ev-1", Created: true}, nil
	}})
	s.submits = make(chan struct{}, uploadsEach+1)
	login := func(name, password string) string {
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		request.SetBasicAuth(name, password)
		return request.Header.Get("Authorization")
	}
	send := func(login string) int {
		return post(s, "file=a", upload.JSON, aSubmission, "Authorization", login).Code
	}
	ann, bob := login("ann", "secret"), login("bob", "other")
	codes := make(chan int)
	for range uploadsEach {
		go func() { codes <- send(ann) }()
		<-entered
	}
	more := make(chan int, 1)
	go func() { more <- send(ann) }()
	select {
	case <-entered:
		t.Fatal("one more of the same user is let in")
	case code := <-more:
		if code != http.StatusTooManyRequests {
			t.Errorf("one more of the same user: %d, want 429", code)
		}
	}
	go func() { codes <- send(bob) }()
	select {
	case <-entered:
	case code := <-codes:
		t.Errorf("another user: %d", code)
		go func() { codes <- code }()
	}
	open()
	for range uploadsEach + 1 {
		if code := <-codes; code != http.StatusCreated {
			t.Errorf("status %d, want 201", code)
		}
	}

	for range streamsEach {
		if _, _, err := s.streams.join("/api/limits", "user ann"); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := s.streams.join("/api/limits", "user ann"); !errors.Is(err, errBusy) {
		t.Errorf("one more stream of the same user: %v, want %v", err, errBusy)
	}
	if _, _, err := s.streams.join("/api/limits", "user bob"); err != nil {
		t.Errorf("a stream of another user: %v", err)
	}
}

// A sender that makes no progress loses its place.
func TestSlowUploadsEnd(t *testing.T) {
	t.Parallel()
	s := New(Config{Actions: &acts{}, MaxUpload: 1000, Submit: func(context.Context, Received) (Receipt, error) {
		return Receipt{ID: "ev-1", Created: true}, nil
	}})
	s.pace = 50 * time.Millisecond
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	for range uploadsEach + 1 {
		client, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() }) // before the server, which waits for its requests
		_, err = fmt.Fprintf(client, "POST /api/evaluations?file=a HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: %s\r\nContent-Length: 1000\r\n\r\n{", upload.JSON)
		_ = client.SetReadDeadline(time.Now().Add(time.Minute)) // instead of hanging
		answer := make([]byte, 100)
		n, readErr := client.Read(answer)
		if !strings.HasPrefix(string(answer[:n]), "HTTP/1.1 408 ") {
			t.Fatalf("got %q, %v, want status 408", answer[:n], errors.Join(err, readErr))
		}
		client.Close()
	}
	if w := post(s, "file=a", upload.JSON, aSubmission); w.Code != http.StatusCreated {
		t.Errorf("a submission afterwards: %d %s", w.Code, w.Body)
	}
}

// deadlines records them.
type deadlines struct {
	http.ResponseWriter
	set int
}

func (d *deadlines) SetReadDeadline(time.Time) error {
	d.set++
	return nil
}

// Only progress renews the deadline, not every byte.
func TestProgressRenewsTheDeadline(t *testing.T) {
	t.Parallel()
	wire := &deadlines{}
	body := &pacedBody{ReadCloser: http.NoBody, wire: http.NewResponseController(wire), time: time.Second}
	read := func(n int) {
		body.ReadCloser = nopCloser{strings.NewReader(strings.Repeat("x", n))}
		if _, err := body.Read(make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		read(1)
	}
	if wire.set != 1 {
		t.Errorf("100 bytes set %d deadlines, want 1", wire.set)
	}
	read(paceBytes)
	read(1)
	if wire.set != 2 {
		t.Errorf("progress set %d deadlines, want 2", wire.set)
	}
}

type nopCloser struct{ *strings.Reader }

func (nopCloser) Close() error { return nil }

// Submitters learn no path of the server.
func TestAnswersHaveNoPathOfThisMachine(t *testing.T) {
	t.Parallel()
	var folder string
	outcomes := []func(Received) (Receipt, error){
		func(s Received) (Receipt, error) {
			_, err := os.Open(filepath.Join(s.Folder, "missing"))
			return Receipt{}, err
		},
		func(s Received) (Receipt, error) {
			return Receipt{}, fmt.Errorf("cannot read the folder %q or %s", s.Folder, s.Folder)
		},
		func(s Received) (Receipt, error) {
			at := filepath.Join(s.Folder, "a")
			return Receipt{}, &InvalidError{Text: at, Problems: []Problem{{File: at, Path: at, Message: at, Fix: at}}}
		},
		func(s Received) (Receipt, error) {
			return Receipt{Warnings: []string{"see " + filepath.Join(s.Folder, "a") + " in " + s.Folder}}, nil
		},
	}
	for i, outcome := range outcomes {
		s := New(Config{Actions: &acts{}, MaxUpload: 1000, Submit: func(_ context.Context, sent Received) (Receipt, error) {
			folder = sent.Folder
			return outcome(sent)
		}})
		w := post(s, "file=a", upload.JSON, aSubmission)
		if body := w.Body.String(); strings.Contains(body, filepath.Dir(folder)) || strings.Contains(body, "evalfleet-upload") {
			t.Errorf("outcome %d: %s", i, body)
		}
	}
}

// A temporary folder that cannot be used is no fault of the sender, and is not named.
func TestNoTemporaryFolder(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	s := New(Config{Actions: &acts{}, MaxUpload: 1000, Submit: func(context.Context, Received) (Receipt, error) { return Receipt{}, nil }})
	if w := post(s, "file=a", upload.JSON, aSubmission); w.Code != http.StatusInsufficientStorage || strings.Contains(w.Body.String(), "missing") {
		t.Errorf("got %d %s, want 507 and no path", w.Code, w.Body)
	}
}

// A wrong password takes as long for every name, whatever the cost of its hash, and for names that
// do not exist.
func TestCostsTellNoNames(t *testing.T) {
	t.Parallel()
	var file strings.Builder
	for name, cost := range map[string]int{"cheap": 4, "middle": 6, "dear": 7} {
		hash, err := bcrypt.GenerateFromPassword([]byte("secret"), cost)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&file, "%s:%s\n", name, hash)
	}
	path := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := OpenAccounts(path)
	if err != nil {
		t.Fatal(err)
	}
	work := 0
	a.compare = func(hash, password []byte) error {
		cost, err := bcrypt.Cost(hash)
		if err != nil {
			t.Error(err)
		}
		work += 1 << cost
		err = bcrypt.CompareHashAndPassword(hash, password)
		if err != nil && !errors.Is(err, bcrypt.ErrMismatchedHashAndPassword) {
			t.Errorf("not compared: %v", err)
		}
		return err
	}
	for _, name := range []string{"cheap", "middle", "dear", "nobody"} {
		work = 0
		if _, right, err := a.right(t.Context(), name, name, "wrong"); right || err != nil {
			t.Errorf("%s: right %v, %v", name, right, err)
		}
		if work != 1<<7 {
			t.Errorf("refusing %s takes %d rounds, want %d", name, work, 1<<7)
		}
	}
}
