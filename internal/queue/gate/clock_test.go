package gate

import (
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
)

// TestDelayedTasksFollowRedisClock: Redis's clock was ahead for two hours, or for years, and is
// corrected, as by a reboot. A task that was delayed for a minute waits no longer than that.
func TestDelayedTasksFollowRedisClock(t *testing.T) {
	t.Parallel()
	if !redistest.CanSetClock() {
		t.Skip("needs Linux and a C compiler")
	}
	for _, ahead := range []time.Duration{2 * time.Hour, 3 * 365 * 24 * time.Hour} {
		server := redistest.NewClocked(t, nil)
		f := newFleet(t, server.Client())
		forward := func(want int) {
			t.Helper()
			if n, err := Forward(t.Context(), f.redis, queueName); err != nil || n != want {
				t.Errorf("%s ahead: forwarded %d, %v; want %d", ahead, n, err, want)
			}
		}
		server.SetClock(ahead)
		now := time.Now().Add(ahead)
		f.put("retried", now.Add(time.Minute), true)
		f.put("scheduled", now.Add(time.Minute), false)
		f.put("later", now.Add(time.Hour), true)
		forward(0)
		server.SetClock(0)
		forward(0)
		server.SetClock(2 * time.Minute)
		forward(2)
		server.SetClock(2 * time.Hour)
		forward(1)
	}
}
