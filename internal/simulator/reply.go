package simulator

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// outcome says how a call that was taken ended.
type outcome int

const (
	abandoned outcome = iota // its client left
	answered
	failed
	cut
)

// reply is what the client gets.
type reply struct {
	status  int
	body    []byte
	outcome outcome
	trickle time.Duration // from the first byte of the body to the last
}

// pieces is the number of parts of a body that trickles.
const pieces = 20

// begin writes and flushes all of the reply but the last withheld bytes. It blocks while the body
// trickles, or until the client has left.
func (r reply) begin(ctx context.Context, w http.ResponseWriter, withheld int) error {
	r.head(w)
	rest := r.body[:len(r.body)-withheld]
	if r.trickle == 0 {
		return write(w, rest)
	}
	began, size := time.Now(), (len(rest)+pieces-1)/pieces
	for i := range pieces {
		piece := rest[:min(size, len(rest))]
		rest = rest[len(piece):]
		if err := write(w, piece); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(began.Add(r.trickle / pieces * time.Duration(i+1)))):
		}
	}
	return nil
}

func (r reply) head(w http.ResponseWriter) {
	h := w.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	h.Set("Content-Length", strconv.Itoa(len(r.body)))
	w.WriteHeader(r.status)
}

// write writes and flushes bytes.
func write(w http.ResponseWriter, piece []byte) error {
	if _, err := w.Write(piece); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

// end writes what begin withheld.
func (r reply) end(w http.ResponseWriter, withheld int) {
	_, _ = w.Write(r.body[len(r.body)-withheld:]) // an error means that the client has left
}

// send writes the whole reply.
func (r reply) send(w http.ResponseWriter) {
	r.head(w)
	_ = write(w, r.body)
}
