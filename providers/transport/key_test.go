package transport

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/evalfleet/evalfleet/providers"
)

// rotation is Keys whose key changes when it is refused, as often as there are further ones.
type rotation struct {
	mu   sync.Mutex
	keys []string
}

func (r *rotation) Key() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keys[0]
}

func (r *rotation) Renew(_ context.Context, refused string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.keys) > 1 && r.keys[0] == refused {
		r.keys = r.keys[1:]
	}
	return r.keys[0] != refused
}

// keyed is an endpoint with Keys at a server that accepts one key, and the keys in the order in which it got them.
func keyed(t *testing.T, accepted string, keys ...string) (*Endpoint, func() []string) {
	t.Helper()
	var mu sync.Mutex
	var got []string
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Header.Get("X-Key"))
		if r.Header.Get("X-Key") != accepted {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":{"message":"no such key: `+r.Header.Get("X-Key")+`"}}`)
		}
	})
	client := NewClient(Connections{Slots: 1})
	t.Cleanup(client.CloseIdleConnections)
	e, err := Open(Config{BaseURL: server.URL, HTTPClient: client, KeyHeader: "X-Key", Keys: &rotation{keys: keys}}, "Authorization")
	if err != nil {
		t.Fatal(err)
	}
	return e, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return got
	}
}

// A call whose key was refused is to be repeated if there is another key, and says nothing about the account.
func TestRefusedKeyIsRenewed(t *testing.T) {
	t.Parallel()
	const before, after = "sk-before-0123456789", "sk-after-0123456789"
	e, got := keyed(t, after, before, after)
	call := func() error {
		x, err := e.Begin(&providers.Request{Model: "m", Key: "sk-of-the-request"}, "m")
		if err != nil {
			t.Fatal(err)
		}
		_, err = x.Post(t.Context(), "chat", map[string]any{})
		return err
	}

	var failed *providers.Error
	err := call()
	if !errors.Is(err, providers.ErrAgain) || !errors.As(err, &failed) || failed.Class != providers.Transient || failed.MayBeBilled {
		t.Errorf("a key that is refused, with another one at hand: got %+v, want ErrAgain, transient and free", err)
	}
	if strings.Contains(failed.Error()+string(failed.Raw), before) {
		t.Errorf("the refused key is in the error: %s, %s", failed, failed.Raw)
	}
	if err := call(); err != nil {
		t.Errorf("the second call: %v", err)
	}
	if want := []string{before, after}; !slices.Equal(got(), want) {
		t.Errorf("got keys %q, want %q", got(), want)
	}
}

// Without another key, the refusal is that of the account.
func TestRefusedKeyWithoutAnother(t *testing.T) {
	t.Parallel()
	e, got := keyed(t, "another", "sk-only-0123456789")
	_, err := e.Send(t.Context(), Post{Path: "batches", Body: []byte("{}")})
	if errors.Is(err, providers.ErrAgain) || providers.ClassOf(err) != providers.Auth || len(got()) != 1 {
		t.Errorf("got %v after keys %q, want a refusal of one request", err, got())
	}
}

// Requests that are no calls are sent once more themselves, and only once.
func TestSendRepeatsWithAnotherKey(t *testing.T) {
	t.Parallel()
	for what, ask := range map[string]func(*Endpoint) error{
		"Send": func(e *Endpoint) error {
			_, err := e.Send(t.Context(), Post{Path: "batches", Body: []byte("{}")})
			return err
		},
		"Stream": func(e *Endpoint) error {
			return e.Stream(t.Context(), Post{Path: "batches", Body: []byte("{}")}, func(io.Reader, *Answer) error { return nil })
		},
	} {
		e, got := keyed(t, "b", "a", "b")
		if err := ask(e); err != nil || !slices.Equal(got(), []string{"a", "b"}) {
			t.Errorf("%s: got %v after keys %q, want success with the second", what, err, got())
		}
		e, got = keyed(t, "d", "a", "b", "c", "d")
		if err := ask(e); err == nil || len(got()) != 2 {
			t.Errorf("%s: got %v after keys %q, want a failure of two requests", what, err, got())
		}
	}
}

// A key that cannot be in a header is refused before anything is sent.
func TestKeyOutsideOfAHeader(t *testing.T) {
	t.Parallel()
	e, got := keyed(t, "", "sk\nx")
	_, err := e.Send(t.Context(), Post{Path: "batches"})
	if providers.ClassOf(err) != providers.Auth || !errors.Is(err, ErrKey) || len(got()) != 0 {
		t.Errorf("got %v after %d requests, want ErrKey of class auth, and none", err, len(got()))
	}
}
