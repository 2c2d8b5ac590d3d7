package results

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
)

// Every run is counted where it belongs, and every call once, also those of a
// discarded generation and of runs that have not ended.
func testProgress(t *testing.T, url string) {
	ctx := context.Background()
	db, e := openStore(t, url)
	lenient := verdict(2)
	lenient.Run.Judge = "lenient"
	cancelled := verdict(3)
	cancelled.Run.State, cancelled.Run.Started, cancelled.Run.Ended, cancelled.Calls = "cancelled", time.Time{}, time.Time{}, nil
	mustAppend(t, db, e.ID, verdict(0), verdict(5), failure(1, 0), failure(1, 1), lenient, cancelled, scores(1),
		record.Entry{Calls: []record.Call{call(1, 9, 0, 1, func(c *record.Call) { c.Class, c.MaybeBill = "timeout", true })}})
	got, err := db.Progress(ctx, e.ID)
	want := []Progress{
		{Phase: 0, Judge: "strict", Succeeded: 1, First: epoch.Add(time.Second), Last: epoch.Add(2 * time.Second),
			Used: Usage{Calls: 1, Input: 500, Output: 60, Unpriced: 1}},
		{Phase: 1, Judge: "lenient", Succeeded: 1, First: epoch.Add(2 * time.Second), Last: epoch.Add(3 * time.Second),
			Used: Usage{Calls: 1, Input: 900, Output: 40, CostUSD: 0.25}},
		{Phase: 1, Judge: "strict", Succeeded: 2, Failed: 1, Cancelled: 1, First: epoch, Last: epoch.Add(6 * time.Second),
			Used: Usage{Calls: 4, Input: 1800, Output: 80, Unreported: 2, CostUSD: 0.5, Unpriced: 2}},
		{Phase: 1, Judge: "", Used: Usage{Calls: 1, Unreported: 1, Unpriced: 1}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("progress: %v (-want +got):\n%s", err, diff)
	}
	if none, err := db.Progress(ctx, "ev-abcdefgh2345"); len(none) != 0 || err != nil {
		t.Errorf("progress of an unknown evaluation: %v, %v; want none", none, err)
	}
}
