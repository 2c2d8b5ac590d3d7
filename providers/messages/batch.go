package messages

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
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

// The bounds of a batch, read on 2026-11-30 at https://docs.claude.com/en/docs/build-with-claude/batch-processing:
// 100,000 requests or 256 MB.
const (
	mostRequests = 100_000
	mostBytes    = 256_000_000
)

const batchesPath = "v1/messages/batches"

// Bounds on the search for a batch.
const (
	// clocksDiffer is how much the clocks of Anthropic and of this process may differ.
	clocksDiffer = 10 * time.Minute
	// longestSubmission is how long after its submission began a batch may be created.
	longestSubmission = time.Hour
	pageSize          = 100 // of the list of batches
	mostPages         = 100
)

// BatchBounds returns Anthropic's bounds; see providers.Batches.
func (p *Provider) BatchBounds() providers.BatchBounds {
	return providers.BatchBounds{Requests: mostRequests, Bytes: mostBytes}
}

// mark returns what the custom_ids of a batch begin with. Batches have no name, so their requests say it.
func mark(name string) string {
	sum := sha256.Sum256([]byte(name))
	return base64.RawURLEncoding.EncodeToString(sum[:])[:markLength-1] + "_"
}

// markLength is the length of a mark; with it, an ID has at most the 64 characters of a custom_id.
const markLength = 64 - providers.MostBatchID

// SubmitBatch creates a batch; see providers.Batches. It takes up to an hour.
func (p *Provider) SubmitBatch(ctx context.Context, key, name string, requests []providers.BatchRequest) (string, error) {
	if err := providers.CheckBatch(name, requests, p.BatchBounds()); err != nil {
		return "", err
	}
	type line struct {
		ID     string `json:"custom_id"`
		Params object `json:"params"`
	}
	lines := make([]line, len(requests))
	for i, r := range requests {
		own := *r.Request
		own.Key = key
		x, err := p.endpoint.Begin(&own, own.Model)
		if err != nil {
			return "", err
		}
		body, _ := compose(x.Request, x.Capabilities, x.Format)
		delete(body, "service_tier") // a batch is a tier of its own
		lines[i] = line{mark(name) + r.ID, body}
	}

	raw, err := transport.BatchBody("Anthropic", mostBytes, object{"requests": lines})
	if err != nil {
		return "", err
	}
	ctx, stop := context.WithTimeout(ctx, longestSubmission)
	defer stop()
	answer, err := p.endpoint.Send(ctx, transport.Post{
		Path: batchesPath, Header: versioned(), Key: key, Body: raw,
		Ready: requests[0].Request.Ready, Connected: requests[0].Request.Connected,
	})
	if err != nil {
		return "", err
	}
	b, err := readBatch(answer)
	return b.ID, err
}

// versioned returns the header that every request has.
func versioned() http.Header { return http.Header{"Anthropic-Version": {version}} }

// batch has the fields read from a batch.
type batch struct {
	ID      string    `json:"id"`
	Status  string    `json:"processing_status"`
	Created time.Time `json:"created_at"`
	Expires time.Time `json:"expires_at"`
	Counts  struct {
		Processing int `json:"processing"`
		Succeeded  int `json:"succeeded"`
		Errored    int `json:"errored"`
		Canceled   int `json:"canceled"`
		Expired    int `json:"expired"`
	} `json:"request_counts"`
}

// processed is the status of a batch whose results can be read.
const processed = "ended"

// state returns how far the batch is. Until its end, Anthropic counts all requests as processing.
func (b *batch) state() providers.BatchState {
	failed := b.Counts.Errored + b.Counts.Canceled + b.Counts.Expired
	return providers.BatchState{
		Ended:      b.Status == processed,
		Cancelling: b.Status == "canceling",
		Total:      b.Counts.Processing + b.Counts.Succeeded + failed,
		Answered:   b.Counts.Succeeded,
		Failed:     failed,
		Expires:    b.Expires,
	}
}

func readBatch(answer *transport.Answer) (batch, error) {
	var b batch
	if err := json.Unmarshal(answer.Body, &b); err != nil {
		return batch{}, answer.Malformed(err)
	}
	if b.ID == "" {
		return batch{}, answer.Without(errNoBatch.Error())
	}
	return b, nil
}

var errNoBatch = errors.New("no batch id")

// FindBatch looks for a batch whose requests have the name's mark; see providers.Batches. Anthropic shows the requests
// of a batch only when it has ended. So a batch is passed over if it was not created within an hour of since, has another
// number of requests, or is one of providers.WithOtherBatches. If one that is left has not ended, and none that has ended
// is the batch, the error has providers.ErrUndecided in its chain. A batch under way is never assumed to be the one:
// it may be someone else's.
func (p *Provider) FindBatch(ctx context.Context, key, name string, since time.Time, requests int) (string, error) {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	earliest, latest := since.Add(-clocksDiffer), since.Add(longestSubmission+clocksDiffer)
	undecided, others := 0, providers.OtherBatches(ctx)
	for range mostPages {
		get := transport.Post{Method: http.MethodGet, Path: batchesPath, Query: query, Header: versioned(), Key: key}
		answer, err := p.endpoint.Send(ctx, get)
		if err != nil {
			return "", transport.Unbilled(err)
		}
		var list struct {
			Data    *[]batch `json:"data"` // the newest first
			HasMore bool     `json:"has_more"`
		}
		if err := json.Unmarshal(answer.Body, &list); err != nil {
			return "", transport.Unbilled(answer.Malformed(err))
		}
		if list.Data == nil {
			return "", transport.Unbilled(answer.Without("no list of batches"))
		}

		for _, b := range *list.Data {
			switch {
			case b.Created.Before(earliest), b.Created.After(latest), b.state().Total != requests:
				continue
			case slices.Contains(others, b.ID):
				continue
			case b.Status != processed:
				undecided++
				continue
			}
			is, err := p.isNamed(ctx, key, b.ID, name)
			switch {
			case err != nil:
				return "", err
			case is:
				return b.ID, nil
			}
		}
		if batches := *list.Data; list.HasMore && len(batches) > 0 && !batches[len(batches)-1].Created.Before(earliest) {
			query.Set("after_id", batches[len(batches)-1].ID)
			continue
		}
		if undecided > 0 {
			return "", &providers.Error{
				Class: providers.Transient, Err: providers.ErrUndecided,
				Message: fmt.Sprintf("%d batches of %d requests have not ended, and Anthropic shows requests only then", undecided, requests),
			}
		}
		return "", nil
	}
	return "", &providers.Error{Class: providers.Malformed, Message: fmt.Sprintf("more than %d batches since %s", mostPages*pageSize, since)}
}

// isNamed reports whether the requests of a batch that has ended have the name's mark. It reads one result. A batch whose
// results Anthropic no longer has is not the one: they are kept for 29 days.
func (p *Provider) isNamed(ctx context.Context, key, id, name string) (is bool, err error) {
	enough := errors.New("one is enough")
	err = p.results(ctx, key, id, func(request string, _ *providers.Result, _ error) error {
		is = strings.HasPrefix(request, mark(name))
		return enough
	})
	switch {
	case errors.Is(err, enough):
		return is, nil
	case err != nil && providers.ClassOf(err) == providers.Lost:
		return false, nil
	}
	return false, err
}

// PollBatch asks once; see providers.Batches.
func (p *Provider) PollBatch(ctx context.Context, key, id string) (providers.BatchState, error) {
	b, err := p.batch(ctx, http.MethodGet, key, id, "")
	if err != nil {
		return providers.BatchState{}, err
	}
	return b.state(), nil
}

// CancelBatch asks for the end; see providers.Batches. If Anthropic refuses, the batch is polled once: one that has
// ended, or is unknown, counts as cancelled.
func (p *Provider) CancelBatch(ctx context.Context, key, id string) error {
	_, err := p.batch(ctx, http.MethodPost, key, id, "/cancel")
	return transport.Ended(err, func() (providers.BatchState, error) { return p.PollBatch(ctx, key, id) })
}

// batch makes a request about a batch. None is billed.
func (p *Provider) batch(ctx context.Context, method, key, id, verb string) (batch, error) {
	if strings.Trim(id, ".") == "" { // dots would change the path
		return batch{}, &providers.Error{Class: providers.BadRequest, Message: errNoBatch.Error(), Err: errNoBatch}
	}
	answer, err := p.endpoint.Send(ctx, transport.Post{
		Method: method, Path: batchesPath + "/" + url.PathEscape(id) + verb, Header: versioned(), Key: key,
	})
	if err != nil {
		return batch{}, transport.AboutObject(err)
	}
	b, err := readBatch(answer)
	return b, transport.Unbilled(err)
}

// BatchAnswers reads the results; see providers.Batches. Anthropic keeps them for 29 days.
func (p *Provider) BatchAnswers(
	ctx context.Context, key, id string, each func(request string, result *providers.Result, err error) error,
) error {
	b, err := p.batch(ctx, http.MethodGet, key, id, "")
	if err != nil {
		return err
	}
	if b.Status != processed {
		return &providers.Error{Class: providers.Transient, Message: "the batch has not ended: " + b.Status}
	}
	return p.results(ctx, key, id, func(request string, result *providers.Result, err error) error {
		if len(request) > markLength {
			request = request[markLength:]
		}
		return each(request, result, err)
	})
}

// results reads the results of a batch that has ended, with the custom_ids as they are.
func (p *Provider) results(
	ctx context.Context, key, id string, each func(request string, result *providers.Result, err error) error,
) error {
	sorter := transport.Sorter{Each: each}
	var unnamed error
	get := transport.Post{Method: http.MethodGet, Path: batchesPath + "/" + url.PathEscape(id) + "/results", Header: versioned(), Key: key}

	err := p.endpoint.Stream(ctx, get, func(body io.Reader, answer *transport.Answer) error {
		err := answer.Lines(ctx, body, func(line []byte, whole bool) error {
			return sorter.Take(readResult(answer, line, whole))
		})
		unnamed = sorter.Strays(answer)
		return err
	})
	if err != nil {
		return sorter.Failed(err)
	}
	return unnamed
}

// readResult reads the answer to one request. Without the request's ID, err says what is wrong with the line.
func readResult(answer *transport.Answer, line []byte, whole bool) (request string, result *providers.Result, err error) {
	var said struct {
		ID     string `json:"custom_id"`
		Result struct {
			Type    string          `json:"type"`
			Message json.RawMessage `json:"message"`
			Error   json.RawMessage `json:"error"`
		} `json:"result"`
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
	case said.Result.Type == "succeeded":
		result, err = answer.Part(0, "", said.Result.Message).InBatch(plain)
	case said.Result.Type == "errored":
		err = transport.Unbilled(answer.Part(0, "", said.Result.Error).Failure())
	case said.Result.Type == "canceled", said.Result.Type == "expired":
		err = transport.Unbilled(part.Fail(providers.Cancelled, "the request "+said.Result.Type))
	default:
		err = part.Malformed(fmt.Errorf("result of type %q", said.Result.Type))
	}
	return said.ID, result, err
}

// plain reads an ordinary answer. A turn that is paused cannot be continued in a batch.
func plain(answer *transport.Answer) (*providers.Result, error) {
	var t turn
	if err := t.add(answer); err != nil {
		return nil, err
	}
	if t.paused() {
		failed := answer.Fail(providers.Transient, "the model paused, and a batch cannot continue it")
		failed.Used, failed.MayBeBilled = t.usage, true
		return nil, failed
	}
	return t.result()
}
