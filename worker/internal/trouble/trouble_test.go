package trouble

import (
	"testing"
	"time"

	"github.com/rs/zerolog"

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
