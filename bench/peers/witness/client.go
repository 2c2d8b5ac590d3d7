package witness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Client calls a Provider over connections that are kept open.
type Client struct {
	url    string
	client *http.Client
}

// NewClient returns a client of the provider at url.
func NewClient(url string) Client {
	return Client{url, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 512}}}
}

// Call blocks until run is answered or refused. It returns how long to wait before a refused
// call may be repeated, or 0.
func (c Client) Call(ctx context.Context, model, run string) (wait time.Duration, err error) {
	body, err := json.Marshal(map[string]any{
		"model": model, "messages": []any{map[string]string{"role": "user", "content": "Which text is better? Run " + run + "."}},
	})
	if err != nil {
		return 0, err
	}

	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return 0, err
	}

	switch response.StatusCode {
	case http.StatusOK:
		return 0, nil
	case http.StatusTooManyRequests:
		ms, err := strconv.Atoi(response.Header.Get("Retry-After-Ms"))
		return time.Duration(ms) * time.Millisecond, err
	}

	return 0, fmt.Errorf("witness: %s", response.Status)
}
