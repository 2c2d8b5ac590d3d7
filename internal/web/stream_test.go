package web

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A twin is read once an interval for any number of viewers, and not at all without any.
func TestStreamsReadOnceForAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStreams()
		var reads, events atomic.Int32
		read := func(context.Context) event {
			time.Sleep(100 * time.Millisecond) // all come meanwhile
			reads.Add(1)
			return event{data: []byte("{}")}
		}
		var viewers sync.WaitGroup
		for range 50 {
			viewers.Go(func() {
				of, leave, err := s.join("/api/limits", "ann")
				if err != nil {
					t.Error(err)
					return
				}
				defer leave()
				for range 3 {
					_, due, ok := s.next(t.Context(), of, read)
					if !ok {
						t.Error("the stream ended")
						return
					}
					events.Add(1)
					time.Sleep(time.Until(due))
				}
			})
		}
		viewers.Wait()
		if reads.Load() != 3 || events.Load() != 150 {
			t.Errorf("read %d times for %d events, want 3 and 150", reads.Load(), events.Load())
		}
		if s.places.taken != 0 || len(s.places.of) != 0 || len(s.feeds) != 0 {
			t.Errorf("%d viewers and %d feeds are left after all have gone", s.places.taken, len(s.feeds))
		}
	})
}

// listen opens a stream; its lines come one by one.
func (s *site) listen(path string) (answer, *bufio.Scanner) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.server.URL+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Accept", "text/event-stream")
	response, err := s.server.Client().Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { response.Body.Close() })
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	return answer{response.StatusCode, response.Header}, lines
}

// lineOf is the next line that begins with a word, without it; "" at the end.
func lineOf(lines *bufio.Scanner, word string) string {
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), word); ok {
			return rest
		}
	}
	return ""
}

func TestStreams(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.pages.streams.every = 10 * time.Millisecond
	s.pages.streams.places.most = 2
	path := "/api/evaluations/" + string(s.idle)
	got, lines := s.listen(path)
	for header, want := range map[string]string{
		"Content-Type": "text/event-stream; charset=utf-8", "X-Accel-Buffering": "no", "Cache-Control": "no-store", "Vary": "Accept",
	} {
		if got := got.header.Get(header); got != want {
			t.Errorf("a stream has %s %q, want %q", header, got, want)
		}
	}
	if first := lineOf(lines, "data: "); !strings.Contains(first, `"status":"active"`) || !strings.HasSuffix(first, "}") {
		t.Errorf("the stream begins with %q, not with the twin on a line", first)
	}
	if name := lineOf(lines, "event: "); name != "same" {
		t.Errorf("of an evaluation at rest, an event is %q, want same", name)
	}
	if _, err := s.store.Pause(t.Context(), s.idle, ""); err != nil {
		t.Fatal(err)
	}
	for changed := ""; !strings.Contains(changed, `"status":"paused"`); {
		if changed = lineOf(lines, "data: "); changed == "" {
			t.Fatal("the stream ended without telling that the evaluation was paused")
		}
	}
	_, missing := s.listen("/api/evaluations/ev-aaaaaaaaaaaa")
	if name := lineOf(missing, "event: "); name != "away" {
		t.Errorf("of an evaluation that is not there, an event is %q, want away", name)
	}
	if third, _ := s.listen(path); third.code != http.StatusServiceUnavailable || third.header.Get("Retry-After") == "" {
		t.Errorf("a stream beyond the bound answers %d, Retry-After %q", third.code, third.header.Get("Retry-After"))
	}
	s.pages.End()
	for lines.Scan() { // ends
	}
	if after, _ := s.listen(path); after.code != http.StatusServiceUnavailable {
		t.Errorf("a stream after the end answers %d, want 503", after.code)
	}
}
