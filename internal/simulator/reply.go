package simulator

import (
	"math"
	"net/http"
	"strconv"
	"time"
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
	status     int
	retryAfter time.Duration // 0: no hint
	body       []byte
	outcome    outcome
}

// hint tells when to come back, rounded up.
func (r reply) hint(h http.Header, how Hint) {
	in := func(unit time.Duration) string {
		return strconv.FormatFloat(math.Ceil(float64(r.retryAfter)/float64(unit)), 'f', 0, 64)
	}
	if r.retryAfter <= 0 || how == HintNone {
		return
	}
	h.Set("Retry-After", in(time.Second))
	if how != HintSeconds {
		h.Set("Retry-After-Ms", in(time.Millisecond))
	}
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

func badRequest(message string) reply {
	return problem(http.StatusBadRequest, "invalid_request_error", "", message)
}

// problem is an error in the dialect's form.
func problem(status int, kind, code, message string) reply {
	object := map[string]any{"message": message, "type": kind, "param": nil, "code": nil}
	if code != "" {
		object["code"] = code
	}
	return reply{status: status, body: []byte(encode(map[string]any{"error": object})), outcome: failed}
}

// plannedFailure answers as a provider in trouble does.
func plannedFailure(b Behaviour, c *call) reply {
	status := b.FailStatus
	if status == 0 {
		status = http.StatusInternalServerError
	}
	kind := "invalid_request_error"
	switch {
	case status == http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case status == http.StatusServiceUnavailable || status == 529:
		kind = "overloaded_error"
	case status >= 500:
		kind = "server_error"
	}
	r := problem(status, kind, "", "This failure was asked of the simulator")
	r.retryAfter = b.RetryAfter.at(c.draw("retry after"))
	return r
}
