package results

import (
	"context"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/providers"
)

// Failed calls, which often end at once, take no part in the median, and a slow
// one does not move it.
func testMedianLatency(t *testing.T, url string) {
	ctx := context.Background()
	db, e := openStore(t, url)
	if got, err := db.MedianLatency(ctx, e.ID); got != 0 || err != nil {
		t.Errorf("without calls: got %v, %v, want 0", got, err)
	}
	took := func(n int, length time.Duration, class providers.Class) record.Call {
		return call(1, 0, 0, n, func(c *record.Call) { c.Class, c.Ended = class, c.Started.Add(length) })
	}
	const failed = providers.RateLimited
	mustAppend(t, db, e.ID, record.Entry{Calls: []record.Call{
		took(1, 0, failed), took(2, 0, failed), took(3, 0, failed), took(4, 0, failed),
		took(5, 250*time.Millisecond, ""), took(6, 1234*time.Millisecond, ""), took(7, time.Minute, ""),
	}})
	if got, err := db.MedianLatency(ctx, e.ID); got != 1234*time.Millisecond || err != nil {
		t.Errorf("got %v, %v, want 1.234s", got, err)
	}
}
