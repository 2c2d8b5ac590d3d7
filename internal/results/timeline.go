package results

import (
	"context"
	"time"

	"github.com/evalfleet/evalfleet/eval"
)

// Timeline shows the calls of an evaluation over time, in periods of one length. It does not
// include reused answers, for which no call was made.
type Timeline struct {
	From    time.Time     // when the first call began; zero: none was made
	Width   time.Duration // of a period
	Periods []Period      // without gaps, up to the end of the last call
}

// Period counts the calls in one period of a Timeline.
type Period struct {
	// Begun counts the calls that began, by the id of the limit that they waited for last; empty:
	// no limit held them back.
	Begun map[string]int
	// InFlight is how many calls were in flight on average over the period.
	InFlight float64
	Failed   int // calls that ended without an answer
}

// widths are lengths of periods that are easy to read.
var widths = []time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second,
	10 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute,
	15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// widthOf returns the smallest width with which most periods suffice to cover a span, both ends
// included.
func widthOf(span time.Duration, most int) time.Duration {
	for _, width := range widths {
		if span/width < time.Duration(most) {
			return width
		}
	}
	width := 2 * widths[len(widths)-1]
	for span/width >= time.Duration(most) {
		width *= 2
	}
	return width
}

const (
	selectSpan = `
SELECT min(started_at), max(coalesce(ended_at, started_at)) FROM calls WHERE evaluation = ? AND NOT cached`
	selectTimes = `
SELECT started_at, coalesce(ended_at, started_at), bound_by, class <> ''
FROM calls WHERE evaluation = ? AND NOT cached AND started_at IS NOT NULL`
)

// Timeline sums the calls in periods, of which there are no more than most.
func (r *reader) Timeline(ctx context.Context, id eval.ID, most int) (Timeline, error) {
	var first, last stamp
	if err := r.one(ctx, selectSpan, string(id)).Scan(&first, &last); err != nil {
		return Timeline{}, r.unread(err)
	}
	if first.IsZero() {
		return Timeline{}, nil
	}

	// Leave out calls that are recorded while this reads and lie outside, and those that ended before they began: Redis's
	// clock was set back.
	t := newTimeline(first.Time, last.Time, most)
	type times struct {
		began, ended stamp
		limit        string
		failed       bool
	}
	calls := rows(ctx, &r.access, func(row scanner, c *times) error {
		return row.Scan(&c.began, &c.ended, &c.limit, &c.failed)
	}, selectTimes, string(id))
	for c, err := range calls {
		if err != nil {
			return Timeline{}, err
		}
		if !c.began.Before(first.Time) && !c.began.After(last.Time) && !c.ended.After(last.Time) {
			t.add(c.began.Time, c.ended.Time, c.limit, c.failed)
		}
	}

	return t.finish(), nil
}

// timeline adds up calls. A call that lasts through many periods is noted only at the first period
// that it fills and after the last. So each call costs the same.
type timeline struct {
	Timeline
	filled []int // change from the previous period in the number of calls that fill one
}

func newTimeline(first, last time.Time, most int) *timeline {
	span := last.Sub(first)
	width := widthOf(span, most)
	t := &timeline{Timeline: Timeline{From: first, Width: width, Periods: make([]Period, span/width+1)}}
	t.filled = make([]int, len(t.Periods)+1)
	for k := range t.Periods {
		t.Periods[k].Begun = map[string]int{}
	}
	return t
}

// add counts a call that began and ended within the timeline's span. A call that ended before it
// began counts as ended at its beginning.
func (t *timeline) add(began, ended time.Time, limit string, failed bool) {
	if ended.Before(began) {
		ended = began
	}
	first, last := t.period(began), t.period(ended)
	t.Periods[first].Begun[limit]++
	if failed {
		t.Periods[last].Failed++
	}
	if first == last {
		t.Periods[first].InFlight += t.share(ended.Sub(began))
		return
	}
	t.Periods[first].InFlight += t.share(t.start(first + 1).Sub(began))
	t.Periods[last].InFlight += t.share(ended.Sub(t.start(last)))
	t.filled[first+1]++
	t.filled[last]--
}

func (t *timeline) period(at time.Time) int { return int(at.Sub(t.From) / t.Width) }

func (t *timeline) start(period int) time.Time {
	return t.From.Add(time.Duration(period) * t.Width)
}

func (t *timeline) share(of time.Duration) float64 { return float64(of) / float64(t.Width) }

func (t *timeline) finish() Timeline {
	filling := 0
	for k := range t.Periods {
		filling += t.filled[k]
		t.Periods[k].InFlight += float64(filling)
	}
	return t.Timeline
}
