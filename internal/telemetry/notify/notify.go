// Package notify notifies another program about an evaluation: one signed POST, as
// standardwebhooks.com specifies it.
//
// It does not know which events matter, nor whether another process has sent one already.
package notify

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/evalfleet/evalfleet/internal/backoff"
	"github.com/evalfleet/evalfleet/internal/machine/hostname"
)

// Type says what happened.
type Type string

// The types of events.
const (
	Completed Type = "evaluation.completed" // every run succeeded
	Failed    Type = "evaluation.failed"    // every run ended, and some failed
	Cancelled Type = "evaluation.cancelled"
	Paused    Type = "evaluation.paused"       // only runs of providers that the fleet paused are left
	Spent     Type = "evaluation.budget_spent" // its budget leaves no room for another call
)

// Event is the body of a POST.
type Event struct {
	Type Type      `json:"type"`
	At   time.Time `json:"timestamp"`
	Data Data      `json:"data"`
}

// Data describes the evaluation.
type Data struct {
	Evaluation string   `json:"evaluation"`
	Name       string   `json:"name"`
	Runs       Runs     `json:"runs"`
	CostUSD    *float64 `json:"cost_usd"`           // null: unknown
	Headline   string   `json:"headline,omitempty"` // who won, and how certain that is
	Trust      string   `json:"trust,omitempty"`    // how far to rely on that, beginning with the level
	Why        string   `json:"why,omitempty"`      // why it has stopped, and what to do
	Report     string   `json:"report,omitempty"`   // address of the report
}

// Runs counts runs.
type Runs struct {
	Planned   int `json:"planned"`
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
}

// pauses are the waits before further attempts at an unreachable receiver.
var pauses = backoff.Waits{First: time.Second, Longest: 15 * time.Second, Factor: 4}

const (
	// attempts is how often a receiver is tried at most; Longest bounds all attempts together.
	attempts   = 4
	answerTime = 10 * time.Second
	// Longest is how long Send takes at most.
	Longest = time.Minute
)

// leastSecret is the minimum length of a secret in bytes, as the specification requires.
const leastSecret = 24

// Notifier sends events to one address. It is safe for concurrent use.
type Notifier struct {
	url    *url.URL
	signer *webhooks.Webhook
	client *http.Client
	pauses backoff.Waits
}

// New returns a Notifier. secret is the base64 form of 24 bytes or more, with or without the prefix
// whsec_.
func New(address, secret string) (*Notifier, error) {
	at, ok := hostname.ParseWeb(address)
	if !ok {
		return nil, fmt.Errorf("the address is not an http or https URL")
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(strings.TrimSpace(secret), "whsec_"))
	if err != nil || len(key) < leastSecret {
		return nil, fmt.Errorf("the secret must be at least %d bytes in base64; create one with: openssl rand -base64 32", leastSecret)
	}
	signer, err := webhooks.NewWebhookRaw(key)
	if err != nil {
		return nil, err
	}
	pool := http.DefaultTransport.(*http.Transport).Clone()
	pool.DisableKeepAlives = true // events are hours apart
	return &Notifier{url: at, signer: signer, pauses: pauses, client: &http.Client{
		Timeout: answerTime, Transport: pool,
		// The user who named the address has not named where it redirects.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Send sends an event until the receiver answers with 2xx. It tries again only after 408, 429, 5xx
// or no answer. A receiver may get an event twice, and recognises it by its id.
func (n *Notifier) Send(ctx context.Context, id string, e Event) error {
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, Longest)
	defer cancel()
	for made := 0; ; made++ {
		again, err := n.post(ctx, id, body)
		if err == nil || !again || made == attempts-1 {
			return err
		}
		select {
		case <-time.After(n.pauses.After(made)):
		case <-ctx.Done():
			return err
		}
	}
}

// post makes one attempt. again reports whether another may succeed.
func (n *Notifier) post(ctx context.Context, id string, body []byte) (again bool, err error) {
	now := time.Now()
	signature, err := n.signer.Sign(id, now, body)
	if err != nil {
		return false, fmt.Errorf("sign event: %w", err)
	}

	request, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url.String(), bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "evalfleet")
	request.Header.Set(webhooks.HeaderWebhookID, id)
	request.Header.Set(webhooks.HeaderWebhookTimestamp, fmt.Sprint(now.Unix()))
	request.Header.Set(webhooks.HeaderWebhookSignature, signature)
	at := n.url.Scheme + "://" + n.url.Host // the rest of an address may contain a key
	answer, err := n.client.Do(request)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return true, fmt.Errorf("the receiver at %s: %w", at, err)
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10))
	code := answer.StatusCode
	switch code / 100 {
	case 2:
		return false, nil
	case 3:
		return false, fmt.Errorf("the receiver at %s redirects (%s); redirects are not followed, correct notify.url", at, answer.Status)
	default:
		again = code == http.StatusRequestTimeout || code == http.StatusTooManyRequests || code/100 == 5
		return again, fmt.Errorf("the receiver at %s answers %s", at, answer.Status)
	}
}
