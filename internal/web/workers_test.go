package web

import (
	"context"
	"encoding/json"
	"html"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/worker"
)

// A worker is shown with what it tells of itself while it lives, and until its last
// call has ended.
func TestWorkers(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.pages.streams.every = 50 * time.Millisecond
	_, before := s.listen("/api/workers")
	if none := lineOf(before, "data: "); !strings.Contains(none, `"workers":[]`) {
		t.Errorf("without workers there are %s", none)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	slow := &judge{held: make(chan struct{})}
	go func() {
		ended <- worker.Run(ctx, worker.Config{
			Client: store.Universal(s.store), Endpoints: map[string]providers.Endpoint{"p": {Provider: slow, Key: "k"}},
			Slots: 4, Version: "v1 " + hostile, Lease: time.Hour, Grace: time.Minute, Log: zerolog.Nop(),
		})
	}()
	var id string
	for until, done := range []func(Worker) bool{
		func(w Worker) bool { return w.Flying == 4 && w.Share == 100 && w.State == "working" && w.Serves == "p" },
		func(w Worker) bool { return w.State == "stopping" && w.Flying == 4 },
	} {
		if until == 1 {
			stop()
		}
		for {
			var seen Workers
			line := lineOf(before, "data: ")
			if line == "same" {
				continue
			}
			if err := json.Unmarshal([]byte(line), &seen); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			if len(seen.Workers) == 1 && done(seen.Workers[0]) {
				id = seen.Workers[0].ID
				break
			}
		}
	}
	host, _ := os.Hostname()
	_, page := s.ask(http.MethodGet, "/workers")
	for _, want := range []string{html.EscapeString(host), "stopping", "v1 &lt;script&gt;", ` data-live="in_flight">4</b> of`} {
		if !strings.Contains(page, want) || strings.Contains(page, "<script>alert") {
			t.Errorf("the page does not say %q, or runs it:\n%s", want, page)
		}
	}
	_, page = s.ask(http.MethodGet, "/queues/p/active")
	if n := strings.Count(page, `<td class="name" data-h="Worker">`+id+"<"); n != 4 {
		t.Errorf("the queue's page has %d tasks of worker %s, want 4:\n%s", n, id, page)
	}
	close(slow.held)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if got, _ := s.ask(http.MethodGet, "/workers"); got.code != http.StatusOK {
		t.Errorf("after the last worker the page answers %d", got.code)
	}
}
