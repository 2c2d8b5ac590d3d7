package fleet

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/internal/collect"
	"github.com/evalfleet/evalfleet/internal/report"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/telemetry/notify"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
)

// An evaluation that ended early sends one event, even if calls in flight end or fail after its
// report was written. A different end sends another, which says why.
func TestEarlyEndIsToldOnce(t *testing.T) {
	t.Parallel()
	told := make(chan notify.Event, 10)
	var mu sync.Mutex
	seen := map[int64]bool{}
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var event notify.Event
		if err := json.NewDecoder(r.Body).Decode(&event); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if at := event.At.UnixNano(); !seen[at] { // a receiver that is slow is sent the same event again
			seen[at] = true
			told <- event
		}
	}))
	defer receiver.Close()
	notifier, err := notify.New(receiver.URL, "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
	if err != nil {
		t.Fatal(err)
	}
	e := &Endings{notifier: notifier, fleet: &Connection{Store: store.New(redistest.New(t).Client(), ""), Log: zerolog.Nop()}}
	tell := func(pairs, succeeded, failed int) {
		t.Helper()
		o := collect.Outcome{
			Record: record.Evaluation{ID: "ev-a", Name: "until"}, Planned: 20, Stopped: record.StoppedByUntil,
			Known: &results.Known{Best: []string{"a"}, Candidates: 2, Confidence: 0.95, Pairs: pairs},
		}
		built := &report.Report{Phases: []results.PhaseCounts{{Succeeded: succeeded, Failed: failed}}}
		if err := e.notify(t.Context(), o, built, record.Result{At: time.Now(), Reliance: &record.Reliance{Level: "caution", Text: "Check."}}); err != nil {
			t.Fatal(err)
		}
	}
	tell(5, 10, 0)
	tell(5, 10, 0)
	tell(5, 11, 1)
	if len(told) != 1 {
		t.Fatalf("told %d times, want once", len(told))
	}
	first := <-told
	if first.Type != notify.Completed || first.Data.Why == "" || first.Data.Runs.Succeeded != 10 || first.Data.Trust != "Caution. Check." {
		t.Errorf("told %+v, want 10 runs, why it ended, and how far to trust its result", first)
	}
	tell(8, 16, 1)
	if len(told) != 1 {
		t.Fatalf("told %d times of another end, want once", len(told))
	}
	if second := <-told; second.Type != notify.Failed || second.Data.Why == first.Data.Why {
		t.Errorf("told %+v, want an event that says what is known now", second)
	}
}
