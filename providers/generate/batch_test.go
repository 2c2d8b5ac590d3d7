package generate

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// recorded serves answers by method and path, and keeps the requests.
type recorded struct {
	answers map[string]string
	bodies  []string
}

func (s *recorded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.bodies = append(s.bodies, string(body))
	answer, ok := s.answers[r.Method+" "+r.URL.String()]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		answer = `{"error":{"code":404,"message":"Requested entity was not found.","status":"NOT_FOUND"}}`
	}
	_, _ = io.WriteString(w, answer)
}

func (s *recorded) open(t *testing.T) *Provider {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	client := transport.NewClient(transport.Connections{Slots: 2})
	t.Cleanup(client.CloseIdleConnections)
	p, err := New(Config{BaseURL: server.URL, HTTPClient: client})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestBatchOnTheWire compares a submission with https://ai.google.dev/gemini-api/docs/batch-api.
func TestBatchOnTheWire(t *testing.T) {
	t.Parallel()
	s := &recorded{answers: map[string]string{"POST /v1beta/models/m:batchGenerateContent": `{"name":"batches/1","metadata":{"state":"BATCH_STATE_PENDING"}}`}}
	req := &providers.Request{Model: "models/m", Messages: []providers.Message{{Role: providers.User, Content: "hi"}}}
	id, err := s.open(t).SubmitBatch(t.Context(), "", "n", []providers.BatchRequest{{ID: "r", Request: req}})
	if err != nil || id != "batches/1" {
		t.Fatalf("got %q, %v", id, err)
	}
	want := `{"batch":{"displayName":"n","inputConfig":{"requests":{"requests":[` +
		`{"metadata":{"key":"r"},"request":{"contents":[{"parts":[{"text":"hi"}],"role":"user"}]}}]}}}}`
	if s.bodies[0] != want {
		t.Errorf("sent %s, want %s", s.bodies[0], want)
	}
	for _, answer := range []string{`{}`, `<html>`, `{"name":"batches/1","error":{"code":8,"message":"x"}}`} {
		s.answers["POST /v1beta/models/m:batchGenerateContent"] = answer
		_, err := s.open(t).SubmitBatch(t.Context(), "", "n", []providers.BatchRequest{{ID: "r", Request: req}})
		var failed *providers.Error
		if !errors.As(err, &failed) || !failed.MayBeBilled {
			t.Errorf("%s: got %v, want an error that says that the batch may exist", answer, err)
		}
	}
}

func TestBatchStates(t *testing.T) {
	t.Parallel()
	stats := `"batchStats":{"requestCount":"9","successfulRequestCount":"4","failedRequestCount":"1","pendingRequestCount":"4"}`
	answers := `"output":{"inlinedResponses":{"inlinedResponses":[{"response":{"state":"BATCH_STATE_FAILED","name":"x","error":{"code":1}}}]}}`
	for name, test := range map[string]struct {
		answer string
		want   providers.BatchState
	}{
		"pending":   {`{"name":"batches/b","metadata":{"state":"BATCH_STATE_PENDING","batchStats":{"requestCount":"9"}}}`, providers.BatchState{Total: 9}},
		"running":   {`{"name":"batches/b","metadata":{"state":"BATCH_STATE_RUNNING",` + stats + `}}`, providers.BatchState{Total: 9, Answered: 4, Failed: 1}},
		"succeeded": {`{"metadata":{` + answers + `,` + stats + `,"state":"BATCH_STATE_SUCCEEDED"},"done":true,"name":"batches/b"}`, providers.BatchState{Ended: true, Total: 9, Answered: 4, Failed: 5}},
		"as a job":  {`{"metadata":{"state":"JOB_STATE_PARTIALLY_SUCCEEDED","batchStats":{"requestCount":3,"successfulRequestCount":2}}}`, providers.BatchState{Ended: true, Total: 3, Answered: 2, Failed: 1}},
		"cancelled": {`{"name":"b","metadata":{"state":"BATCH_STATE_CANCELLED"},"error":{"code":1,"message":"x"}}`, providers.BatchState{Ended: true}},
		"expired":   {`{"name":"b","metadata":{"state":"BATCH_STATE_EXPIRED",` + stats + `}}`, providers.BatchState{Ended: true, Total: 9, Answered: 4, Failed: 5}},
		"another":   {`{"name":"b","metadata":{"state":"BATCH_STATE_PONDERING","batchStats":{"requestCount":"many"}}}`, providers.BatchState{}},
	} {
		s := &recorded{answers: map[string]string{"GET /v1beta/batches/b": test.answer}}
		for _, id := range []string{"b", "batches/b"} {
			got, err := s.open(t).PollBatch(t.Context(), "", id)
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
			}
		}
	}

	s := &recorded{answers: map[string]string{
		"GET /v1beta/batches/b": `{"name":"b","metadata":{"state":"BATCH_STATE_FAILED","createTime":"2026-11-30T12:00:00.5Z"},"error":{"code":8,"message":"Enqueued tokens exceeded"}}`,
	}}
	state, err := s.open(t).PollBatch(t.Context(), "", "b")
	if f := state.Failure; err != nil || f == nil || f.Class != providers.RateLimited || f.Exceeded != providers.LimitEnqueuedTokens || f.MayBeBilled || state.Expires.IsZero() {
		t.Errorf("failed: got %+v, %v, want class rate_limited, unbilled", state, err)
	}
}

// TestHostileBatches: what is no batch has no state, and takes no memory.
func TestHostileBatches(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer string
		class  providers.Class
	}{
		"a page":             {"<!doctype html>", providers.Transient},
		"nothing":            {"", providers.Transient},
		"half":               {`{"name":"b","metadata":{"state":"BATCH_ST`, providers.Transient},
		"another object":     {`{"object":"list"}`, providers.Transient},
		"a list":             {`[1,2]`, providers.Transient},
		"a number":           {`7`, providers.Transient},
		"wrong JSON":         {`{"name":"b",}`, providers.Transient},
		"deep":               {strings.Repeat("[", 100_000), providers.Transient},
		"deep objects":       {strings.Repeat(`{"":`, 100_000), providers.Transient},
		"a huge text":        {`{"name":"` + strings.Repeat("x", 400_000) + `"}`, providers.Malformed},
		"a huge field":       {`{"` + strings.Repeat("x", 400_000) + `":1}`, providers.Malformed},
		"a huge number":      {`{"name":` + strings.Repeat("1", 400_000) + `}`, providers.Malformed},
		"much space":         {strings.Repeat(" ", 400_000), providers.Malformed},
		"an error with 200":  {`{"error":{"code":503,"message":"x","status":"UNAVAILABLE"}}`, providers.Transient},
		"of another account": {"", providers.Lost},
	} {
		s := &recorded{answers: map[string]string{"GET /v1beta/batches/b": test.answer}}
		if test.class == providers.Lost {
			s.answers = nil
		}
		ctx := providers.WithReading(t.Context(), providers.Reading{Most: 10_000})
		_, err := s.open(t).PollBatch(ctx, "", "b")
		var failed *providers.Error
		if !errors.As(err, &failed) || failed.Class != test.class || failed.MayBeBilled {
			t.Errorf("%s: got %v, want class %s, unbilled", name, err, test.class)
		}
		if err := s.open(t).BatchAnswers(ctx, "", "b", nil); err == nil || providers.ClassOf(err) != test.class {
			t.Errorf("%s: answers: got %v, want class %s", name, err, test.class)
		}
	}
}

func TestBatchFound(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	one := func(id, name string, after time.Duration) string {
		return fmt.Sprintf(`{"name":"batches/%s","metadata":{"output":{"inlinedResponses":{"inlinedResponses":[{"metadata":{"displayName":"wanted"}}]}},`+
			`"displayName":%q,"createTime":%q}}`, id, name, since.Add(after).Format(time.RFC3339Nano))
	}
	list := func(next string, batches ...string) string {
		return fmt.Sprintf(`{"operations":[%s],"nextPageToken":%q}`, strings.Join(batches, ","), next)
	}
	for name, test := range map[string]struct {
		first, second string
		want          string
		fails         bool
	}{
		"none":                         {first: `{}`},
		"on the first page":            {first: list("", one("x", "other", time.Minute), one("ours", "wanted", 0)), want: "batches/ours"},
		"on the second page":           {first: list("2", one("x", "other", time.Minute), one("y", "older", -time.Hour)), second: list("", one("ours", "wanted", 0)), want: "batches/ours"},
		"after the oldest":             {first: list("2", one("y", "older", -time.Hour), one("x", "other", time.Minute)), second: list("", one("ours", "wanted", 0)), want: "batches/ours"},
		"not after all older ones":     {first: list("2", one("y", "older", -time.Hour)), second: "<html>"},
		"an empty page has a next one": {first: list("2"), second: list("", one("ours", "wanted", 0)), want: "batches/ours"},
		"a broken second page":         {first: list("2", one("x", "other", time.Minute)), second: `{"operations":[`, fails: true},
		"a page":                       {first: "<html>", fails: true},
		"an error":                     {first: `{"error":{"code":500}}`, fails: true},
		"a list":                       {first: `[]`, fails: true},
		"a text":                       {first: `"none"`, fails: true},
	} {
		s := &recorded{answers: map[string]string{
			"GET /v1beta/batches?pageSize=100": test.first, "GET /v1beta/batches?pageSize=100&pageToken=2": test.second,
		}}
		id, err := s.open(t).FindBatch(t.Context(), "", "wanted", since, 2)
		if id != test.want || (err != nil) != test.fails {
			t.Errorf("%s: got %q, %v, want %q", name, id, err, test.want)
		}
	}
}

// TestBatchAnswers reads recorded answers, and hostile ones.
func TestBatchAnswers(t *testing.T) {
	t.Parallel()
	response := func(text string) string {
		return `"response":{"candidates":[{"content":{"parts":[{"text":"` + text + `"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3}}`
	}
	key := func(id string) string { return `"metadata":{"key":"` + id + `"}` }
	good := `{` + response("yes") + `,` + key("a") + `}`
	for name, test := range map[string]struct {
		elements string
		want     []string
		class    providers.Class
	}{
		"all kinds": {
			good + `, {"error":{"code":8,"message":"quota","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"7s"}]},` + key("b") + `},` +
				`{"error":{"code":1,"message":"x"},` + key("c") + `},{"error":{"code":4,"message":"x"},` + key("d") + `},{"error":{"code":3,"message":"x"},` + key("e") + `},` +
				`{` + key("f") + `,"response":{"promptFeedback":{"blockReason":"SAFETY"}}}`,
			[]string{"a yes stop batch", "b rate_limited false 7s", "c cancelled false 0s", "d cancelled false 0s", "e bad_request false 0s", "f the prompt was blocked: SAFETY refused batch"}, "",
		},
		"brackets in a text": {`{` + response(`}]\",[{`) + `,` + key("a") + `}`, []string{`a }]",[{ stop batch`}, ""},
		"no key":             {`{` + response("yes") + `},` + good, []string{"a yes stop batch"}, providers.Malformed},
		"key twice":          {good + `,` + good, []string{"a yes stop batch", "a yes stop batch"}, ""},
		"neither":            {`{` + key("n") + `}`, []string{"n transient true 0s"}, ""},
		"another type":       {`7,"x",null,` + good, []string{"a yes stop batch"}, providers.Malformed},
		"wrong JSON":         {`{` + key("w") + `,"response":tru},` + good, []string{"a yes stop batch", "w transient true 0s"}, ""},
		"a huge one":         {`{` + key("h") + `,` + response(strings.Repeat("x", 200_000)) + `},` + good, []string{"a yes stop batch", "h malformed true 0s"}, ""},
		"a huge one without": {`{` + response(strings.Repeat("x", 200_000)) + `,` + key("h") + `},` + good, []string{"a yes stop batch"}, providers.Malformed},
		"none":               {"", nil, ""},
		"ends within one":    {good + `,{"response":✂`, []string{"a yes stop batch"}, providers.Transient},
		"ends after one":     {good + `✂`, nil, providers.Transient},
	} {
		body := `{"name":"batches/b","metadata":{"state":"BATCH_STATE_SUCCEEDED","output":{"inlinedResponses":{"inlinedResponses":[` + test.elements
		if cut, is := strings.CutSuffix(body, "✂"); is {
			body = cut
		} else {
			body += `]}}},"done":true,"response":{"inlinedResponses":{"inlinedResponses":[` + test.elements + `]}}}`
		}
		s := &recorded{answers: map[string]string{"GET /v1beta/batches/b": body}}
		var got []string
		ctx := providers.WithReading(t.Context(), providers.Reading{Most: 10_000})
		err := s.open(t).BatchAnswers(ctx, "", "batches/b", func(request string, result *providers.Result, err error) error {
			var failed *providers.Error
			if errors.As(err, &failed) {
				got = append(got, fmt.Sprintf("%s %s %v %s", request, failed.Class, failed.MayBeBilled, failed.RetryAfter))
			} else {
				got = append(got, fmt.Sprintf("%s %s %s %s", request, result.Text, result.Finish, result.Usage.Tier))
			}
			return nil
		})
		slices.Sort(got)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if test.class == "" && err != nil || test.class != "" && (err == nil || providers.ClassOf(err) != test.class) {
			t.Errorf("%s: got %v, want class %q", name, err, test.class)
		}
	}

	for state, fails := range map[string]bool{"BATCH_STATE_RUNNING": true, "BATCH_STATE_EXPIRED": false, "BATCH_STATE_FAILED": false} {
		s := &recorded{answers: map[string]string{"GET /v1beta/batches/b": `{"name":"batches/b","metadata":{"state":"` + state + `"}}`}}
		if err := s.open(t).BatchAnswers(t.Context(), "", "b", nil); (err != nil) != fails {
			t.Errorf("%s without answers: got %v", state, err)
		}
	}
}
