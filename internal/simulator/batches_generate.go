package simulator

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// generatePrefix begins the names of Google's batches, of which it is a part.
const generatePrefix = "batches/"

// mostGenerateBytes is Google's bound on a batch whose requests are sent with it.
const mostGenerateBytes = 20_000_000

// serveGenerateBatches serves the method of Google's models that creates a batch, and the batches.
func (s *Simulator) serveGenerateBatches() {
	s.mux.HandleFunc("POST /v1beta/models/{call}", func(w http.ResponseWriter, r *http.Request) {
		if model, is := strings.CutSuffix(r.PathValue("call"), ":batchGenerateContent"); is {
			s.createOfGenerate(w, r, model)
		} else {
			s.serve(generate{}, w, r)
		}
	})
	s.mux.HandleFunc("GET /v1beta/batches", s.listOfGenerate)
	s.mux.HandleFunc("GET /v1beta/batches/{id}", func(w http.ResponseWriter, r *http.Request) {
		if b, _ := s.generateOf(w, r, r.PathValue("id")); b != nil {
			reply{status: http.StatusOK, body: []byte(encode(s.shown(b, (*batch).operation)))}.send(w)
		}
	})
	s.mux.HandleFunc("POST /v1beta/batches/{call}", s.cancelOfGenerate)
}

// createOfGenerate begins a batch. What is wrong with a request shows only in its answer.
func (s *Simulator) createOfGenerate(w http.ResponseWriter, r *http.Request, model string) {
	if !s.admitsBatches(generate{}, w, r) {
		return
	}
	var asked struct {
		Batch struct {
			DisplayName string `json:"displayName"`
			InputConfig struct {
				Requests struct {
					Requests []struct {
						Request  map[string]json.RawMessage `json:"request"`
						Metadata map[string]string          `json:"metadata"`
					} `json:"requests"`
				} `json:"requests"`
			} `json:"inputConfig"`
			Priority string `json:"priority"`
		} `json:"batch"`
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostGenerateBytes))
	if err == nil {
		err = strictly(body, &asked)
	}
	requests := asked.Batch.InputConfig.Requests.Requests
	wrong := ""
	switch {
	case err != nil:
		wrong = "Invalid JSON payload received. " + err.Error()
	case asked.Batch.DisplayName == "":
		wrong = "* BatchGenerateContentRequest.batch.display_name: display_name is required"
	case len(requests) == 0:
		wrong = "* BatchGenerateContentRequest.batch.input_config: no requests"
	}
	if wrong != "" {
		refuse(generate{}, w, problem{failure: BadRequest, message: wrong})
		return
	}

	r.SetPathValue("call", model+":generateContent")
	var asks []ask
	for i, each := range requests {
		delete(each.Request, "model") // it is that of the batch
		req, err := generate{}.parse(r, []byte(encode(each.Request)))
		id, named := each.Metadata["key"]
		if !named {
			id = strconv.Itoa(i)
		}
		asks = append(asks, ask{id: id, req: req, wrong: err, unnamed: !named})
	}
	b, refused := s.openBatch(generatePrefix, asks, false)
	if refused != nil {
		p := refused.problem(0)
		fail(generate{}, w.Header(), &call{req: asks[0].req}, p).send(w)
		return
	}
	tellBatch(w, r, b, s.shown(b, func(b *batch, now time.Time) map[string]any {
		b.name = asked.Batch.DisplayName
		return b.operation(now)
	}))
}

// generateOf returns the batch with a name, and whether it has ended. If it is nil, generateOf has answered with an
// error.
func (s *Simulator) generateOf(w http.ResponseWriter, r *http.Request, name string) (b *batch, ended bool) {
	if !s.admitsBatches(generate{}, w, r) {
		return nil, false
	}
	b, ended = s.batchOf(generatePrefix + name)
	if b == nil {
		refuse(generate{}, w, problem{failure: ModelUnavailable, message: "Requested entity was not found."})
	}
	return b, ended
}

func (s *Simulator) cancelOfGenerate(w http.ResponseWriter, r *http.Request) {
	name, is := strings.CutSuffix(r.PathValue("call"), ":cancel")
	if !is {
		refuse(generate{}, w, problem{failure: ModelUnavailable, message: "Requested entity was not found."})
		return
	}
	b, ended := s.generateOf(w, r, name)
	switch {
	case b == nil:
		return
	case ended:
		refuse(generate{}, w, problem{failure: BadRequest, message: "Batch " + b.id + " has already ended."})
		return
	}
	s.cancelBatch(b)
	reply{status: http.StatusOK, body: []byte("{}")}.send(w)
}

func (s *Simulator) listOfGenerate(w http.ResponseWriter, r *http.Request) {
	if !s.admitsBatches(generate{}, w, r) {
		return
	}
	limit, err := strconv.Atoi(r.URL.Query().Get("pageSize"))
	if err != nil || limit < 1 || limit > 1000 {
		limit = 50
	}
	page, more := s.listBatches(generatePrefix, r.URL.Query().Get("pageToken"), limit)
	list := map[string]any{}
	operations := []any{}
	for _, b := range page {
		operations = append(operations, s.shown(b, (*batch).operation))
	}
	if len(page) > 0 {
		list["operations"] = operations
	}
	if more {
		list["nextPageToken"] = page[len(page)-1].id
	}
	reply{status: http.StatusOK, body: []byte(encode(list))}.send(w)
}

// overdue reports whether the batch ended because its time was over. Google then has no answers.
func (b *batch) overdue() bool {
	return b.cancelled.IsZero() && b.created.Add(b.lasts).After(b.expires())
}

// generateState returns the state in Google's words.
func (b *batch) generateState(now time.Time) string {
	switch {
	case b.ended.IsZero() && now.Before(b.created.Add(b.lasts/8)):
		return "BATCH_STATE_PENDING"
	case b.ended.IsZero():
		return "BATCH_STATE_RUNNING"
	case !b.cancelled.IsZero():
		return "BATCH_STATE_CANCELLED"
	case b.overdue():
		return "BATCH_STATE_EXPIRED"
	}
	return "BATCH_STATE_SUCCEEDED"
}

// operation returns the batch as Google shows it. Once it has ended, its answers are there twice.
func (b *batch) operation(now time.Time) map[string]any {
	at := func(when time.Time) string { return when.UTC().Format(time.RFC3339Nano) }
	updated := now
	if !b.ended.IsZero() {
		updated = b.ended
	}
	stats := map[string]string{"requestCount": strconv.Itoa(len(b.tasks))}
	for name, n := range map[string]int{
		"successfulRequestCount": b.count(taskAnswered),
		"failedRequestCount":     b.count(taskFailed, taskExpired, taskCancelled),
		"pendingRequestCount":    b.count(waiting),
	} {
		if n > 0 {
			stats[name] = strconv.Itoa(n)
		}
	}
	metadata := map[string]any{
		"@type": "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch",
		"model": "models/" + b.model, "name": b.id, "displayName": b.name, "state": b.generateState(now), "batchStats": stats,
		"createTime": at(b.created), "updateTime": at(updated),
	}
	operation := map[string]any{"name": b.id, "metadata": metadata}
	if b.ended.IsZero() {
		return operation
	}

	operation["done"], metadata["endTime"] = true, at(b.ended)
	switch {
	case b.overdue():
		operation["error"] = map[string]any{"code": 4, "message": "The batch expired."}
		return operation
	case !b.cancelled.IsZero():
		operation["error"] = map[string]any{"code": 1, "message": "The batch was cancelled."}
	}
	var answers []any
	for _, t := range b.tasks {
		answers = append(answers, t.inlined())
	}
	output := map[string]any{"inlinedResponses": map[string]any{"inlinedResponses": answers}}
	metadata["output"] = output
	if b.cancelled.IsZero() {
		operation["response"] = map[string]any{
			"@type":            "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatchOutput",
			"inlinedResponses": output["inlinedResponses"],
		}
	}
	return operation
}

// rpcCodes are the numbers of Google's statuses.
var rpcCodes = map[string]int{
	"INVALID_ARGUMENT": 3, "NOT_FOUND": 5, "PERMISSION_DENIED": 7, "RESOURCE_EXHAUSTED": 8, "INTERNAL": 13, "UNAVAILABLE": 14,
}

// inlined returns the answer to a request, with its metadata.
func (t *task) inlined() map[string]any {
	answer := map[string]any{"metadata": map[string]string{"key": t.id}}
	if t.unnamed {
		delete(answer, "metadata")
	}
	switch t.fate {
	case taskExpired:
		answer["error"] = map[string]any{"code": 4, "message": "The request was not answered before the deadline of the batch."}
		return answer
	case taskCancelled:
		answer["error"] = map[string]any{"code": 1, "message": "The operation was cancelled."}
		return answer
	}

	_, body := t.reply(generate{})
	object, _ := body.(map[string]any)
	wrong, failed := object["error"].(map[string]any)
	if !failed {
		answer["response"] = body
		return answer
	}
	status, _ := wrong["status"].(string)
	answer["error"] = map[string]any{"code": rpcCodes[status], "message": wrong["message"]}
	if wrong["details"] != nil {
		answer["error"].(map[string]any)["details"] = wrong["details"]
	}
	return answer
}
