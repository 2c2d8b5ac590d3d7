package results

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/providers"
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

// What calls used and how long they took is summed by judge and by the run's name; how long a failed call took does not
// count.
func testOutlays(t *testing.T, url string) {
	ctx := context.Background()
	db, e := openStore(t, url)
	took := func(n, index int, length time.Duration, class providers.Class) record.Call {
		return call(1, index, 0, n, func(c *record.Call) { c.Class, c.Ended = class, c.Started.Add(length) })
	}
	strict, lenient := verdict(0), verdict(2)
	lenient.Run.Judge = "lenient"
	strict.Calls = []record.Call{took(1, 0, time.Second, ""), took(2, 0, 3*time.Second, ""), took(3, 0, time.Minute, providers.Timeout)}
	lenient.Calls = []record.Call{took(1, 2, 500*time.Millisecond, "")}
	mustAppend(t, db, e.ID, strict, lenient)

	got, err := db.OutlaysByJudge(ctx, e.ID)
	want := []Took{{1, .5, .25}, {2, 4, 10}}
	if err != nil || len(got) != 2 || got[0].Of != "lenient" || got[1].Of != "strict" || got[1].Used.Calls != 3 {
		t.Fatalf("by judge: %+v, %v", got, err)
	}
	for k, of := range got {
		if diff := cmp.Diff(want[k], of.Took, cmpopts.EquateApprox(0, 1e-6)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", of.Of, diff)
		}
	}
	if mean, se := got[1].Took.Mean(); math.Abs(mean-2) > 1e-6 || math.Abs(se-1) > 1e-6 {
		t.Errorf("mean %v ± %v, want 2 ± 1", mean, se)
	}
	if byName, err := db.OutlaysByName(ctx, e.ID); err != nil || len(byName) == 0 {
		t.Errorf("by name: %+v, %v", byName, err)
	}
}
