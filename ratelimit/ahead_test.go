package ratelimit

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// A machine's clock is hours or years ahead while a fleet works, and is corrected by a reboot of
// everything: calls start again after the grace period, and limits hold.
func TestClockThatWasAheadIsCorrected(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	if !redistest.CanSetClock() {
		t.Skip("the clock of a redis-server cannot be set here")
	}
	for what, ahead := range map[string]time.Duration{"two hours": 2 * time.Hour, "three years": 3 * 365 * 24 * time.Hour} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server := redistest.NewClocked(t, nil, "--appendonly", "yes")
			server.SetClock(ahead)
			connect := func() *redis.Client {
				return server.Client(func(o *redis.Options) { o.OnConnect = OnConnect("ef", shortLease) })
			}
			pace := rate(1, time.Minute, 1)
			pace.Scope = Scope{Provider: "paced"}
			register(t, server.Client(), "fleet", inFlight(Scope{}, 1), pace)
			client, wire := faulty(connect())
			mustAcquire(t, start(t, client, "a", short), newID(), Scope{Provider: "paced"})

			wire.set(func() { wire.cut = true }) // its machine is gone
			server.Kill()
			server.SetClock(0)
			began := time.Now()
			server.Start()
			b := start(t, connect(), "b", short)
			lease := mustAcquire(t, b, newID(), Scope{Provider: "free"})
			if since := time.Since(began); since < shortLease/2 {
				t.Errorf("a call started %s after Redis had lost writes", since)
			}
			mustRelease(t, lease)
			_, err := b.Acquire(t.Context(), Request{ID: newID(), Call: Scope{Provider: "paced"}, MaxWait: time.Millisecond})
			if refused := refusal(err); refused == nil || refused.Wait <= 0 || refused.Wait > 2*time.Minute {
				t.Errorf("a call under a rate of one a minute: %v, want a wait of about a minute", err)
			}
		})
	}
}
