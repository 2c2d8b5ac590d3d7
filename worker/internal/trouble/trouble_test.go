package trouble

import (
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// A queue that was held back is pulled from again although its provider's trouble ended while the
// queue was not served.
func TestHeldQueueComesBack(t *testing.T) {
	held := map[string]int{}
	troubles := New(nil, zerolog.Nop(), func(queue string, most int) { held[queue] = most }, func(string) {})
	p := troubles.target(ratelimit.Scope{Provider: "p"})
	p.own = &own{next: time.Now().Add(time.Hour)}

	troubles.Serve(map[string][]string{"p": {"q", "r"}})
	if held["q"] != 0 || troubles.Serves("q") {
		t.Errorf("%d tasks of a queue may be held in spite of the trouble, want 0", held["q"])
	}
	troubles.Serve(map[string][]string{"p": {"r"}})
	p.own = nil
	troubles.Serve(map[string][]string{"p": {"q", "r"}})
	if held["q"] >= 0 || !troubles.Serves("q") {
		t.Errorf("%d tasks of a queue may be held after the trouble, want any number", held["q"])
	}
}

// Only a provider that does not serve is down. One whose answers are not understood would be waited
// for in vain.
func TestKindOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		class  providers.Class
		status int
		want   Kind
	}{
		{providers.Transient, 500, OfProvider},
		{providers.Transient, 408, OfProvider},
		{providers.Transient, 0, OfProvider},
		{providers.Transient, 200, OfRequest},
		{providers.Overloaded, 529, OfProvider},
		{providers.Timeout, 0, OfProvider},
		{providers.Auth, 401, OfAccount},
		{providers.BadRequest, 400, OfRequest},
		{providers.Cancelled, 0, OfNothing},
	} {
		if got := KindOf(&providers.Error{Class: c.class, Status: c.status}); got != c.want {
			t.Errorf("%s with status %d: kind %d, want %d", c.class, c.status, got, c.want)
		}
	}
}

// With too few descriptors one call succeeds and several do not: the trouble comes back as soon as
// the provider has answered, and calls are tried at growing intervals all the same.
func TestTroubleThatComesBackIsTriedLessOften(t *testing.T) {
	t.Parallel()
	limiter := ratelimit.New(redistest.New(t).Client(), ratelimit.Config{Worker: "w"})
	troubles := New(limiter, zerolog.Nop(), func(string, int) {}, func(string) {})
	failed := Ended{Provider: "p", Model: "m", Failed: &providers.Error{Class: providers.Transient, Message: "too many open files"}}
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		troubles.begin(failed, OfProcess)
		own := troubles.target(ratelimit.Scope{Provider: "p"}).own
		if own.pause() != want {
			t.Errorf("a call is tried after %s, want %s", own.pause(), want)
		}
		troubles.answered(t.Context(), Ended{Provider: "p", Model: "m", Began: time.Now()})
		if len(troubles.Own()) > 0 {
			t.Fatal("the trouble has not ended")
		}
	}
}

// A worker that alone has no answers tries its next call a second later. It does not stop the calls of the others then,
// although they report an answer only now and then.
func TestOwnTroubleStaysItsOwn(t *testing.T) {
	t.Parallel()
	server, scope := redistest.New(t), ratelimit.Scope{Provider: "p", Model: "m"}
	healthy := ratelimit.New(server.Client(), ratelimit.Config{Worker: "healthy"})
	if _, err := healthy.Answered(t.Context(), scope); err != nil {
		t.Fatal(err)
	}
	limiter := ratelimit.New(server.Client(), ratelimit.Config{Worker: "sick"})
	troubles := New(limiter, zerolog.Nop(), func(string, int) {}, func(string) {})
	failed := Ended{
		Provider: "p", Model: "m", Began: time.Now(), Waits: true,
		Failed: &providers.Error{Class: providers.Transient, Status: 502, Message: "Bad Gateway"},
	}
	troubles.begin(failed, OfProvider)
	troubles.target(scope).reported = time.Now()

	if found := troubles.Note(t.Context(), failed); !found.Own || found.Out {
		t.Errorf("the trouble is %+v, want this worker's own", found)
	}
	if out, err := limiter.Suspended(t.Context(), scope); out || err != nil {
		t.Errorf("the calls of all workers wait: %t, %v", out, err)
	}
}
