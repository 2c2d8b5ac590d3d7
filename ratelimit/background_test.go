package ratelimit

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A background call keeps its slot when the process that began it is gone, gives
// it back once when any process ends it, and at its latest end by itself.
func TestBackgroundCallsKeepTheirSlots(t *testing.T) {
	everywhere(t, func(t *testing.T, connect func() *redis.Client) {
		client := connect()
		window := tokens(1000, time.Minute, 0)
		register(t, client, "fleet", inFlight(Scope{}, 2), window)
		a, b := start(t, connect(), "a", short), start(t, connect(), "b", short)
		begin := func(call string, latest time.Duration) {
			lease, err := a.Acquire(t.Context(), Request{ID: newID(), Call: openai, Input: 200})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := lease.Background(t.Context(), call, latest); err != nil && !errors.Is(err, ErrLost) {
					t.Fatal(err)
				}
			}
			if err := lease.Check(); !errors.Is(err, ErrLost) {
				t.Errorf("Check of a lease that was handed over = %v, want ErrLost", err)
			}
		}
		used := func() (leases, tokens int) {
			usage, err := tools(client).Usage(t.Context())
			if err != nil || len(usage) != 2 {
				t.Fatalf("Usage = %v, %v", usage, err)
			}
			return usage[0].InUse, usage[1].InUse
		}
		begin("resp_1", time.Hour)
		begin("resp_2", 2*shortLease)
		if err := a.stop(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(shortLease + shortLease/2)
		if leases, tokens := used(); leases != 2 || tokens != 400 {
			t.Errorf("%d leases and %d tokens in use a while after the process ended, want 2 and 400", leases, tokens)
		}
		for range 2 {
			if err := b.EndBackground(t.Context(), "resp_1", &Used{Input: 40, Output: 10}); err != nil {
				t.Fatal(err)
			}
		}
		if leases, tokens := used(); leases != 1 || tokens != 250 {
			t.Errorf("%d leases and %d tokens in use after one call ended with 50, want 1 and 250", leases, tokens)
		}
		one, two := mustAcquire(t, b, newID(), openai), mustAcquire(t, b, newID(), openai)
		if two.Waited() > 2*shortLease {
			t.Errorf("the slot of a call past its latest end came back after %s", two.Waited())
		}
		mustRelease(t, one)
		mustRelease(t, two)
	})
}
