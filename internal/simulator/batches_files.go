package simulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The bounds of OpenAI on a file of requests.
const (
	mostFileBytes = 200_000_000
	mostTasks     = 50_000
)

// filePrefix begins the IDs of OpenAI's batches.
const filePrefix = "batch_"

// file is a file that a client has uploaded.
type file struct {
	id, name, purpose string
	content           []byte
	created           time.Time
}

func (f *file) object() map[string]any {
	return map[string]any{
		"id": f.id, "object": "file", "bytes": len(f.content), "created_at": f.created.Unix(), "filename": f.name, "purpose": f.purpose,
		"status": "processed", "expires_at": f.created.Add(30 * day).Unix(),
	}
}

// serveFiles serves the files and batches of OpenAI's form.
func (s *Simulator) serveFiles() {
	s.mux.HandleFunc("POST /v1/files", s.upload)
	s.mux.HandleFunc("GET /v1/files/{id}", s.describeFile)
	s.mux.HandleFunc("GET /v1/files/{id}/content", s.download)
	s.mux.HandleFunc("POST /v1/batches", s.createFromFile)
	s.mux.HandleFunc("GET /v1/batches", s.listFromFiles)
	s.mux.HandleFunc("GET /v1/batches/{id}", func(w http.ResponseWriter, r *http.Request) { s.tellFromFile(w, r, false) })
	s.mux.HandleFunc("POST /v1/batches/{id}/cancel", func(w http.ResponseWriter, r *http.Request) { s.tellFromFile(w, r, true) })
}

// upload keeps a file of requests.
func (s *Simulator) upload(w http.ResponseWriter, r *http.Request) {
	if !s.admitsBatches(chat{}, w, r) {
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, mostFileBytes+1<<20)
	form, err := r.MultipartReader()
	if err != nil {
		refuse(chat{}, w, problem{failure: BadRequest, message: err.Error()})
		return
	}
	f := &file{created: time.Now()}
	for {
		part, err := form.NextPart()
		if err != nil {
			break
		}
		content, err := io.ReadAll(part)
		if err != nil {
			refuse(chat{}, w, problem{failure: BadRequest, message: "the file cannot be read: " + err.Error()})
			return
		}
		switch part.FormName() {
		case "purpose":
			f.purpose = string(content)
		case "file":
			f.name, f.content = part.FileName(), content
		}
	}

	switch {
	case f.purpose != "batch":
		refuse(chat{}, w, problem{failure: BadRequest, message: fmt.Sprintf("'%s' is not one of ['batch'] - 'purpose'", f.purpose)})
		return
	case len(f.content) == 0 || len(f.content) > mostFileBytes:
		refuse(chat{}, w, problem{failure: BadRequest, message: fmt.Sprintf("File is empty or larger than %d bytes.", mostFileBytes)})
		return
	}

	s.mu.Lock()
	f.id = fmt.Sprintf("file-%016x", hashOf("file", fmt.Sprint(s.config.Seed, len(s.batches.files))))
	s.batches.files[f.id] = f
	s.mu.Unlock()
	reply{status: http.StatusOK, body: []byte(encode(f.object()))}.send(w)
}

// fileOf returns an uploaded file; nil: there is none.
func (s *Simulator) fileOf(id string) *file {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.batches.files[id]
}

func noFile(w http.ResponseWriter, id string) {
	refuse(chat{}, w, problem{failure: BadRequest, status: http.StatusNotFound, message: "No such File object: " + id})
}

func (s *Simulator) describeFile(w http.ResponseWriter, r *http.Request) {
	if !s.admitsBatches(chat{}, w, r) {
		return
	}
	f := s.fileOf(r.PathValue("id"))
	if f == nil {
		noFile(w, r.PathValue("id"))
		return
	}
	reply{status: http.StatusOK, body: []byte(encode(f.object()))}.send(w)
}

// The beginnings of the IDs of what a batch leaves; the batch's own ID follows.
const (
	outputPrefix = "file-output-"
	errorPrefix  = "file-errors-"
)

// download sends an uploaded file, or the answers or errors of a batch that has ended.
func (s *Simulator) download(w http.ResponseWriter, r *http.Request) {
	if !s.admitsBatches(chat{}, w, r) {
		return
	}
	id := r.PathValue("id")
	if f := s.fileOf(id); f != nil {
		_, _ = w.Write(f.content)
		return
	}
	ofErrors := strings.HasPrefix(id, errorPrefix)
	of := strings.TrimPrefix(strings.TrimPrefix(id, outputPrefix), errorPrefix)
	b, ended := s.batchOf(of)
	if b == nil || of == id || !ended {
		noFile(w, id)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	for _, t := range b.tasks {
		if (t.fate == taskAnswered) != ofErrors {
			_, _ = io.WriteString(w, encode(t.line(b))+"\n")
		}
	}
}

// line returns a task as a line of the file in which it is reported.
func (t *task) line(b *batch) map[string]any {
	line := map[string]any{"id": fmt.Sprintf("batch_req_%016x", hashOf(b.id, t.id)), "custom_id": t.id, "response": nil, "error": nil}
	switch t.fate {
	case taskExpired:
		line["error"] = map[string]string{
			"code": "batch_expired", "message": "This request could not be executed before the completion window expired.",
		}
	case taskCancelled:
		line["error"] = map[string]string{"code": "batch_cancelled", "message": "This request was not executed because the batch was cancelled."}
	default:
		status, body := t.reply(t.call.dialect())
		line["response"] = map[string]any{"status_code": status, "request_id": t.call.id("req_"), "body": body}
	}
	return line
}

// dialect returns that of a call in a file: chat completions or responses.
func (c *call) dialect() dialect {
	if c.req.responses != nil {
		return responses{}
	}
	return chat{}
}

// createFromFile begins a batch. OpenAI answers before it has looked into the file: what is wrong with it makes the batch
// fail.
func (s *Simulator) createFromFile(w http.ResponseWriter, r *http.Request) {
	if !s.admitsBatches(chat{}, w, r) {
		return
	}
	var asked struct {
		Input    string            `json:"input_file_id"`
		Endpoint string            `json:"endpoint"`
		Window   string            `json:"completion_window"`
		Metadata map[string]string `json:"metadata"`
		Expires  json.RawMessage   `json:"output_expires_after"`
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestBytes))
	if err == nil {
		err = strictly(body, &asked)
	}
	f := s.fileOf(asked.Input)
	d, known := map[string]dialect{"/v1/chat/completions": chat{}, "/v1/responses": responses{}}[asked.Endpoint]
	wrong := ""
	switch {
	case err != nil:
		wrong = "Invalid body: " + err.Error()
	case asked.Window != "24h":
		wrong = fmt.Sprintf("Invalid value: '%s'. Supported values are: '24h'.", asked.Window)
	case !known:
		wrong = fmt.Sprintf("Invalid value: '%s'. Supported values are: '/v1/responses', '/v1/chat/completions'.", asked.Endpoint)
	case f == nil:
		wrong = "File " + asked.Input + " not found."
	}
	if wrong != "" {
		refuse(chat{}, w, problem{failure: BadRequest, message: wrong})
		return
	}

	asks, problem := tasksOf(r, d, asked.Endpoint, f.content)
	var b *batch
	if problem == nil {
		var refused *refusal
		if b, refused = s.openBatch(filePrefix, asks, true); refused != nil && refused.unknown != "" {
			problem = &batchProblem{code: "model_not_found", message: "The model `" + refused.unknown + "` does not exist."}
		}
	}
	if problem != nil {
		b = s.failBatch(problem)
	}
	tellBatch(w, r, b, s.shown(b, func(b *batch, _ time.Time) map[string]any {
		b.input, b.metadata = asked.Input, asked.Metadata
		return b.fileObject(b.created)
	}))
}

// failBatch keeps a batch that failed before it began.
func (s *Simulator) failBatch(p *batchProblem) *batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := &batch{created: time.Now(), refused: p, luck: fmt.Sprint(s.config.Seed, len(s.batches.all))}
	b.id = fmt.Sprintf("%s%016x", filePrefix, hashOf("batch", b.luck))
	s.batches.all = append(s.batches.all, b)
	s.all.batched.Refused++
	return b
}

// tasksOf reads the lines of a file of requests.
func tasksOf(r *http.Request, d dialect, endpoint string, content []byte) ([]ask, *batchProblem) {
	var asks []ask
	seen := map[string]bool{}
	number := 0
	for raw := range bytes.Lines(content) {
		number++
		if len(bytes.TrimSpace(raw)) == 0 {
			continue
		}
		var line struct {
			ID     string          `json:"custom_id"`
			Method string          `json:"method"`
			URL    string          `json:"url"`
			Body   json.RawMessage `json:"body"`
		}
		err := strictly(raw, &line)
		switch {
		case err != nil:
			return nil, &batchProblem{"invalid_json_line", "This line is not parseable as valid JSON.", number}
		case line.ID == "":
			return nil, &batchProblem{"missing_required_parameter", "Missing required parameter: 'custom_id'.", number}
		case seen[line.ID]:
			return nil, &batchProblem{"duplicate_custom_id", "The custom_id '" + line.ID + "' is used more than once.", number}
		case line.Method != http.MethodPost || line.URL != endpoint:
			return nil, &batchProblem{"mismatched_url", "The URL provided for this request does not match the batch endpoint.", number}
		}
		seen[line.ID] = true
		req, err := d.parse(r, line.Body)
		if len(asks) > 0 && req.model != asks[0].req.model {
			return nil, &batchProblem{"mismatched_model", "The provided model does not match that of the first line.", number}
		}
		asks = append(asks, ask{id: line.ID, req: req, wrong: err})
	}

	switch {
	case len(asks) == 0:
		return nil, &batchProblem{code: "empty_file", message: "The input file is empty."}
	case len(asks) > mostTasks:
		return nil, &batchProblem{code: "too_many_tasks", message: fmt.Sprintf("The batch has more than %d requests.", mostTasks)}
	}
	return asks, nil
}

// tellFromFile answers with the state of a batch, which it may cancel first.
func (s *Simulator) tellFromFile(w http.ResponseWriter, r *http.Request, cancel bool) {
	if !s.admitsBatches(chat{}, w, r) {
		return
	}
	id := r.PathValue("id")
	b, _ := s.batchOf(id)
	switch {
	case b == nil || !strings.HasPrefix(id, filePrefix):
		refuse(chat{}, w, problem{failure: BadRequest, status: http.StatusNotFound, message: "No batch found with id '" + id + "'."})
		return
	case cancel && !s.cancelBatch(b):
		status := s.shown(b, (*batch).fileObject)["status"]
		refuse(chat{}, w, problem{
			failure: BadRequest, status: http.StatusConflict, message: fmt.Sprintf("Cannot cancel a batch with status '%s'.", status),
		})
		return
	}
	reply{status: http.StatusOK, body: []byte(encode(s.shown(b, (*batch).fileObject)))}.send(w)
}

func (s *Simulator) listFromFiles(w http.ResponseWriter, r *http.Request) {
	if !s.admitsBatches(chat{}, w, r) {
		return
	}
	limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil || limit < 1 || limit > 100 {
		limit = 20
	}
	page, more := s.listBatches(filePrefix, r.URL.Query().Get("after"), limit)
	list := map[string]any{"object": "list", "has_more": more, "first_id": nil, "last_id": nil}
	data := []any{}
	for _, b := range page {
		data = append(data, s.shown(b, (*batch).fileObject))
	}
	if list["data"] = data; len(page) > 0 {
		list["first_id"], list["last_id"] = page[0].id, page[len(page)-1].id
	}
	reply{status: http.StatusOK, body: []byte(encode(list))}.send(w)
}

// fileStatus returns the state in OpenAI's words.
func (b *batch) fileStatus(now time.Time) string {
	begun, finalizing := b.created.Add(b.lasts/8), b.created.Add(b.lasts*7/8)
	switch {
	case b.ended.IsZero() && !b.cancelled.IsZero():
		return "cancelling"
	case b.ended.IsZero() && (b.refused != nil || now.Before(begun)):
		return "validating"
	case b.ended.IsZero() && now.Before(finalizing):
		return "in_progress"
	case b.ended.IsZero():
		return "finalizing"
	case b.refused != nil:
		return "failed"
	case !b.cancelled.IsZero():
		return "cancelled"
	case b.has(taskExpired):
		return "expired"
	}
	return "completed"
}

// fileObject returns the batch as OpenAI shows it.
func (b *batch) fileObject(now time.Time) map[string]any {
	status := b.fileStatus(now)
	at := func(when time.Time, is bool) any {
		if !is {
			return nil
		}
		return when.Unix()
	}
	object := map[string]any{
		"id": b.id, "object": "batch", "endpoint": "/v1/chat/completions", "model": b.model, "errors": nil, "input_file_id": b.input,
		"completion_window": "24h", "status": status, "output_file_id": nil, "error_file_id": nil, "metadata": b.metadata,
		"created_at": b.created.Unix(), "expires_at": b.expires().Unix(),
		"in_progress_at": at(b.created.Add(b.lasts/8), status != "validating" && status != "failed"),
		"finalizing_at":  at(b.ended, status == "completed" || status == "expired"),
		"completed_at":   at(b.ended, status == "completed"),
		"failed_at":      at(b.ended, status == "failed"),
		"expired_at":     at(b.ended, status == "expired"),
		"cancelling_at":  at(b.cancelled, !b.cancelled.IsZero()),
		"cancelled_at":   at(b.ended, status == "cancelled"),
		"request_counts": map[string]int{"total": len(b.tasks), "completed": b.count(taskAnswered), "failed": b.count(taskFailed)},
	}

	if len(b.tasks) > 0 && b.tasks[0].call.req.responses != nil {
		object["endpoint"] = "/v1/responses"
	}
	if b.refused != nil && status == "failed" {
		var line any
		if b.refused.line > 0 {
			line = b.refused.line
		}
		object["errors"] = map[string]any{"object": "list", "data": []any{
			map[string]any{"code": b.refused.code, "message": b.refused.message, "param": nil, "line": line},
		}}
	}

	if !b.ended.IsZero() && b.has(taskAnswered) {
		object["output_file_id"] = outputPrefix + b.id
	}
	if !b.ended.IsZero() && b.count(taskFailed, taskExpired, taskCancelled) > 0 {
		object["error_file_id"] = errorPrefix + b.id
	}
	return object
}
