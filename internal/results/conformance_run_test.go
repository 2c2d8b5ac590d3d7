package results

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

func testOneRun(t *testing.T, url string) {
	ctx := context.Background()
	db, e := openStore(t, url)
	entry := verdict(1)
	entry.Run.Degree, entry.Run.Chances = 2, &eval.Chances{First: 0.625, Tie: 0.125, Second: 0.25}
	entry.Run.Criteria = []record.Preference{{Criterion: "__proto__", Winner: "a.md", Degree: 1}, {Criterion: `a "b" \x00ü`, Winner: eval.Tie}}
	entry.Calls = append(entry.Calls,
		call(1, 1, 0, 2, func(c *record.Call) {
			c.Asked = epoch.Add(-time.Second) // asked for first
			c.BoundBy, c.Class, c.Status, c.Error = "provider/openai/concurrency", "rate_limited", 429, "slow down"
			c.MaybeBill, c.RequestID = true, "req_1"
		}),
		call(1, 1, 0, 3, func(c *record.Call) {
			c.Asked = epoch.Add(time.Hour)
			c.Stage, c.Status, c.Text, c.Finish = "repair", 200, "once more", "stop"
			c.Usage.Reported, c.Usage.Input, c.Usage.Cached, c.Usage.Reasoning = true, 10, 3, 2
		}))
	mustAppend(t, db, e.ID, verdict(0), entry, scores(2), failure(11, 0))
	inOrder := []record.Call{entry.Calls[1], entry.Calls[0], entry.Calls[2]}

	id := eval.RunID{Evaluation: e.ID, Phase: 1, Index: 1}
	if diff := cmp.Diff(inOrder, mustCollect(t, db.Calls(ctx, id))); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	for _, c := range []struct {
		phase, index int
		want         *record.Run
		calls        int
	}{
		{1, 1, entry.Run, 3},
		{1, 11, failure(11, 0).Run, 1},
		{0, 2, scores(2).Run, 1},
		{0, 1, nil, 0},
		{1, 2, nil, 0}, // of the other phase
	} {
		id := eval.RunID{Evaluation: e.ID, Phase: c.phase, Index: c.index}
		got, found, err := db.Run(ctx, id)
		if err != nil || found != (c.want != nil) {
			t.Errorf("run %s: found %t, %v; want %t", id.Short(), found, err, c.want != nil)
			continue
		}
		if calls := mustCollect(t, db.Calls(ctx, id)); len(calls) != c.calls || found && got.Used.Calls != c.calls {
			t.Errorf("run %s: %d calls and %d counted, want %d", id.Short(), len(calls), got.Used.Calls, c.calls)
		}
		if !found {
			continue
		}
		want := *c.want
		if want.Scores != nil { // by criterion
			want.Scores = []record.Score{want.Scores[1], want.Scores[0]}
		}
		if diff := cmp.Diff(want, got.Run); diff != "" {
			t.Errorf("run %s (-want +got):\n%s", id.Short(), diff)
		}
	}
	other := eval.RunID{Evaluation: "ev-abcdefgh2345", Phase: 1, Index: 1}
	if _, found, err := db.Run(ctx, other); found || err != nil {
		t.Errorf("run of an unknown evaluation: found %t, %v; want nothing", found, err)
	}
	if calls := mustCollect(t, db.Calls(ctx, other)); len(calls) != 0 {
		t.Errorf("calls of an unknown evaluation: %v, want none", calls)
	}
}

func testWaits(t *testing.T, url string) {
	ctx := context.Background()
	db, e := openStore(t, url)
	waited := func(index int, limit string, wait time.Duration) record.Entry {
		return record.Entry{Calls: []record.Call{call(1, index, 0, 1, func(c *record.Call) {
			c.BoundBy, c.Started = limit, c.Asked.Add(wait)
		})}}
	}
	mustAppend(t, db, e.ID,
		waited(0, "", 3*time.Millisecond),
		waited(1, "provider/openai/concurrency", 1500*time.Millisecond),
		waited(2, "provider/openai/concurrency", 26*time.Hour),
		waited(3, "fleet/requests/1m0s", 999*time.Millisecond),
		waited(4, "provider/openai/concurrency", 0))
	got, err := db.Waits(ctx, e.ID)
	want := []Wait{
		{Limit: "provider/openai/concurrency", Calls: 3, Total: 26*time.Hour + 1500*time.Millisecond},
		{Limit: "", Calls: 1, Total: 3 * time.Millisecond},
		{Limit: "fleet/requests/1m0s", Calls: 1, Total: 999 * time.Millisecond},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("waits: %v (-want +got):\n%s", err, diff)
	}
	if none, err := db.Waits(ctx, "ev-abcdefgh2345"); len(none) != 0 || err != nil {
		t.Errorf("waits of an unknown evaluation: %v, %v; want none", none, err)
	}
}

func testPace(t *testing.T, url string) {
	ctx := context.Background()
	db, e := openStore(t, url)
	// Each begins its index in seconds after epoch, and takes one.
	mustAppend(t, db, e.ID, scores(0), verdict(0), failure(1, 0), verdict(7))
	for _, c := range []struct {
		since time.Time
		want  []Pace
	}{
		{time.Time{}, []Pace{{0, 1, epoch, epoch.Add(time.Second)}, {1, 3, epoch, epoch.Add(8 * time.Second)}}},
		{epoch.Add(2 * time.Second), []Pace{{1, 2, epoch.Add(2 * time.Second), epoch.Add(8 * time.Second)}}},
		{epoch.Add(2*time.Second + time.Millisecond), []Pace{{1, 1, epoch.Add(2*time.Second + time.Millisecond), epoch.Add(8 * time.Second)}}},
		{epoch.Add(time.Hour), nil},
	} {
		got, err := db.Pace(ctx, e.ID, c.since)
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("pace since %v: %v (-want +got):\n%s", c.since, err, diff)
		}
	}
}
