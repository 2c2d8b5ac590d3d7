package simulator

import (
	"net/http"
	"strconv"
)

// outcome is how a call that was taken ended.
type outcome int

const (
	abandoned outcome = iota // its client left
	answered
	failed
	cut
)

// reply is what goes back to the client.
type reply struct {
	status  int
	body    []byte
	outcome outcome
}

// begin writes all of the reply but the last withheld bytes, and sends it off.
func (r reply) begin(w http.ResponseWriter, withheld int) error {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(r.body)))
	w.WriteHeader(r.status)
	if _, err := w.Write(r.body[:len(r.body)-withheld]); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

// end writes what begin withheld.
func (r reply) end(w http.ResponseWriter, withheld int) {
	_, _ = w.Write(r.body[len(r.body)-withheld:]) // the client's loss, if it is gone
}

// send writes the whole reply.
func (r reply) send(w http.ResponseWriter) { _ = r.begin(w, 0) }
