package results

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/internal/record"
)

func testCallsBegun(t *testing.T, url string) {
	ctx := context.Background()
	sink, e := openSink(t, url)
	if last, err := sink.LastCall(ctx); !last.IsZero() || err != nil {
		t.Errorf("LastCall without calls = %v, %v; want none", last, err)
	}
	began := func(n int, model string, at time.Duration) record.Call {
		return call(1, 0, 0, n, func(c *record.Call) { c.Model, c.Started = model, epoch.Add(at) })
	}
	mustAppend(t, sink, e.ID, record.Entry{Calls: []record.Call{
		began(1, "a:x", -time.Millisecond), began(2, "a:x", 0), began(3, "a:x", time.Hour), began(4, "b:y", time.Minute),
		began(5, "b:y", 2*time.Hour),
	}})
	got, err := sink.CallsBegun(ctx, epoch, epoch.Add(2*time.Hour))
	if diff := cmp.Diff(map[string]int64{"a:x": 2, "b:y": 1}, got); err != nil || diff != "" {
		t.Errorf("CallsBegun: %v (-want +got):\n%s", err, diff)
	}
	if last, err := sink.LastCall(ctx); !last.Equal(epoch.Add(2*time.Hour)) || err != nil {
		t.Errorf("LastCall = %v, %v; want %v", last, err, epoch.Add(2*time.Hour))
	}
}
