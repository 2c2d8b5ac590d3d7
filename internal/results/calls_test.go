package results

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
)

func testCallsBegun(t *testing.T, url string) {
	ctx := context.Background()
	db, e := openStore(t, url)
	if last, err := db.LastCall(ctx); !last.IsZero() || err != nil {
		t.Errorf("LastCall without calls = %v, %v; want none", last, err)
	}
	began := func(n int, model string, at time.Duration) record.Call {
		return call(1, 0, 0, n, func(c *record.Call) { c.Model, c.Started = model, epoch.Add(at) })
	}
	mustAppend(t, db, e.ID, record.Entry{Calls: []record.Call{
		began(1, "a:x", -time.Millisecond), began(2, "a:x", 0), began(3, "a:x", time.Hour), began(4, "b:y", time.Minute),
		began(5, "b:y", 2*time.Hour),
		call(1, 0, 0, 6, func(c *record.Call) { c.Model, c.Account, c.Started = "a:x", "a/eu", epoch }),
	}})
	for _, test := range []struct {
		without []string
		want    map[string]int64
	}{
		{nil, map[string]int64{"a:x": 2, "a/eu:x": 1, "b:y": 1}},
		{[]string{string(e.ID) + "." + began(3, "", 0).ID, string(e.ID) + "." + began(5, "", 0).ID, "ev-other." + began(4, "", 0).ID}, map[string]int64{"a:x": 1, "a/eu:x": 1, "b:y": 1}},
	} {
		got, err := db.CallsBegun(ctx, epoch, epoch.Add(2*time.Hour), test.without)
		if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
			t.Errorf("CallsBegun without %q: %v (-want +got):\n%s", test.without, err, diff)
		}
	}
	for at, want := range map[time.Time]bool{epoch: true, epoch.Add(-time.Millisecond): false} {
		if called, err := db.CalledBefore(ctx, at); called != want || err != nil {
			t.Errorf("CalledBefore(%s) = %t, %v; want %t", at, called, err, want)
		}
	}
	names := []string{"none", began(2, "", 0).ID, began(4, "", 0).ID}
	for range callsAtOnce {
		names = append(names, "none")
	}
	recorded, err := db.Recorded(ctx, e.ID, append(names, began(5, "", 0).ID))
	slices.Sort(recorded)
	if want := []string{began(2, "", 0).ID, began(4, "", 0).ID, began(5, "", 0).ID}; err != nil || !slices.Equal(recorded, want) {
		t.Errorf("Recorded = %v, %v; want %v", recorded, err, want)
	}
	if other, err := db.Recorded(ctx, "ev-other", names); len(other) > 0 || err != nil {
		t.Errorf("Recorded of another evaluation = %v, %v; want none", other, err)
	}
	if last, err := db.LastCall(ctx); !last.Equal(epoch.Add(2*time.Hour)) || err != nil {
		t.Errorf("LastCall = %v, %v; want %v", last, err, epoch.Add(2*time.Hour))
	}
}

// The possible cost of a call replaces an unknown cost, and a call without any known cost is
// never 0.
func testSpent(t *testing.T, url string) {
	ctx := context.Background()
	db, e := openStore(t, url)
	if nano, unknown, err := db.Spent(ctx, e.ID); nano != 0 || unknown != 0 || err != nil {
		t.Errorf("Spent without calls = %d, %d, %v; want nothing", nano, unknown, err)
	}
	usd := func(f float64) *float64 { return &f }
	price := &providers.Price{Rates: providers.Rates{Input: 0.25, CachedInput: usd(0.025), Output: 2}}
	calls := []record.Call{
		call(1, 0, 0, 1, func(c *record.Call) {
			c.Usage.CostUSD, c.Price = usd(0.1), price
			c.Usage.Reported, c.Usage.Input, c.Usage.Cached, c.Usage.Written = true, 900, 500, 100
		}),
		call(1, 0, 0, 2, func(c *record.Call) { c.Usage.CostUSD = usd(0.000000201) }),
		call(1, 0, 0, 3, func(c *record.Call) { c.Class, c.MaybeBill, c.MostUSD = "timeout", true, usd(0.2) }),
		call(1, 0, 0, 4, func(c *record.Call) { c.Class = "rate_limited" }),
		call(1, 0, 0, 5, func(c *record.Call) { c.Class, c.MaybeBill = "timeout", true }),
		call(1, 0, 0, 6, func(c *record.Call) {
			c.Grounding = &providers.Grounding{Searches: 2, Queries: []string{"q"}, Sources: []providers.Source{{URL: "https://example.org", Title: "t"}}}
			c.Reasoning = "first this, then that"
		}),
	}
	for i := range calls[3:] {
		calls[3+i].Usage.CostUSD = nil
	}
	mustAppend(t, db, e.ID, record.Entry{Calls: calls})
	nano, unknown, err := db.Spent(ctx, e.ID)
	if nano != 300_000_201 || unknown != 2 || err != nil {
		t.Errorf("Spent = %d, %d unknown, %v; want 300000201, 2 unknown", nano, unknown, err)
	}
	without := []string{string(e.ID) + "." + calls[0].ID, string(e.ID) + "." + calls[4].ID, "ev-other." + calls[1].ID}
	nano, unknown, err = db.Spent(ctx, e.ID, without...)
	if nano != 200_000_201 || unknown != 1 || err != nil {
		t.Errorf("Spent without %q = %d, %d unknown, %v; want 200000201, 1 unknown", without, nano, unknown, err)
	}
	var got []record.Call
	for c, err := range db.Calls(ctx, eval.RunID{Evaluation: e.ID, Phase: calls[0].Phase, Index: calls[0].Index}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, c)
	}
	if diff := cmp.Diff(calls, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// An answer stays, and what it cost, although another worker says later that it has cancelled the job; if it says so first,
// the answer replaces that.
func testAnsweredAndCancelled(t *testing.T, url string) {
	ctx := context.Background()
	db, e := openStore(t, url)
	cost, most := 0.25, 1.0
	of := func(n int) (answered, cancelled record.Call) {
		answered = call(1, 0, 0, n, func(c *record.Call) { c.Usage.CostUSD = &cost })
		cancelled = call(1, 0, 0, n, func(c *record.Call) { c.Class, c.MaybeBill, c.MostUSD = providers.Cancelled, true, &most })
		return answered, cancelled
	}
	first, late := of(1)
	second, early := of(2)
	third, together := of(3)
	mustAppend(t, db, e.ID, record.Entry{Calls: []record.Call{first, early}})
	mustAppend(t, db, e.ID, record.Entry{Calls: []record.Call{late, second}})
	mustAppend(t, db, e.ID, record.Entry{Calls: []record.Call{third, together}})

	if nano, unknown, err := db.Spent(ctx, e.ID); nano != 750_000_000 || unknown != 0 || err != nil {
		t.Errorf("Spent = %d, %d unknown, %v; want 750000000 for three answers", nano, unknown, err)
	}
	got := mustCollect(t, db.Calls(ctx, eval.RunID{Evaluation: e.ID, Phase: 1}))
	if diff := cmp.Diff([]record.Call{first, second, third}, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if totals, err := db.CallTotals(ctx, e.ID); err != nil || len(totals) != 1 || totals[0].Calls != 3 {
		t.Errorf("totals: %+v, %v; want those of three answers", totals, err)
	}
}

// An answer is of use again when its run succeeded with it: not an error, nor what a
// run of the same generation failed with, nor one that was itself found here.
func testAnswered(t *testing.T, url string) {
	ctx := context.Background()
	db, e := openStore(t, url)
	keyed := func(entry record.Entry, key string, change func(*record.Call)) record.Entry {
		entry.Calls[0].Key = key
		if change != nil {
			change(&entry.Calls[0])
		}
		return entry
	}
	none := func(key string) {
		t.Helper()
		if got, found, err := db.Answered(ctx, key); found || err != nil {
			t.Errorf("Answered(%s) = %+v, %v; want nothing", key, got, err)
		}
	}
	none("good")
	good := keyed(verdict(0), "good", nil)
	later := keyed(verdict(1), "good", func(c *record.Call) { c.Text = "later" })
	found := keyed(verdict(2), "found", func(c *record.Call) { c.Cached = true })
	failed := keyed(failure(3, 0), "malformed", func(c *record.Call) { c.Class, c.Error, c.Text = "", "", "no verdict" })
	refused := keyed(verdict(4), "refused", func(c *record.Call) { c.Class = "rate_limited" })
	unkeyed := verdict(5)
	mustAppend(t, db, e.ID, later, good, found, failed, refused, unkeyed)
	for _, key := range []string{"found", "malformed", "refused", "other", ""} {
		none(key)
	}
	got, ok, err := db.Answered(ctx, "good")
	if diff := cmp.Diff(good.Calls[0], got); diff != "" || !ok || err != nil {
		t.Errorf("Answered(good): found %t, %v (-want +got):\n%s", ok, err, diff)
	}
	// Retried successfully, the run has an answer; the generation that failed still has none.
	again := keyed(verdict(3), "again", nil)
	again.Run.Generation, again.Calls[0].Generation = 1, 1
	again.Calls[0].ID = "1.3.1-w7k2p9qa-1"
	mustAppend(t, db, e.ID, again)
	none("malformed")
	if _, ok, err := db.Answered(ctx, "again"); !ok || err != nil {
		t.Errorf("Answered(again): found %t, %v; want the answer of the second generation", ok, err)
	}
	waits, err := db.Waits(ctx, e.ID)
	if err != nil || len(waits) != 1 || waits[0].Calls != 6 {
		t.Errorf("Waits = %+v, %v; want the 6 calls that were made", waits, err)
	}
	totals, err := db.CallTotals(ctx, e.ID)
	if err != nil || len(totals) != 1 || totals[0].Calls != 6 || totals[0].FromCache != 1 {
		t.Errorf("CallTotals = %+v, %v; want 6 calls, and 1 that was answered before", totals, err)
	}
}
