package store

import (
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
)

// TestClockThatWasAhead: Redis's clock was two hours ahead and is corrected, as by a reboot. A lock
// of before lasts no longer than it would have, and an offer until it is renewed.
func TestClockThatWasAhead(t *testing.T) {
	t.Parallel()
	if !redistest.CanSetClock() {
		t.Skip("needs Linux and a C compiler")
	}
	server := redistest.NewClocked(t, nil)
	server.SetClock(2 * time.Hour)
	s := New(server.Client(), "")
	const life = 10 * time.Minute
	if held, err := s.NewLock("lock", life).Hold(t.Context()); err != nil || !held {
		t.Fatalf("Hold = %t, %v", held, err)
	}
	if err := s.Offer(t.Context(), []string{"p"}, life); err != nil {
		t.Fatal(err)
	}

	server.SetClock(0)
	other := s.NewLock("lock", life)
	if held, err := other.Hold(t.Context()); err != nil || held {
		t.Errorf("another holds the lock: %t, %v", held, err)
	}
	if left := s.client.PTTL(t.Context(), "lock").Val(); left <= 0 || left > life {
		t.Errorf("the lock lasts for another %s, want at most %s", left, life)
	}
	if err := s.Offer(t.Context(), []string{"p"}, life); err != nil {
		t.Fatal(err)
	}
	if names, err := s.Offered(t.Context()); err != nil || len(names) != 1 {
		t.Errorf("Offered = %q, %v; want the one offer", names, err)
	}
	server.SetClock(time.Hour)
	if names, err := s.Offered(t.Context()); err != nil || len(names) != 0 {
		t.Errorf("an hour after its last renewal, Offered = %q, %v", names, err)
	}
}
