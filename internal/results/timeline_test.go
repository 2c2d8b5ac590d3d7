package results

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
)

func testTimeline(t *testing.T, url string) {
	ctx := context.Background()
	db, e := openStore(t, url)
	if got, err := db.Timeline(ctx, e.ID, 10); len(got.Periods) != 0 || !got.From.IsZero() || err != nil {
		t.Errorf("without calls: got %+v, %v; want nothing", got, err)
	}
	lasted := func(n int, from, to time.Duration, change func(*record.Call)) record.Call {
		return call(1, 0, 0, n, func(c *record.Call) {
			c.Started, c.Ended = epoch.Add(from), epoch.Add(to)
			change(c)
		})
	}
	bound := func(limit string) func(*record.Call) { return func(c *record.Call) { c.BoundBy = limit } }
	mustAppend(t, db, e.ID, record.Entry{Calls: []record.Call{
		lasted(1, 0, 3500*time.Millisecond, bound("")),
		lasted(2, 250*time.Millisecond, 500*time.Millisecond, bound("fleet/concurrency")),
		lasted(3, 1*time.Second, 2*time.Second, bound("fleet/concurrency")),
		lasted(4, 2500*time.Millisecond, 2500*time.Millisecond, func(c *record.Call) { c.Class = "rate_limited" }),
		lasted(5, time.Hour, 2*time.Hour, func(c *record.Call) { c.Cached = true }), // no call was made
		lasted(6, time.Hour, time.Second, bound("")),                                // Redis's clock was set back
	}})
	got, err := db.Timeline(ctx, e.ID, 4)
	want := Timeline{From: epoch, Width: time.Second, Periods: []Period{
		{Begun: map[string]int{"": 1, "fleet/concurrency": 1}, InFlight: 1.25},
		{Begun: map[string]int{"fleet/concurrency": 1}, InFlight: 2},
		{Begun: map[string]int{"": 1}, InFlight: 1, Failed: 1},
		{Begun: map[string]int{}, InFlight: 0.5},
	}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("timeline: %v (-want +got):\n%s", err, diff)
	}
	if few, err := db.Timeline(ctx, e.ID, 3); err != nil || few.Width != 2*time.Second || len(few.Periods) != 2 {
		t.Errorf("at most 3 periods: got %d of %v, %v; want 2 of 2s", len(few.Periods), few.Width, err)
	}
}

// TestTimelineIsExact: the mean number in flight is that of following every call
// from millisecond to millisecond, in as many periods as were asked for at most.
func TestTimelineIsExact(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		span := time.Duration(1+rng.IntN(3000)) * time.Millisecond
		most := 1 + rng.IntN(40)
		line := newTimeline(epoch, epoch.Add(span), most)
		inFlight := make([]float64, len(line.Periods))
		begun := 0
		for range 100 {
			from := rng.IntN(int(span/time.Millisecond) + 1)
			to := from + rng.IntN(int(span/time.Millisecond)+1-from)
			line.add(epoch.Add(time.Duration(from)*time.Millisecond), epoch.Add(time.Duration(to)*time.Millisecond), "", false)
			for ms := from; ms < to; ms++ {
				inFlight[time.Duration(ms)*time.Millisecond/line.Width] += float64(time.Millisecond) / float64(line.Width)
			}
			begun++
		}
		got := line.finish()
		if len(got.Periods) > most {
			t.Errorf("%v in at most %d: got %d periods of %v", span, most, len(got.Periods), got.Width)
		}
		for k, period := range got.Periods {
			begun -= period.Begun[""]
			if math.Abs(period.InFlight-inFlight[k]) > 1e-9 {
				t.Fatalf("%v in periods of %v: %g in flight in period %d, want %g", span, got.Width, period.InFlight, k, inFlight[k])
			}
		}
		if begun != 0 {
			t.Errorf("%d calls more were added than began", begun)
		}
	}
}

func TestWidthOf(t *testing.T) {
	t.Parallel()
	if !slices.IsSorted(widths) {
		t.Errorf("widths are not in order: %v", widths)
	}
	for _, c := range []struct {
		span time.Duration
		most int
		want time.Duration
	}{
		{0, 1, time.Millisecond}, {99 * time.Millisecond, 100, time.Millisecond}, {100 * time.Millisecond, 100, 2 * time.Millisecond},
		{time.Hour, 100, time.Minute}, {30 * 24 * time.Hour, 100, 12 * time.Hour}, {365 * 24 * time.Hour, 100, 4 * 24 * time.Hour},
	} {
		if got := widthOf(c.span, c.most); got != c.want {
			t.Errorf("%v in at most %d: got %v, want %v", c.span, c.most, got, c.want)
		}
	}
}
