package results

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// A job is known from its submission until its call has ended or its time is over,
// however often it is told.
func testJobs(t *testing.T, url string) {
	db, e := openStore(t, url)
	submitted := func(name string, c record.Call, left time.Duration) record.Job {
		return record.Job{ID: name, Ends: time.Now().UTC().Add(left).Truncate(time.Microsecond), Call: c, Cost: 7, Lease: ratelimit.Background{
			Limits: []ratelimit.Limit{{Scope: ratelimit.Scope{Provider: "openaidp"}, Kind: ratelimit.Concurrency, Max: 1}}, Start: 5, Cost: 7,
		}}
	}
	open := submitted("open", call(1, 1, 0, 1, func(*record.Call) {}), time.Hour)
	ended := submitted("ended", call(1, 2, 0, 1, func(*record.Call) {}), time.Hour)
	over := submitted("over", call(1, 3, 0, 1, func(*record.Call) {}), -time.Second)
	mustAppend(t, db, e.ID, record.Entry{Job: &open}, record.Entry{Job: &ended}, record.Entry{Job: &over})
	paid := ended.Call
	paid.Class = providers.Cancelled
	mustAppend(t, db, e.ID, record.Entry{Job: &open}, record.Entry{Calls: []record.Call{paid}})
	got, err := db.Jobs(t.Context(), e.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]record.Job{open, over}, got); diff != "" {
		t.Errorf("jobs (-want +got):\n%s", diff)
	}
}
