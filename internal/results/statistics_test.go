package results

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
)

// testStatistics: runs are counted by who answered, each once, however often it is
// stored and whichever of its generations is.
func testStatistics(t *testing.T, url string) {
	db, e := openStore(t, url)
	fell := func(entry record.Entry, change func(*record.Run)) record.Entry {
		change(entry.Run)
		return entry
	}
	most := 300.0
	event := record.Fell{
		Event: record.EventRateLimitFallback, Original: "openai:gpt-5-mini", Fallback: "google:gemini", Reason: record.ReasonRateLimitOrError,
		Class: "rate_limited", WaitS: 480, MaxWaitS: &most, Retries: 3, At: epoch,
	}
	identical := fell(verdict(5), func(r *record.Run) { r.AnsweredBy, r.Attempts = "", 0 })
	identical.Calls = nil
	entries := []record.Entry{
		fell(verdict(0), func(r *record.Run) { r.AnsweredBy = r.Model }),
		fell(verdict(1), func(r *record.Run) { r.AnsweredBy, r.RateLimitWaits = r.Model, 2 }),
		fell(verdict(2), func(r *record.Run) {
			r.AnsweredBy, r.RateLimitWaits, r.RateLimitFallbacks, r.Fell = event.Fallback, 3, 1, []record.Fell{event}
		}),
		fell(verdict(3), func(r *record.Run) { r.AnsweredBy, r.ContextFallbacks = event.Fallback, 1 }),
		fell(failure(4, 0), func(r *record.Run) {
			r.RateLimitWaits, r.RateLimitFallbacks, r.Fell = 9, 2, []record.Fell{event, event}
		}),
		identical,
	}
	mustAppend(t, db, e.ID, entries...)
	again := fell(failure(4, 1), func(r *record.Run) { r.RateLimitWaits, r.RateLimitFallbacks, r.Fell = 1, 1, []record.Fell{event} })
	mustAppend(t, db, e.ID, append(slices.Clone(entries), again)...)
	got, err := db.Statistics(t.Context(), e.ID)
	want := Statistics{Total: 5, Primary: 2, Fallback: 2, RateLimitWaits: 6, RateLimitFallbacks: 2, ContextFallbacks: 1, Waited: 3}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if none, err := db.Statistics(t.Context(), "ev-abcdefgh2345"); none != (Statistics{}) || err != nil {
		t.Errorf("of an unknown evaluation: %+v, %v", none, err)
	}
}

// Fallbacks are rows of the events, once for each run that holds, and what is in
// them is what the event log says.
func TestFallbacksAreEvents(t *testing.T) {
	t.Parallel()
	sink, e := openStore(t, "sqlite:"+newPath(t))
	run := verdict(2)
	run.Run.Fell = []record.Fell{{Event: record.EventContextLengthFallback, Original: "openai:a", Fallback: "google:b", Class: "context_length", At: epoch}}
	mustAppend(t, sink, e.ID, run)
	mustAppend(t, sink, e.ID, run)
	var name, metadata, created string
	row := sink.(*store).db.QueryRowContext(t.Context(), "SELECT name, metadata, created_at FROM events WHERE evaluation = ? AND run = '1.2'", string(e.ID))
	if err := row.Scan(&name, &metadata, &created); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := sink.(*store).db.QueryRowContext(t.Context(), "SELECT count(*) FROM events").Scan(&n); err != nil || n != 1 {
		t.Errorf("%d rows, %v; want 1", n, err)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(metadata), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"run_id": "1.2", "original_model": "openai:a", "fallback_model": "google:b", "class": "context_length",
		"wait_time_exceeded": 0.0, "max_wait_seconds": nil, "retry_count": 0.0,
	}
	if diff := cmp.Diff(want, got); diff != "" || name != "context_length_fallback" || created != "2026-01-02T03:04:05.678Z" {
		t.Errorf("%s at %s (-want +got):\n%s", name, created, diff)
	}
}

func TestAdvice(t *testing.T) {
	t.Parallel()
	how := record.DefaultFallback
	any := record.Fallback{Base: 2, MaxRetries: 3}
	for name, c := range map[string]struct {
		s    Statistics
		how  *record.Fallback
		want []string // words of each line
	}{
		"waiting works":        {Statistics{Total: 1000, Primary: 950, Fallback: 50, Waited: 200, RateLimitFallbacks: 30}, &how, nil},
		"on the line":          {Statistics{Total: 100, Fallback: 10, Waited: 30}, &how, nil},
		"too many fallbacks":   {Statistics{Total: 1000, Primary: 400, Fallback: 600, Waited: 50, RateLimitFallbacks: 550}, &how, []string{"60 % of the runs were answered by fallback models, more than 10 %: raise fallback.max_wait_seconds (300) or fallback.max_retries (3)"}},
		"they wait for ever":   {Statistics{Total: 10, Fallback: 2, RateLimitFallbacks: 2}, &any, []string{": raise fallback.max_retries (3)"}},
		"errors":               {Statistics{Total: 10, Fallback: 2}, &how, []string{"after errors"}},
		"too many waits":       {Statistics{Total: 100, Primary: 100, Waited: 31}, &how, []string{"31 % of the runs waited for rate limits, more than 30 %"}},
		"nothing has ended":    {Statistics{}, &how, nil},
		"there is no fallback": {Statistics{Total: 1, Fallback: 1}, nil, nil},
	} {
		got := c.s.Advice(c.how)
		if len(got) != len(c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
			continue
		}
		for i, words := range c.want {
			if !strings.Contains(got[i], words) {
				t.Errorf("%s: got %q, want %q in it", name, got[i], words)
			}
		}
	}
}
