package transport

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/evalfleet/evalfleet/providers"
)

// recorded is a failure as a vendor documents it or as it was met. Ids of
// accounts and requests are struck out; where the source shows the words alone,
// they are in the vendor's usual object.
type recorded struct {
	Name   string            `json:"name"`
	Source string            `json:"source"` // where the body was seen
	Status int               `json:"status"`
	Header map[string]string `json:"header"`
	Body   json.RawMessage   `json:"body"` // a string: sent as it is, not as JSON
	Want   struct {
		Class       providers.Class     `json:"class"`
		RetryAfter  string              `json:"retry_after"` // a Go duration
		Exceeded    providers.LimitKind `json:"exceeded"`
		MayBeBilled bool                `json:"may_be_billed"`
	} `json:"want"`
}

// text is the body as it is sent.
func (r recorded) text() string {
	var text string
	if json.Unmarshal(r.Body, &text) == nil {
		return text
	}
	return string(r.Body)
}

// corpus is all recorded failures, by the name of their file and their own.
func corpus(t testing.TB) map[string]recorded {
	t.Helper()
	files, err := filepath.Glob("testdata/failures/*.json")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]recorded{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var cases []recorded
		decoder := json.NewDecoder(strings.NewReader(string(content)))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&cases); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, c := range cases {
			name := strings.TrimSuffix(filepath.Base(file), ".json") + ": " + c.Name
			if _, twice := all[name]; twice {
				t.Errorf("%s is there twice", name)
			}
			all[name] = c
		}
	}
	return all
}

func TestCorpusIsSound(t *testing.T) {
	t.Parallel()
	all := corpus(t)
	if len(all) < 80 {
		t.Errorf("got %d failures, want 80 at least", len(all))
	}
	seen := map[string]string{}
	for name, c := range all {
		if source, err := url.Parse(c.Source); err != nil || source.Scheme != "https" || source.Host == "" {
			t.Errorf("%s: source %q: want an https address", name, c.Source)
		}
		answer, err := json.Marshal([]any{c.Status, c.Header, c.Body})
		if err != nil {
			t.Fatal(err)
		}
		if twin, twice := seen[string(answer)]; twice {
			t.Errorf("%s and %s are the same answer", name, twin)
		}
		seen[string(answer)] = name
	}
}

// TestRecordedFailures sends every failure of the corpus through the transport.
func TestRecordedFailures(t *testing.T) {
	t.Parallel()
	all := corpus(t)
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		c := all[r.Header.Get("X-Case")]
		for name, value := range c.Header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(c.Status)
		_, _ = io.WriteString(w, c.text())
	})
	client := newClient(t, server.URL)
	for name, c := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := post()
			request.Header.Set("X-Case", name)
			answer, err := client.Do(t.Context(), request)
			if err == nil { // a status of 200: the dialect sees the error
				err = answer.Failure()
			}
			var got *providers.Error
			if !errors.As(err, &got) {
				t.Fatalf("error: got %v, want a *providers.Error", err)
			}
			var after time.Duration
			if c.Want.RetryAfter != "" {
				if after, err = time.ParseDuration(c.Want.RetryAfter); err != nil {
					t.Fatal(err)
				}
			}
			if got.Class != c.Want.Class || got.RetryAfter != after || got.Exceeded != c.Want.Exceeded || got.MayBeBilled != c.Want.MayBeBilled {
				t.Errorf("got class %s, retry after %v, exceeded %q, may be billed %v (%s); want %s, %v, %q, %v", got.Class, got.RetryAfter,
					got.Exceeded, got.MayBeBilled, got.Message, c.Want.Class, after, c.Want.Exceeded, c.Want.MayBeBilled)
			}
			if got.Status != c.Status || string(got.Raw) != c.text() {
				t.Errorf("got status %d and body %q, want %d and %q", got.Status, got.Raw, c.Status, c.text())
			}
			if got.Message == "" || got.Message == http.StatusText(c.Status) {
				t.Errorf("message: got %q, want the provider's words", got.Message)
			}
		})
	}
}

// A proxy or a gateway may put a Retry-After on anything: it makes nothing
// retryable that is not. (402 is where it tells: OpenRouter sends it only when
// another attempt can succeed.)
func TestTheClassComesBeforeTheHeader(t *testing.T) {
	t.Parallel()
	for name, c := range corpus(t) {
		if c.Want.Class.Retryable() || c.Status == http.StatusPaymentRequired {
			continue
		}
		header := http.Header{"Retry-After": {"5"}}
		got := (&Answer{Body: []byte(c.text()), Header: header, status: c.Status, sent: noon}).Failure()
		if got.Class != c.Want.Class || got.RetryAfter != 0 && got.Class != providers.QuotaDaily {
			t.Errorf("%s, with a Retry-After: got class %s, retry after %v; want %s, 0", name, got.Class, got.RetryAfter, c.Want.Class)
		}
	}
}

func FuzzFailure(f *testing.F) {
	for _, c := range corpus(f) {
		f.Add(c.Status, c.Header["retry-after"], []byte(c.text()))
	}
	for _, body := range []string{
		`{"error":{"message":"Incorrect API key provided: ` + key + `","code":"` + key + `"}}`, key + "\xff", `{"error":7}`, `{"error":{"error":[]}}`, ``, `null`, `[]`,
		`{"detail":[{"loc":["body",1],"msg":"m","input":{}}]}`, `{"message":{"detail":[]},"retry_after":1e300}`, `<title></title>`,
	} {
		for _, value := range []string{"6m0s", "-1", "-1e400", "9223372036854775807", "Fri, 02 Jan 2026 12:01:30 GMT", "2026-01-02T12:00:30Z"} {
			f.Add(http.StatusTooManyRequests, value, []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, status int, value string, body []byte) {
		header := http.Header{
			"Retry-After": {value}, "Retry-After-Ms": {value}, "X-Ratelimit-Limit-Requests": {value},
			"X-Ratelimit-Remaining-Tokens": {value}, "X-Ratelimit-Reset-Tokens": {value}, "Anthropic-Ratelimit-Requests-Reset": {value},
		}
		got := (&Answer{Body: body, Header: header, status: status, struck: secrets{key}, sent: noon}).Failure()
		if !slices.Contains(providers.Classes, got.Class) {
			t.Errorf("class: got %q", got.Class)
		}
		if got.Message == "" || !utf8.ValidString(got.Message) || strings.ContainsAny(got.Message, "\r\n") || len(got.Message) > 3000 {
			t.Errorf("message: got %q, want a line", got.Message)
		}
		if text := got.Error() + got.Code + string(got.Raw); strings.Contains(text, key) {
			t.Errorf("the error holds the key: %q", text)
		}
		if got.RetryAfter < 0 || got.RetryAfter > maxHint {
			t.Errorf("retry after: got %v, want 0 to %v", got.RetryAfter, maxHint)
		}
		for _, state := range got.Limits {
			if state.Limit < 0 || state.Remaining < -1 || state.Reset < 0 || state.Reset > maxHint {
				t.Errorf("limit: got %+v", state)
			}
		}
	})
}
