package simulator

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// messagePrefix begins the IDs of Anthropic's batches.
const messagePrefix = "msgbatch_"

// The bounds of Anthropic on a batch.
const (
	mostMessages     = 100_000
	mostMessageBytes = 256_000_000
)

// serveMessageBatches serves Anthropic's batches.
func (s *Simulator) serveMessageBatches() {
	const path = "/v1/messages/batches"
	s.mux.HandleFunc("POST "+path, s.createOfMessages)
	s.mux.HandleFunc("GET "+path, s.listOfMessages)
	s.mux.HandleFunc("GET "+path+"/{id}", func(w http.ResponseWriter, r *http.Request) { s.tellOfMessages(w, r, false) })
	s.mux.HandleFunc("POST "+path+"/{id}/cancel", func(w http.ResponseWriter, r *http.Request) { s.tellOfMessages(w, r, true) })
	s.mux.HandleFunc("GET "+path+"/{id}/results", s.resultsOfMessages)
}

// admitsMessages checks the headers of a request about batches. If it is false, it has answered with an error.
func (s *Simulator) admitsMessages(w http.ResponseWriter, r *http.Request) bool {
	if !s.admitsBatches(messages{}, w, r) {
		return false
	}
	if r.Header.Get("Anthropic-Version") == "" {
		refuse(messages{}, w, problem{failure: BadRequest, message: "anthropic-version: header is required"})
		return false
	}
	return true
}

var customID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// createOfMessages begins a batch. What is wrong with a request shows only in its result.
func (s *Simulator) createOfMessages(w http.ResponseWriter, r *http.Request) {
	if !s.admitsMessages(w, r) {
		return
	}
	var asked struct {
		Requests []struct {
			ID     string          `json:"custom_id"`
			Params json.RawMessage `json:"params"`
		} `json:"requests"`
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostMessageBytes))
	if err == nil {
		err = strictly(body, &asked)
	}
	wrong := ""
	switch {
	case err != nil:
		wrong = "The request body is not valid JSON of a batch: " + err.Error()
	case len(asked.Requests) == 0:
		wrong = "requests: List should have at least 1 item after validation, not 0"
	case len(asked.Requests) > mostMessages:
		wrong = fmt.Sprintf("requests: List should have at most %d items after validation", mostMessages)
	}
	seen := map[string]bool{}
	var asks []ask
	for i, each := range asked.Requests {
		switch {
		case !customID.MatchString(each.ID):
			wrong = fmt.Sprintf("requests.%d.custom_id: String should match pattern '%s'", i, customID)
		case seen[each.ID]:
			wrong = fmt.Sprintf("requests.%d.custom_id: Duplicate custom_id: %s", i, each.ID)
		}
		seen[each.ID] = true
		req, err := messages{}.parse(r, each.Params)
		asks = append(asks, ask{id: each.ID, req: req, wrong: err})
	}
	if wrong != "" {
		refuse(messages{}, w, problem{failure: BadRequest, message: wrong})
		return
	}

	b, refused := s.openBatch(messagePrefix, asks, false)
	if refused != nil {
		refuse(messages{}, w, refused.problem(0))
		return
	}
	tellBatch(w, r, b, s.shown(b, (*batch).messageObject))
}

// messagesOf returns the batch that a request names, and whether it has ended. If it is nil, messagesOf has answered with
// an error.
func (s *Simulator) messagesOf(w http.ResponseWriter, r *http.Request) (b *batch, ended bool) {
	if !s.admitsMessages(w, r) {
		return nil, false
	}
	id := r.PathValue("id")
	b, ended = s.batchOf(id)
	if b == nil || !strings.HasPrefix(id, messagePrefix) {
		refuse(messages{}, w, problem{failure: ModelUnavailable, message: "Message Batch " + id + " not found"})
		return nil, false
	}
	return b, ended
}

// tellOfMessages answers with the state of a batch, which it may cancel first.
func (s *Simulator) tellOfMessages(w http.ResponseWriter, r *http.Request, cancel bool) {
	b, ended := s.messagesOf(w, r)
	switch {
	case b == nil:
		return
	case cancel && ended:
		refuse(messages{}, w, problem{failure: BadRequest, message: "Batch " + b.id + " has already ended"})
		return
	case cancel:
		s.cancelBatch(b)
	}
	reply{status: http.StatusOK, body: []byte(encode(s.shown(b, (*batch).messageObject)))}.send(w)
}

func (s *Simulator) listOfMessages(w http.ResponseWriter, r *http.Request) {
	if !s.admitsMessages(w, r) {
		return
	}
	limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil || limit < 1 || limit > 1000 {
		limit = 20
	}
	page, more := s.listBatches(messagePrefix, r.URL.Query().Get("after_id"), limit)
	list := map[string]any{"has_more": more, "first_id": nil, "last_id": nil}
	data := []any{}
	for _, b := range page {
		data = append(data, s.shown(b, (*batch).messageObject))
	}
	if list["data"] = data; len(page) > 0 {
		list["first_id"], list["last_id"] = page[0].id, page[len(page)-1].id
	}
	reply{status: http.StatusOK, body: []byte(encode(list))}.send(w)
}

// resultsOfMessages sends the results of a batch that has ended, one a line.
func (s *Simulator) resultsOfMessages(w http.ResponseWriter, r *http.Request) {
	b, ended := s.messagesOf(w, r)
	switch {
	case b == nil:
		return
	case !ended:
		refuse(messages{}, w, problem{failure: BadRequest, message: "Batch " + b.id + " has no available results."})
		return
	}
	w.Header().Set("Content-Type", "application/x-jsonl")
	for _, t := range b.tasks {
		_, _ = io.WriteString(w, encode(map[string]any{"custom_id": t.id, "result": t.messageResult()})+"\n")
	}
}

func (t *task) messageResult() map[string]any {
	switch t.fate {
	case taskExpired:
		return map[string]any{"type": "expired"}
	case taskCancelled:
		return map[string]any{"type": "canceled"}
	}
	_, body := t.reply(messages{})
	if t.fate == taskAnswered {
		return map[string]any{"type": "succeeded", "message": body}
	}
	return map[string]any{"type": "errored", "error": body}
}

// messageObject returns the batch as Anthropic shows it. The counts are those of its end, before which all requests are
// processing.
func (b *batch) messageObject(time.Time) map[string]any {
	at := func(when time.Time) any {
		if when.IsZero() {
			return nil
		}
		return when.UTC().Format(time.RFC3339Nano)
	}

	status, counts := "in_progress", map[string]int{
		"processing": len(b.tasks), "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0,
	}
	var results any
	switch {
	case !b.ended.IsZero():
		status, results = "ended", "https://api.anthropic.com/v1/messages/batches/"+b.id+"/results"
		counts["processing"], counts["succeeded"], counts["errored"] = 0, b.count(taskAnswered), b.count(taskFailed)
		counts["canceled"], counts["expired"] = b.count(taskCancelled), b.count(taskExpired)
	case !b.cancelled.IsZero():
		status = "canceling"
	}

	return map[string]any{
		"id": b.id, "type": "message_batch", "processing_status": status, "request_counts": counts, "results_url": results,
		"created_at": at(b.created), "expires_at": at(b.expires()), "ended_at": at(b.ended), "cancel_initiated_at": at(b.cancelled),
		"archived_at": nil,
	}
}
