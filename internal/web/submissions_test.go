package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/internal/web/upload"
)

const aSubmission = `{"files": {"essays/evaluation.yaml": "name: essays"}}`

func post(s http.Handler, query, mediaType, body string, header ...string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/api/evaluations?"+query, strings.NewReader(body))
	request.Header.Set("Content-Type", mediaType)
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			request.Host = header[i+1]
		}
		request.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, request)
	return w
}

func TestSubmission(t *testing.T) {
	t.Parallel()
	var got Received
	var folder string
	s := New(Config{Actions: &acts{}, MaxUpload: 1 << 20, Submit: func(_ context.Context, sent Received) (Receipt, error) {
		got, folder = sent, sent.Folder
		text, err := os.ReadFile(filepath.Join(sent.Folder, filepath.FromSlash(sent.File)))
		if string(text) != "name: essays" {
			t.Errorf("received %q, %v", text, err)
		}
		return Receipt{ID: "ev-1", Created: sent.Again == ""}, nil
	}})
	w := post(s, "file=essays/evaluation.yaml&judge=a:b&judge=c:d&limit=3&max_concurrency=0&json_mode=true&provider=p&model=m&batch=true&retry_failed=true", upload.JSON+"; charset=utf-8", aSubmission)
	if w.Code != http.StatusCreated || w.Header().Get("Location") != "/api/evaluations/ev-1" {
		t.Errorf("status %d, location %q; want 201 and the evaluation's: %s", w.Code, w.Header().Get("Location"), w.Body)
	}
	var receipt Receipt
	if err := json.Unmarshal(w.Body.Bytes(), &receipt); err != nil || receipt.ID != "ev-1" || !receipt.Created {
		t.Errorf("got %+v, %v", receipt, err)
	}
	got.Folder = ""
	want := Received{File: "essays/evaluation.yaml", Judges: []string{"a:b", "c:d"}, Limit: 3, MaxConcurrency: new(int), JSON: "true", Provider: "p", Model: "m", Batch: true, RetryFailed: true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-sent +received)\n%s", diff)
	}
	if w := post(s, "file=essays/evaluation.yaml&again=x", upload.JSON, aSubmission); w.Code != http.StatusOK {
		t.Errorf("an evaluation that exists answers %d, want 200", w.Code)
	}
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("%s remains: %v", folder, err)
	}
}

func TestSubmissionsAreRefused(t *testing.T) {
	t.Parallel()
	accepts := func(context.Context, Received) (Receipt, error) { return Receipt{ID: "ev-1"}, nil }
	fails := func(err error) Submit {
		return func(context.Context, Received) (Receipt, error) { return Receipt{}, err }
	}
	path := accountsFile(t, "vic", "secret")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.TrimSpace(string(text))+":viewer\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	accounts, err := OpenAccounts(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change            func(*Config)
		query, kind, body string
		header            []string
		want              int
		says              string
	}{
		"no actions":           {func(cfg *Config) { cfg.Actions = nil }, "", "", "", nil, 403, "--allow-actions"},
		"no submissions":       {func(cfg *Config) { cfg.Submit = nil }, "", "", "", nil, 403, "controller"},
		"another site":         {nil, "", "", "", []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}, 403, ""},
		"another name":         {nil, "", "", "", []string{"Host", "evil.example"}, 403, ""},
		"no login":             {func(cfg *Config) { cfg.Accounts = accounts }, "", "", "", nil, 401, "login"},
		"a viewer":             {func(cfg *Config) { cfg.Accounts = accounts }, "", "", "", []string{"Authorization", "Basic dmljOnNlY3JldA=="}, 403, "viewer"},
		"no file":              {nil, "limit=1", "", "", nil, 400, "file="},
		"a file above":         {nil, "file=../x", "", "", nil, 400, "file="},
		"an unknown parameter": {nil, "file=a&colour=red", "", "", nil, 400, "unknown parameter \\\"colour\\\"; want again, batch"},
		"a second file above":  {nil, "file=a&file=../x", "", "", nil, 400, "file=../x"},
		"a parameter twice":    {nil, "file=a&again=x&again=y", "", "", nil, 400, "twice"},
		"a wrong number":       {nil, "file=a&limit=-1", "", "", nil, 400, "limit"},
		"a wrong switch":       {nil, "file=a&batch=perhaps", "", "", nil, 400, "true or false"},
		"no kind":              {nil, "", "text/plain", "", nil, 415, upload.Tar},
		"a wrong body":         {nil, "", "", "{", nil, 400, "read JSON"},
		"too much":             {nil, "", "", fmt.Sprintf(`{"files": {"a": %q}}`, strings.Repeat("x", 2000)), nil, 413, "--max-upload-mib"},
		"much too much":        {func(cfg *Config) { cfg.MaxUpload = 1 }, "", upload.Tar, strings.Repeat("x", 3<<20), nil, 400, "archive"},
		"wrong files": {func(cfg *Config) {
			cfg.Submit = fails(&InvalidError{Text: "a.yaml:7: unknown key", Problems: []Problem{{File: "a.yaml", Line: 7}}})
		}, "", "", "", nil, 422, `"line":7`},
		"a cancelled one": {func(cfg *Config) { cfg.Submit = fails(ErrConflict) }, "", "", "", nil, 409, ""},
		"Redis is away":   {func(cfg *Config) { cfg.Submit = fails(context.DeadlineExceeded) }, "", "", "", nil, 503, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := Config{Actions: &acts{}, Submit: accepts, MaxUpload: 1000}
			if c.change != nil {
				c.change(&cfg)
			}
			query, kind, body := c.query, c.kind, c.body
			if query == "" {
				query = "file=essays/evaluation.yaml"
			}
			if kind == "" {
				kind = upload.JSON
			}
			if body == "" {
				body = aSubmission
			}
			w := post(New(cfg), query, kind, body, c.header...)
			if w.Code != c.want || !strings.Contains(w.Body.String(), c.says) {
				t.Errorf("got %d %s, want %d and %q", w.Code, w.Body, c.want, c.says)
			}
		})
	}
}

// While as many submissions as allowed are received and checked, further ones get status
// 429 and hold nothing.
func TestSubmissionsAreBounded(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	var received atomic.Int32
	s := New(Config{Actions: &acts{}, MaxUpload: 1000, Submit: func(context.Context, Received) (Receipt, error) {
		if received.Add(1) <= uploadsEach {
			entered <- struct{}{}
			<-leave
		}
		return Receipt{ID: "ev-1", Created: true}, nil
	}})
	codes := make(chan int)
	for range uploadsEach {
		go func() { codes <- post(s, "file=a", upload.JSON, aSubmission).Code }()
		<-entered
	}
	if w := post(s, "file=a", upload.JSON, aSubmission); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
		t.Errorf("status %d, Retry-After %q; want 429 and a number", w.Code, w.Header().Get("Retry-After"))
	}
	close(leave)
	for range uploadsEach {
		if code := <-codes; code != http.StatusCreated {
			t.Errorf("status %d, want 201", code)
		}
	}
}
