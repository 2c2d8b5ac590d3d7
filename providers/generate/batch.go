package generate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/transport"
)

var _ providers.Batches = (*Provider)(nil)

// The bounds of a batch whose requests are sent with it, read on 2026-11-30 at
// https://ai.google.dev/gemini-api/docs/batch-api: 20 MB. It states no number of requests.
const (
	mostRequests = 50_000
	mostBytes    = 20_000_000
)

const batchesPath = "v1beta/batches"

// Bounds on the search for a batch.
const (
	clocksDiffer = 10 * time.Minute // between Google and this process
	pageSize     = 100              // of the list of batches
	mostPages    = 100
)

// BatchBounds returns Google's bounds; see providers.Batches.
func (p *Provider) BatchBounds() providers.BatchBounds {
	return providers.BatchBounds{Requests: mostRequests, Bytes: mostBytes}
}

// SubmitBatch creates a batch with the name as its display name; see providers.Batches.
func (p *Provider) SubmitBatch(ctx context.Context, key, name string, requests []providers.BatchRequest) (string, error) {
	if err := providers.CheckBatch(name, requests, p.BatchBounds()); err != nil {
		return "", err
	}
	model := strings.TrimPrefix(requests[0].Request.Model, "models/")
	inline := make([]object, len(requests))
	for i, r := range requests {
		own := *r.Request
		own.Key = key
		x, err := p.endpoint.Begin(&own, model)
		if err != nil {
			return "", err
		}
		body, _ := encode(x.Request, x.Capabilities, x.Format)
		delete(body, "serviceTier") // a batch is a tier of its own
		inline[i] = object{"request": body, "metadata": object{"key": r.ID}}
	}

	raw, err := transport.BatchBody("Google", mostBytes,
		object{"batch": object{"displayName": name, "inputConfig": object{"requests": object{"requests": inline}}}})
	if err != nil {
		return "", err
	}
	answer, err := p.endpoint.Send(ctx, transport.Post{
		Path: path(model, "batchGenerateContent"), Key: key, Body: raw,
		Ready: requests[0].Request.Ready, Connected: requests[0].Request.Connected,
	})
	if err != nil {
		return "", err
	}
	var made struct {
		Name  string           `json:"name"`
		Error *json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(answer.Body, &made); err != nil {
		return "", answer.Malformed(err)
	}
	if made.Name == "" || made.Error != nil {
		return "", answer.Without(errNoBatch.Error())
	}
	return made.Name, nil
}

var errNoBatch = errors.New("no name of a batch")

// operation has what is read of a batch. Its answers, which Google adds to it, are skipped.
type operation struct {
	name, display, state       string
	created                    time.Time
	requests, answered, failed int
	fault                      fault
}

// fault is why a batch or one of its requests failed, in the form of google.rpc.Status.
type fault struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// note takes a value of the operation, if it is of use.
func (o *operation) note(path string, token json.Token) {
	text, _ := token.(string)
	number := func() int {
		n, err := strconv.Atoi(text) // protocol buffers write int64 as text
		if code, is := token.(float64); is {
			n, err = int(code), nil
		}
		if err != nil || n < 0 {
			return 0
		}
		return n
	}

	switch path {
	case "name":
		o.name = text
	case "metadata.displayName":
		o.display = text
	case "metadata.state":
		o.state = text
	case "metadata.createTime":
		o.created, _ = time.Parse(time.RFC3339, text)
	case "metadata.batchStats.requestCount":
		o.requests = number()
	case "metadata.batchStats.successfulRequestCount":
		o.answered = number()
	case "metadata.batchStats.failedRequestCount":
		o.failed = number()
	case "error.code":
		o.fault.Code = number()
	case "error.message":
		o.fault.Message = text
	}
}

// ended are the ends of the names of states in which a batch has ended, which begin with BATCH_STATE_ or JOB_STATE_.
var ended = []string{"_SUCCEEDED", "_PARTIALLY_SUCCEEDED", "_FAILED", "_CANCELLED", "_EXPIRED"}

func (o *operation) ended() bool {
	return slices.ContainsFunc(ended, func(end string) bool { return strings.HasSuffix(o.state, end) })
}

// batchState returns how far the batch is.
func (o *operation) batchState(answer *transport.Answer) providers.BatchState {
	s := providers.BatchState{Ended: o.ended(), Total: o.requests, Answered: o.answered, Failed: o.failed}
	if !o.created.IsZero() {
		s.Expires = o.created.Add(48 * time.Hour) // "running or pending for more than 48 hours"
	}
	if s.Ended {
		s.Failed = max(s.Failed, s.Total-s.Answered)
	}
	if strings.HasSuffix(o.state, "_FAILED") {
		said, _ := json.Marshal(o.fault) // of a number and a text
		s.Failure = o.fault.classify(answer, said)
		s.Failure.MayBeBilled = false
	}
	return s
}

// statuses maps the codes of google.rpc.Status to those of HTTP.
var statuses = map[int]int{
	1: 499, 2: 500, 3: 400, 4: 504, 5: 404, 6: 409, 7: 403, 8: 429, 9: 400, 10: 409, 11: 400, 12: 501, 13: 500, 14: 503, 15: 500, 16: 401,
}

// classify returns the error that was read from said.
func (f fault) classify(answer *transport.Answer, said []byte) *providers.Error {
	return answer.Part(statuses[f.Code], "", said).FailureIn(said)
}

// FindBatch looks through the batches since then for one with the display name; see providers.Batches.
func (p *Provider) FindBatch(ctx context.Context, key, name string, since time.Time, _ int) (string, error) {
	query := url.Values{"pageSize": {strconv.Itoa(pageSize)}}
	for range mostPages {
		var page []operation
		next := ""
		current := operation{}
		get := transport.Post{Method: http.MethodGet, Path: batchesPath, Query: query, Key: key}
		err := p.endpoint.Stream(ctx, get, func(body io.Reader, answer *transport.Answer) error {
			return answer.Walk(ctx, body, func(path string, token json.Token) error {
				within, is := strings.CutPrefix(path, "operations.")
				switch {
				case is:
					current.note(within, token)
				case path == "operations" && token == json.Delim('}'):
					page = append(page, current)
					current = operation{}
				case path == "nextPageToken":
					next, _ = token.(string)
				case path == "error" && token == json.Delim('{'):
					return answer.Fail(providers.Transient, "an error instead of a list of batches")
				case path == "" && token != json.Delim('{') && token != json.Delim('}'):
					return answer.Malformed(errors.New("no list of batches"))
				}
				return nil
			}, nil)
		})
		if err != nil {
			return "", transport.Unbilled(err)
		}

		for _, o := range page {
			if o.display == name {
				return o.name, nil
			}
		}
		newestFirst := func(a, b operation) int { return b.created.Compare(a.created) } // in another order, all pages are read
		older := slices.IsSortedFunc(page, newestFirst) && len(page) > 0 && page[0].created.Before(since.Add(-clocksDiffer))
		if next == "" || older {
			return "", nil
		}
		query.Set("pageToken", next)
	}
	return "", &providers.Error{Class: providers.Malformed, Message: fmt.Sprintf("more than %d batches since %s", mostPages*pageSize, since)}
}

// PollBatch asks once; see providers.Batches. Google sends the answers of a batch that has ended, too; they are skipped.
func (p *Provider) PollBatch(ctx context.Context, key, id string) (state providers.BatchState, err error) {
	err = p.batch(ctx, key, id, func(body io.Reader, answer *transport.Answer) error {
		o, err := readOperation(ctx, body, answer, nil)
		if err == nil {
			state = o.batchState(answer)
		}
		return err
	})
	return state, transport.AboutObject(err)
}

// readOperation reads a batch. each gets its answers, unless it is nil; what follows them is then not read.
func readOperation(
	ctx context.Context, body io.Reader, answer *transport.Answer, each func(element []byte, whole bool) error,
) (operation, error) {
	var o operation
	err := answer.Walk(ctx, body, func(path string, token json.Token) error {
		o.note(path, token)
		if each != nil && token == json.Delim('[') && strings.HasSuffix("."+path, ".inlinedResponses.inlinedResponses") {
			o.state = read
			return transport.ErrElements
		}
		return nil
	}, each)
	if err == nil && o.state == "" && o.name == "" {
		err = answer.Malformed(errNoBatch)
	}
	return o, err
}

// read is the state of an operation whose answers were read.
const read = "_SUCCEEDED"

// batch gets a batch.
func (p *Provider) batch(ctx context.Context, key, id string, with func(io.Reader, *transport.Answer) error) error {
	path, err := batchPath(id)
	if err != nil {
		return err
	}
	return p.endpoint.Stream(ctx, transport.Post{Method: http.MethodGet, Path: path, Key: key}, with)
}

// batchPath returns the path of a batch, whose ID is "batches/" and a name.
func batchPath(id string) (string, error) {
	name := strings.TrimPrefix(id, "batches/")
	if strings.Trim(name, ".") == "" { // dots would change the path
		return "", &providers.Error{Class: providers.BadRequest, Message: errNoBatch.Error(), Err: errNoBatch}
	}
	return batchesPath + "/" + url.PathEscape(name), nil
}

// CancelBatch asks for the end; see providers.Batches. If Google refuses, the batch is polled once: one that has ended,
// or is unknown, counts as cancelled.
func (p *Provider) CancelBatch(ctx context.Context, key, id string) error {
	path, err := batchPath(id)
	if err != nil {
		return err
	}
	_, err = p.endpoint.Send(ctx, transport.Post{Path: path + ":cancel", Key: key})
	return transport.Ended(transport.AboutObject(err), func() (providers.BatchState, error) { return p.PollBatch(ctx, key, id) })
}

// BatchAnswers reads the answers, which are in the batch itself; see providers.Batches. A batch that expired has none,
// and Google does not say whether one that was cancelled has those that were made before.
func (p *Provider) BatchAnswers(
	ctx context.Context, key, id string, each func(request string, result *providers.Result, err error) error,
) error {
	sorter := transport.Sorter{Each: each}
	var unnamed error
	err := p.batch(ctx, key, id, func(body io.Reader, answer *transport.Answer) error {
		o, err := readOperation(ctx, body, answer, func(element []byte, whole bool) error {
			return sorter.Take(readElement(answer, element, whole))
		})
		if err == nil && !o.ended() {
			err = answer.Fail(providers.Transient, "the batch has not ended: "+o.state)
		}
		unnamed = sorter.Strays(answer)
		return err
	})
	if err != nil {
		return sorter.Failed(err)
	}
	return unnamed
}

// readElement reads the answer to one request. Without the request's ID, err says what is wrong with it.
func readElement(answer *transport.Answer, element []byte, whole bool) (request string, result *providers.Result, err error) {
	var said struct {
		Metadata struct {
			Key string `json:"key"`
		} `json:"metadata"`
		Response json.RawMessage `json:"response"`
		Error    json.RawMessage `json:"error"`
	}

	part := answer.Part(0, "", element)
	if !whole {
		return transport.TextIn(element, "metadata", "key"), nil, answer.Fits(len(element))
	}
	if err := json.Unmarshal(element, &said); err != nil {
		return transport.TextIn(element, "metadata", "key"), nil, part.Malformed(err)
	}

	var why fault
	_ = json.Unmarshal(said.Error, &why) // leaves it empty
	switch {
	case said.Metadata.Key == "":
		return "", nil, part.Malformed(errors.New("no key in the metadata"))
	case why.Code == 1, why.Code == 4: // cancelled, or the batch's deadline passed
		err = transport.Unbilled(part.Fail(providers.Cancelled, "the request was not answered: "+why.Message))
	case len(said.Error) > 0:
		err = why.classify(answer, said.Error)
	case len(said.Response) == 0:
		err = part.Malformed(errors.New("neither a response nor an error"))
	default:
		result, err = answer.Part(0, "", said.Response).InBatch(decode)
	}
	return said.Metadata.Key, result, err
}
