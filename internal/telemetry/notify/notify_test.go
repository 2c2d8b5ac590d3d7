package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/internal/backoff"
)

const (
	secretBytes = "0123456789abcdef0123456789abcdef"
	secret      = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
)

func notifier(t *testing.T, address string) *Notifier {
	t.Helper()
	n, err := New(address, secret)
	if err != nil {
		t.Fatal(err)
	}
	n.client.Timeout = 0
	n.pauses = backoff.Waits{First: time.Millisecond, Longest: time.Millisecond, Factor: 1}
	return n
}

// The signature is computed here from the specification, not by the library that signs.
func TestEventsAreSigned(t *testing.T) {
	t.Parallel()
	cost := 1.5
	sent := Event{Type: Completed, At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Data: Data{
		Evaluation: "ev-0123456789ab", Name: "drafts <b>", Runs: Runs{Planned: 3, Succeeded: 2, Failed: 1}, CostUSD: &cost, Headline: "“a.md” wins.",
	}}
	var got Event
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		at := r.Header.Get("webhook-timestamp")
		mac := hmac.New(sha256.New, []byte(secretBytes))
		fmt.Fprintf(mac, "%s.%s.%s", r.Header.Get("webhook-id"), at, body)
		if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); r.Header.Get("webhook-signature") != want {
			t.Errorf("signature %q, want %q", r.Header.Get("webhook-signature"), want)
		}
		if seconds, err := strconv.ParseInt(at, 10, 64); err != nil || time.Since(time.Unix(seconds, 0)) > time.Hour {
			t.Errorf("timestamp %q, %v", at, err)
		}
		if r.Method != http.MethodPost || r.Header.Get("webhook-id") != "msg_1" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("got %s with %v", r.Method, r.Header)
		}
		if err := json.Unmarshal(body, &got); err != nil {
			t.Error(err)
		}
	}))
	defer receiver.Close()
	if err := notifier(t, receiver.URL).Send(t.Context(), "msg_1", sent); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sent, got); diff != "" {
		t.Error(diff)
	}
}

func TestReceiverThatFails(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	for name, c := range map[string]struct {
		answers []int
		calls   int32
		want    string // part of the error; empty: none
	}{
		"it works":                {[]int{204}, 1, ""},
		"it comes back":           {[]int{503, 429, 200}, 3, ""},
		"it stays away":           {[]int{500, 500, 500, 500}, 4, "answers 500"},
		"it refuses":              {[]int{401}, 1, "answers 401"},
		"it redirects":            {[]int{307}, 1, "redirects are not followed"},
		"it redirects for always": {[]int{301}, 1, "redirects are not followed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", other.URL)
				w.WriteHeader(c.answers[calls.Add(1)-1])
			}))
			defer receiver.Close()
			err := notifier(t, receiver.URL+"/path?key=sk-1").Send(t.Context(), "msg_1", Event{Type: Paused})
			if got := fmt.Sprint(err); c.want == "" && err != nil || !strings.Contains(got, c.want) || strings.Contains(got, "sk-1") {
				t.Errorf("got %v, want %q and no part of the address but its host", err, c.want)
			}
			if calls.Load() != c.calls || elsewhere.Load() != 0 {
				t.Errorf("%d calls and %d elsewhere, want %d and none", calls.Load(), elsewhere.Load(), c.calls)
			}
		})
	}
	receiver := httptest.NewServer(nil)
	receiver.Close()
	if err := notifier(t, receiver.URL).Send(t.Context(), "msg_1", Event{}); err == nil || !strings.Contains(err.Error(), "the receiver at "+receiver.URL) {
		t.Errorf("nothing listens: got %v", err)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ address, secret, want string }{
		{"hooks.example.org", secret, "not an http or https URL"},
		{"ftp://hooks.example.org", secret, "not an http or https URL"},
		{"https://hooks.example.org", "", "openssl rand"},
		{"https://hooks.example.org", "whsec_c2hvcnQ=", "at least 24 bytes"},
		{"https://hooks.example.org", "not base64!", "openssl rand"},
	} {
		if _, err := New(c.address, c.secret); err == nil || !strings.Contains(err.Error(), c.want) || c.secret != "" && strings.Contains(err.Error(), c.secret) {
			t.Errorf("%q, %q: got %v, want %q", c.address, c.secret, err, c.want)
		}
	}
}
