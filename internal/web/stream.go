package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// streamEvery is how often the data of streams is read again.
	streamEvery = 2 * time.Second
	// mostStreams is how many streams may be open at once, and streamsEach how many of one user. Further clients are
	// asked to retry. A browser opens one for each page.
	mostStreams = 256
	streamsEach = 64
	// readTime bounds a read, which continues if the viewer that caused it leaves, and writeTime bounds the sending of
	// an event to a viewer.
	readTime  = 10 * time.Second
	writeTime = 10 * time.Second
)

var errBusy = errors.New("too many pages are open; close some")

// streams sends changes to open pages. Each twin is read once per interval for any number of viewers, and only while
// there are some: the first to wake reads for all.
type streams struct {
	every  time.Duration
	places *places
	ended  chan struct{} // closed by end

	readTime, writeTime time.Duration // tests have more patience

	mu    sync.Mutex       // guards all below
	feeds map[string]*feed // feeds with viewers, by path
	over  bool
}

// feed is the stream of one twin.
type feed struct {
	viewers int           // guarded by streams.mu
	turn    chan struct{} // holds one: its sender uses the fields below
	at      time.Time     // of the last read; turn guards this and the next field
	last    event
}

// event is one state read. An event without data carries an error.
type event struct {
	time string
	data []byte // JSON on one line
	away string
}

func newStreams() *streams {
	return &streams{
		every: streamEvery, readTime: readTime, writeTime: writeTime,
		places: newPlaces(mostStreams, streamsEach), ended: make(chan struct{}), feeds: map[string]*feed{},
	}
}

// end ends all streams, and prevents new ones.
func (s *streams) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.over = true
		close(s.ended)
	}
}

// join adds a viewer to a feed, unless there are too many, and returns leave, which removes it.
func (s *streams) join(path, who string) (of *feed, leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil, nil, errBusy
	}
	left, ok := s.places.enter(who)
	if !ok {
		return nil, nil, errBusy
	}

	of = s.feeds[path]
	if of == nil {
		of = &feed{turn: make(chan struct{}, 1)}
		s.feeds[path] = of
	}

	of.viewers++
	return of, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		left()
		if of.viewers--; of.viewers == 0 {
			delete(s.feeds, path)
		}
	}, nil
}

// next returns the feed's current event and when the next one is due. It calls read if the last event is older than the
// interval. ok is false if the stream ends.
func (s *streams) next(ctx context.Context, of *feed, read func(context.Context) event) (current event, due time.Time, ok bool) {
	select {
	case of.turn <- struct{}{}:
		defer func() { <-of.turn }()
	case <-ctx.Done():
		return current, due, false
	case <-s.ended:
		return current, due, false
	}
	if of.at.IsZero() || time.Since(of.at) >= s.every {
		reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.readTime) // other viewers wait, too
		defer cancel()
		of.last = read(reading)
		of.at = time.Now()
	}
	return of.last, of.at.Add(s.every), true
}

// wantsEvents reports whether a twin is requested as a stream.
func wantsEvents(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}

// stream sends a twin repeatedly, until the viewer leaves or the server stops. An event without a name contains the
// twin. The event `same` says that only the time has changed, and keeps the connection in use. The event `away` says
// that the twin cannot be read now.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, read func(context.Context) event) {
	of, leave, err := s.streams.join(r.URL.Path, userOf(r))
	if err != nil {
		w.Header().Set("Retry-After", "30")
		failJSON(w, err)
		return
	}
	defer leave()

	header := w.Header()
	header.Set("Content-Type", "text/event-stream; charset=utf-8")
	header.Set("X-Accel-Buffering", "no") // nginx and similar proxies pass on every event at once
	wire := http.NewResponseController(w)
	defer func() { _ = wire.SetWriteDeadline(time.Time{}) }()
	send := func(text string) error {
		if err := wire.SetWriteDeadline(time.Now().Add(s.streams.writeTime)); err != nil {
			return err
		}
		if _, err := fmt.Fprint(w, text); err != nil {
			return err
		}
		return wire.Flush()
	}
	if send(": evalfleet\n\n") != nil { // start the response at once, however long reading takes
		return
	}
	var sent event
	for {
		current, due, ok := s.streams.next(r.Context(), of, read)
		if !ok || send(current.after(sent)) != nil {
			return
		}
		sent = current
		select {
		case <-time.After(time.Until(due)):
		case <-r.Context().Done():
			return
		case <-s.streams.ended:
			return
		}
	}
}

// after returns the event as sent to a client that already has sent. The event's ID is its time.
func (e event) after(sent event) string {
	switch {
	case e.away != "":
		return fmt.Sprintf("event: away\ndata: %s\n\n", strings.Join(strings.Fields(e.away), " "))
	case sent.data != nil && bytes.Equal(e.data, sent.data):
		return fmt.Sprintf("id: %s\nevent: same\ndata: same\n\n", e.time)
	}
	return fmt.Sprintf("id: %s\ndata: %s\n\n", e.time, e.data)
}

// eventOf returns a twin as an event, or its error as an event without data.
func eventOf(data any, err error) event {
	if err != nil {
		return event{away: err.Error()}
	}
	raw, err := json.Marshal(data)
	if err != nil {
		return event{away: err.Error()}
	}
	return event{time: now(), data: raw}
}

func failJSON(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(statusOf(err))
	_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
}
