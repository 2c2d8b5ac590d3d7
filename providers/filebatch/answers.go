package filebatch

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// batch has the fields read from a batch, in the words of all vendors.
type batch struct {
	ID        string `json:"id"`
	Status    string `json:"status"`
	CreatedAt int64  `json:"created_at"`
	ExpiresAt int64  `json:"expires_at"`
	Metadata  struct {
		Name string `json:"evalfleet_batch"` // nameKey
	} `json:"metadata"`
	Counts struct {
		Total     int `json:"total"`
		Completed int `json:"completed"`
		Failed    int `json:"failed"`
	} `json:"request_counts"`
	OutputFile string     `json:"output_file_id"`
	ErrorFile  string     `json:"error_file_id"`
	Errors     mistakes   `json:"errors"`
	Mistral    mistralJob `json:"-"`
}

// mistralJob has the fields for which Mistral has other names.
type mistralJob struct {
	OutputFile string `json:"output_file"`
	ErrorFile  string `json:"error_file"`
	Total      int    `json:"total_requests"`
	Succeeded  int    `json:"succeeded_requests"`
	Failed     int    `json:"failed_requests"`
}

// UnmarshalJSON reads both forms.
func (b *batch) UnmarshalJSON(raw []byte) error {
	type fields batch
	if err := json.Unmarshal(raw, (*fields)(b)); err != nil {
		return err
	}
	return json.Unmarshal(raw, &b.Mistral)
}

// mistakes are the reasons why a whole batch failed.
type mistakes []json.RawMessage

// UnmarshalJSON never fails. OpenAI has the list in an object, Mistral has it alone.
func (m *mistakes) UnmarshalJSON(raw []byte) error {
	var list struct {
		Data []json.RawMessage `json:"data"`
	}
	if json.Unmarshal(raw, &list) != nil {
		_ = json.Unmarshal(raw, &list.Data) // leaves it empty
	}
	*m = list.Data
	return nil
}

// read reads a batch.
func read(answer *transport.Answer) (batch, error) {
	var b batch
	if err := json.Unmarshal(answer.Body, &b); err != nil {
		return batch{}, answer.Malformed(err)
	}
	if b.ID == "" {
		return batch{}, answer.Without(errNoID.Error())
	}
	return b, nil
}

// The states in which a batch has ended, in the words of OpenAI and of Mistral.
var (
	ended    = []string{"completed", "success", "expired", "timeout_exceeded", "cancelled", "failed"}
	whole    = []string{"completed", "success"}
	allWrong = "failed"

	cancelling = []string{"cancelling", "cancellation_requested"}
)

func (b *batch) ended() bool { return slices.Contains(ended, strings.ToLower(b.Status)) }

// state returns how far the batch is. Requests without an answer at its end have failed.
func (b *batch) state(answer *transport.Answer) providers.BatchState {
	s := providers.BatchState{
		Ended:      b.ended(),
		Cancelling: slices.Contains(cancelling, strings.ToLower(b.Status)),
		Total:      max(b.Counts.Total, b.Mistral.Total, 0),
		Answered:   max(b.Counts.Completed, b.Mistral.Succeeded, 0),
		Failed:     max(b.Counts.Failed, b.Mistral.Failed, 0),
	}
	if b.ExpiresAt > 0 {
		s.Expires = time.Unix(b.ExpiresAt, 0)
	}
	if s.Ended && !slices.Contains(whole, strings.ToLower(b.Status)) {
		s.Failed = max(s.Failed, s.Total-s.Answered)
	}
	if strings.ToLower(b.Status) == allWrong && s.Answered == 0 {
		s.Failure = b.failure(answer)
	}
	return s
}

// failure returns why the whole batch failed.
func (b *batch) failure(answer *transport.Answer) *providers.Error {
	failed := answer.Fail(providers.BadRequest, "the provider refused the batch and does not say why")
	if len(b.Errors) > 0 {
		failed = answer.Part(0, "", b.Errors[0]).FailureIn(b.Errors[0])
	}
	if failed.Class == providers.Transient { // such as invalid_json_line: another attempt fails, too
		failed.Class = providers.BadRequest
	}
	failed.MayBeBilled = false
	return failed
}

// BatchAnswers reads the file of answers, then that of errors; see providers.Batches. Requests that failed without a
// trace in them are not passed to each.
func (b Batches) BatchAnswers(
	ctx context.Context, key, id string, each func(request string, result *providers.Result, err error) error,
) error {
	now, answer, err := b.get(ctx, http.MethodGet, key, id, "")
	if err != nil {
		return err
	}
	if !now.ended() {
		return transport.Unbilled(answer.Fail(providers.Transient, "the batch has not ended: "+now.Status))
	}

	sorter := transport.Sorter{Each: each}
	for _, file := range []string{now.OutputFile, now.ErrorFile, now.Mistral.OutputFile, now.Mistral.ErrorFile} {
		if file == "" {
			continue
		}
		get := transport.Post{Method: http.MethodGet, Path: "files/" + url.PathEscape(file) + "/content", Key: key}
		err := b.Endpoint.Stream(ctx, get, func(body io.Reader, answer *transport.Answer) error {
			return answer.Lines(ctx, body, func(line []byte, whole bool) error {
				return sorter.Take(b.readLine(answer, line, whole))
			})
		})
		if err != nil {
			return sorter.Failed(err)
		}
	}
	return sorter.Strays(answer)
}

// readLine reads the answer to one request. Without the request's ID, err says what is wrong with the line.
func (b Batches) readLine(answer *transport.Answer, line []byte, whole bool) (request string, result *providers.Result, err error) {
	var said struct {
		ID       string `json:"custom_id"`
		Response *struct {
			Status    int             `json:"status_code"`
			RequestID string          `json:"request_id"`
			Body      json.RawMessage `json:"body"`
		} `json:"response"`
		Error json.RawMessage `json:"error"`
	}

	if !whole {
		return transport.TextIn(line, "custom_id"), nil, answer.Fits(len(line))
	}
	part := answer.Part(0, "", line)
	if err := json.Unmarshal(line, &said); err != nil {
		return transport.TextIn(line, "custom_id"), nil, part.Malformed(err)
	}

	switch {
	case said.ID == "":
		return "", nil, part.Malformed(errors.New("no custom_id"))
	case said.Response == nil || len(said.Response.Body) == 0:
		return said.ID, nil, unanswered(part, said.Error)
	}
	result, err = answer.Part(said.Response.Status, said.Response.RequestID, said.Response.Body).InBatch(b.Read)
	return said.ID, result, err
}

// unanswered returns the error of a request that has no response.
func unanswered(part *transport.Answer, said json.RawMessage) error {
	var object struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	_ = json.Unmarshal(said, &object) // leaves it empty
	switch object.Code {
	case "batch_expired", "batch_cancelled":
		return transport.Unbilled(part.Fail(providers.Cancelled, object.Code+": "+object.Message))
	case "request_timeout":
		return part.Fail(providers.Timeout, object.Code+": "+object.Message)
	case "":
		return part.Malformed(errors.New("the line has neither a response nor an error"))
	}
	return part.FailureIn(said)
}
