// Package filebatch speaks the batch endpoints of OpenAI's form, for the dialects that have them. The requests of a batch
// are the lines of a file that is uploaded first, and their answers are the lines of two others: answers and errors.
//
// Mistral's batch jobs are near enough: they have other paths and words, and the same lines.
package filebatch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// Batches implements providers.Batches for one dialect at one endpoint.
type Batches struct {
	Endpoint *transport.Endpoint
	// Answers is the path of the ordinary endpoint, as lines name it: "/v1/responses".
	Answers string
	// Body returns the body of an ordinary request, as the dialect sends it.
	Body func(*providers.Request) (map[string]any, error)
	// Read reads an ordinary answer.
	Read func(*transport.Answer) (*providers.Result, error)
	// Vendor is whose words the endpoint uses.
	Vendor Vendor
}

var _ providers.Batches = Batches{}

// Vendor is a vendor whose batch endpoints differ.
type Vendor string

// The vendors.
const (
	OpenAI  Vendor = "" // and Groq, which has the same
	Mistral Vendor = "mistral"
)

// The bounds of a file, read on 2026-11-30: https://developers.openai.com/api/docs/guides/batch states 50,000 requests
// and 200 MB, https://console.groq.com/docs/batch the same. https://docs.mistral.ai/capabilities/batch admits a million
// requests.
const (
	mostRequests = 50_000
	mostBytes    = 200_000_000
)

const (
	// nameKey is the key of a batch's name in its metadata.
	nameKey = "evalfleet_batch"
	// clocksDiffer is how much the clocks of the provider and of this process may differ.
	clocksDiffer = 10 * time.Minute
	// pageSize and mostPages bound the list of batches in which FindBatch looks for one.
	pageSize  = 100
	mostPages = 100
)

// BatchBounds returns the bounds of a file; see providers.Batches.
func (b Batches) BatchBounds() providers.BatchBounds {
	return providers.BatchBounds{Requests: mostRequests, Bytes: mostBytes}
}

// SubmitBatch uploads the requests and creates a batch of them; see providers.Batches. OpenAI keeps the file for 30 days.
func (b Batches) SubmitBatch(ctx context.Context, key, name string, requests []providers.BatchRequest) (string, error) {
	if err := providers.CheckBatch(name, requests, b.BatchBounds()); err != nil {
		return "", err
	}
	var form bytes.Buffer
	kind, err := b.form(&form, key, name, requests)
	if err != nil {
		return "", err
	}
	file, err := b.upload(ctx, key, form.Bytes(), kind)
	if err != nil {
		return "", transport.Unbilled(err) // a file is no batch
	}

	raw, _ := json.Marshal(b.creation(file, name, requests[0].Request.Model)) // of texts only
	answer, err := b.Endpoint.Send(ctx, transport.Post{
		Path: b.path(), Key: key, Body: raw, Ready: requests[0].Request.Ready, Connected: requests[0].Request.Connected,
	})
	if err != nil {
		return "", err
	}
	made, err := read(answer)
	if err != nil {
		return "", err
	}
	return made.ID, nil
}

// form writes the form that uploads the file of the requests, and returns its content type.
func (b Batches) form(to *bytes.Buffer, key, name string, requests []providers.BatchRequest) (kind string, err error) {
	form := multipart.NewWriter(to)
	_ = form.WriteField("purpose", "batch") // a buffer takes everything
	file, _ := form.CreateFormFile("file", name+".jsonl")
	before := to.Len()
	lines := json.NewEncoder(file)
	for _, r := range requests {
		own := *r.Request
		own.Key = key
		body, err := b.Body(&own)
		if err != nil {
			return "", err
		}
		delete(body, "service_tier") // a batch is a tier of its own
		if err := lines.Encode(b.line(r.ID, body)); err != nil {
			return "", &providers.Error{Class: providers.BadRequest, Message: "encode request " + r.ID + ": " + err.Error(), Err: err}
		}
	}

	if size := to.Len() - before; size > mostBytes {
		return "", &providers.Error{
			Class: providers.BadRequest, Message: fmt.Sprintf("the batch has %d bytes; the provider accepts %d", size, mostBytes),
		}
	}
	_ = form.Close()
	return form.FormDataContentType(), nil
}

// line returns one request. Mistral names the model and the endpoint only once, for the whole batch.
func (b Batches) line(id string, body map[string]any) map[string]any {
	if b.Vendor == Mistral {
		delete(body, "model")
		return map[string]any{"custom_id": id, "body": body}
	}
	return map[string]any{"custom_id": id, "method": http.MethodPost, "url": b.Answers, "body": body}
}

// upload returns the ID of the new file.
func (b Batches) upload(ctx context.Context, key string, form []byte, kind string) (string, error) {
	answer, err := b.Endpoint.Send(ctx, transport.Post{Path: "files", Key: key, Body: form, Type: kind})
	if err != nil {
		return "", err
	}
	var uploaded struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(answer.Body, &uploaded); err != nil {
		return "", answer.Malformed(err)
	}
	if uploaded.ID == "" {
		return "", answer.Without("no file id")
	}
	return uploaded.ID, nil
}

// creation returns the body of the request for a batch.
func (b Batches) creation(file, name, model string) map[string]any {
	body := map[string]any{"endpoint": b.Answers, "metadata": map[string]string{nameKey: name}}
	if b.Vendor == Mistral {
		body["input_files"], body["model"], body["timeout_hours"] = []string{file}, model, 24
		return body
	}
	body["input_file_id"], body["completion_window"] = file, "24h"
	return body
}

// FindBatch looks for the batch with the name in its metadata; see providers.Batches.
// A batch of the name that failed is found, too.
func (b Batches) FindBatch(ctx context.Context, key, name string, since time.Time, _ int) (string, error) {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	if b.Vendor == Mistral {
		query = url.Values{"page_size": {strconv.Itoa(pageSize)}}
	}
	oldest := since.Add(-clocksDiffer).Unix()
	for page := range mostPages {
		answer, err := b.Endpoint.Send(ctx, transport.Post{Method: http.MethodGet, Path: b.path(), Query: query, Key: key})
		if err != nil {
			return "", transport.Unbilled(err)
		}
		l, err := b.readList(answer)
		if err != nil {
			return "", transport.Unbilled(err)
		}

		for _, found := range l.Data {
			if found.Metadata.Name == name {
				return found.ID, nil
			}
		}
		older := slices.IsSortedFunc(l.Data, newestFirst) && len(l.Data) > 0 && l.Data[0].CreatedAt < oldest
		switch {
		case older, !l.more():
			return "", nil
		case l.Paging.Next != "":
			query.Set("cursor", l.Paging.Next)
		case b.Vendor == Mistral:
			query.Set("page", strconv.Itoa(page+1))
		default:
			query.Set("after", l.Data[len(l.Data)-1].ID)
		}
	}
	return "", &providers.Error{Class: providers.Malformed, Message: fmt.Sprintf("more than %d batches since %s", mostPages*pageSize, since)}
}

// list is a page of batches.
type list struct {
	Data    []batch `json:"data"`
	HasMore *bool   `json:"has_more"` // OpenAI
	Paging  struct {
		Next string `json:"next_cursor"`
	} `json:"paging"` // Groq
}

// more reports whether there may be another page.
func (l list) more() bool {
	switch {
	case l.Paging.Next != "":
		return true
	case l.HasMore != nil:
		return *l.HasMore && len(l.Data) > 0
	}
	return len(l.Data) >= pageSize // Mistral does not say
}

// readList reads a page. Without a list there is none: that a batch does not exist must not follow from any other answer.
func (b Batches) readList(answer *transport.Answer) (list, error) {
	var l list
	if err := json.Unmarshal(answer.Body, &l); err != nil {
		return list{}, answer.Malformed(err)
	}
	var said struct {
		Object string `json:"object"`
	}
	_ = json.Unmarshal(answer.Body, &said)                // leaves it empty
	empty := b.Vendor == Mistral && said.Object == "list" // which Mistral may leave out
	if l.Data == nil && !empty {
		return list{}, answer.Without("no list of batches")
	}
	return l, nil
}

// newestFirst compares batches by the order of lists, as far as is known. In another order, all pages are read.
func newestFirst(a, b batch) int { return cmp.Compare(b.CreatedAt, a.CreatedAt) }

// PollBatch asks once; see providers.Batches.
func (b Batches) PollBatch(ctx context.Context, key, id string) (providers.BatchState, error) {
	now, answer, err := b.get(ctx, http.MethodGet, key, id, "")
	if err != nil {
		return providers.BatchState{}, err
	}
	return now.state(answer), nil
}

// CancelBatch asks for the end; see providers.Batches. If the provider refuses, the batch is polled once: one that has
// ended, or is unknown, counts as cancelled.
func (b Batches) CancelBatch(ctx context.Context, key, id string) error {
	_, _, err := b.get(ctx, http.MethodPost, key, id, "/cancel")
	return transport.Ended(err, func() (providers.BatchState, error) { return b.PollBatch(ctx, key, id) })
}

// get makes a request about a batch. None is billed.
func (b Batches) get(ctx context.Context, method, key, id, verb string) (batch, *transport.Answer, error) {
	if strings.Trim(id, ".") == "" { // dots would change the path
		return batch{}, nil, &providers.Error{Class: providers.BadRequest, Message: errNoID.Error(), Err: errNoID}
	}
	answer, err := b.Endpoint.Ask(ctx, method, b.path()+"/"+url.PathEscape(id)+verb, key)
	if err != nil {
		return batch{}, nil, transport.AboutObject(err)
	}
	found, err := read(answer)
	return found, answer, transport.Unbilled(err)
}

// path returns the path of batches.
func (b Batches) path() string {
	if b.Vendor == Mistral {
		return "batch/jobs"
	}
	return "batches"
}

var errNoID = errors.New("no batch id")
