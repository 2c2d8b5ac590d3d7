package enqueue

import (
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// TestEndedEarlyHoldsNothing: an evaluation whose best candidates are known keeps its record,
// but no limits and no tasks, and takes up where it was when it is resumed. One that a person
// paused keeps its limits.
func TestEndedEarlyHoldsNothing(t *testing.T) {
	t.Parallel()
	for why, holds := range map[string]bool{record.StoppedByUntil: false, "": true, record.StoppedByBudget: true} {
		t.Run("stopped by "+why, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			receipt := b.submit(submission("early", 5))
			topUp := b.topUp(b.store)
			pending := func() int64 { return b.store.Client().LLen(t.Context(), "asynq:{p}:pending").Val() }
			tick := func() {
				t.Helper()
				if err := topUp.Tick(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			b.limits.of[string(receipt.ID)] = []ratelimit.Limit{{}}
			if _, err := b.store.Pause(t.Context(), receipt.ID, why); err != nil {
				t.Fatal(err)
			}
			tick() // workers may still wait under its limits
			if len(b.limits.of) != 1 || pending() == 0 {
				t.Fatalf("at once: limits %v, %d tasks", b.limits.of, pending())
			}
			topUp.dropped[receipt.ID] = time.Now().Add(-unpinAfter)
			tick()
			active, err := b.store.IsActive(t.Context(), receipt.ID)
			if err != nil || active != holds || (len(b.limits.of) == 1) != holds || (pending() > 0) != holds {
				t.Errorf("active %t, %v, limits %v, %d tasks; want %t", active, err, b.limits.of, pending(), holds)
			}
			q := &Enqueuer{Store: b.store, Limits: b.limits, Log: topUp.log}
			if status, err := q.Resume(t.Context(), receipt.ID); err != nil || status != record.StatusActive {
				t.Fatalf("Resume = %s, %v", status, err)
			}
			if len(b.limits.of) != 1 || pending() == 0 {
				t.Errorf("resumed: limits %v, %d tasks", b.limits.of, pending())
			}
		})
	}
}
