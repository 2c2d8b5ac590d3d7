package ratelimit

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

// A call under a quota is written soon after its grant or not at all: later it could
// be another day.
func TestACallUnderAQuotaIsWrittenSoon(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "fleet", Limit{Scope: Scope{Provider: "openai"}, Kind: Requests, Max: 3, Resets: "UTC"})
		lease := mustAcquire(t, start(t, connect(), "a"), newID(), openai)
		defer mustRelease(t, lease)
		if left := lease.sendBy.sub(lease.limiter.now()); lease.sendBy.isZero() || left > quotaSpread+horizon {
			t.Errorf("the call may be written for another %s, want %s at most", left, quotaSpread)
		}
	})
}
