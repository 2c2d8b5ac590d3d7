package call

import (
	"context"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// flight is a call in flight: what a handler that panics must release and record.
type flight struct {
	call  *record.Call
	lease *ratelimit.Lease
	began time.Time // on this process's own clock
}

// Land ends the call that a panic has interrupted, if there is one.
func (c *Calls) Land(cause error) {
	c.freeSlot()
	f := c.flight
	if f == nil {
		return
	}
	c.flight = nil
	f.lease.GiveUp(AbandonedKeep, false)
	if job := c.run.Progress.Job; job != nil && job.Call.ID == f.call.ID {
		return // it continues at the provider
	}
	call := *f.call
	call.Ended, call.Class, call.Error, call.MaybeBill = c.run.Now().UTC(), providers.Lost, cause.Error(), true
	c.run.Progress.Attempts++
	c.run.Add(call)
}

// landUnused releases what a call holds that was not sent.
func (c *Calls) landUnused(ctx context.Context) {
	_ = c.flight.lease.Release(context.WithoutCancel(ctx)) // expires by itself where that fails
	c.flight = nil
	c.freeSlot()
}

// freeSlot releases the slot of this process that the run has, if it has one.
func (c *Calls) freeSlot() {
	if c.slot {
		c.slot = false
		c.by.slots.Release(1)
	}
}
