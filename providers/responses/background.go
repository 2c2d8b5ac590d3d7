package responses

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/transport"
)

var _ providers.Background = (*Provider)(nil)

var errNoID = errors.New("no response id")

// Submit starts a job that the provider keeps until it is polled; see providers.Background. "max_tool_calls" in
// Request.Extra bounds its number of searches. Request fields that the model does not take are dropped without being
// listed. Submit learns from refusals as Call does.
func (p *Provider) Submit(ctx context.Context, req *providers.Request) (responseID string, err error) {
	x, err := p.endpoint.Begin(req, req.Model)
	if err != nil {
		return "", err
	}
	answer, _, err := p.create(ctx, req, x, true)
	if err != nil {
		return "", err
	}
	r, err := decode(answer)
	if err != nil {
		return "", err
	}
	if r.ID == "" {
		return "", answer.Malformed(errNoID)
	}
	return r.ID, nil
}

// Poll asks once; see providers.Background. If OpenAI does not retain the account's data, it forgets a job about ten
// minutes after the job's end, so poll more often. Result.Dropped is empty, and Result.JSON is set if the provider
// itself was required to return JSON.
func (p *Provider) Poll(ctx context.Context, key, responseID string) (result *providers.Result, done bool, err error) {
	answer, err := p.job(ctx, http.MethodGet, key, responseID, "")
	var failed *providers.Error
	if errors.As(err, &failed) && failed.Status == http.StatusNotFound {
		failed.Class, failed.MayBeBilled = providers.Lost, true
		return nil, true, failed
	}
	if errors.Is(err, transport.ErrTooLong) {
		failed.MayBeBilled = true // the job was: another poll would get the same answer
		return nil, true, failed
	}
	if err != nil {
		return nil, false, err
	}

	r, err := decode(answer)
	if err != nil {
		return nil, false, transport.Unbilled(err)
	}
	switch r.Status {
	case statusQueued, statusInProgress:
		return nil, false, nil
	}

	result, err = r.result(answer)
	switch {
	case err != nil && !r.ended():
		return nil, false, transport.Unbilled(err)
	case err != nil:
		return nil, true, err
	}

	if strings.HasPrefix(r.Text.Format.Type, "json") {
		asked := &providers.Request{Schema: &providers.Schema{}} // the submitter asked for it
		result.JSON = transport.JSONText(asked, result.Text)
	}

	return result, true, nil
}

// Cancel ends a job; see providers.Background. If the provider refuses, the job is polled once:
// one that has ended, or is unknown, counts as cancelled.
func (p *Provider) Cancel(ctx context.Context, key, responseID string) error {
	_, err := p.job(ctx, http.MethodPost, key, responseID, "/cancel")
	var failed *providers.Error
	if errors.As(err, &failed) && failed.Status/100 == 4 {
		if _, done, _ := p.Poll(ctx, key, responseID); done {
			return nil
		}
	}
	return err
}

// job makes a request about a job. None is billed.
func (p *Provider) job(ctx context.Context, method, key, responseID, verb string) (*transport.Answer, error) {
	if strings.Trim(responseID, ".") == "" { // dots would change the path
		return nil, &providers.Error{Class: providers.BadRequest, Message: errNoID.Error(), Err: errNoID}
	}
	answer, err := p.endpoint.Ask(ctx, method, "responses/"+url.PathEscape(responseID)+verb, key)
	return answer, transport.Unbilled(err)
}
