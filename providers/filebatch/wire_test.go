package filebatch

import (
	"context"
	"encoding/json"
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

// site answers as a recording of a vendor does, and keeps what it gets.
type site struct {
	answers map[string]string // by method and path
	got     []string
	bodies  []string
	status  int // of every answer; 0: 200
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.got, s.bodies = append(s.got, r.Method+" "+r.URL.String()), append(s.bodies, string(body))
	answer, ok := s.answers[r.Method+" "+r.URL.String()]
	switch {
	case !ok:
		w.WriteHeader(http.StatusNotFound)
	case s.status != 0:
		w.WriteHeader(s.status)
	}
	if cut, is := strings.CutSuffix(answer, "✂"); is { // the connection breaks
		w.Header().Set("Content-Length", fmt.Sprint(len(cut)+1))
		_, _ = io.WriteString(w, cut)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = io.WriteString(w, answer)
}

// said is the answer of the test's dialect.
type said struct {
	Text string `json:"text"`
}

func (s *site) open(t *testing.T, vendor Vendor) Batches {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s.at(t, server.URL, vendor)
}

func (s *site) at(t *testing.T, address string, vendor Vendor) Batches {
	t.Helper()
	client := transport.NewClient(transport.Connections{Slots: 2})
	t.Cleanup(client.CloseIdleConnections)
	endpoint, err := transport.Open(transport.Config{BaseURL: address + "/v1", HTTPClient: client}, "")
	if err != nil {
		t.Fatal(err)
	}
	return Batches{
		Endpoint: endpoint, Answers: "/v1/chat/completions", Vendor: vendor,
		Body: func(r *providers.Request) (map[string]any, error) {
			return map[string]any{"model": r.Model, "messages": r.Messages, "service_tier": "flex"}, nil
		},
		Read: func(a *transport.Answer) (*providers.Result, error) {
			var got said
			if err := json.Unmarshal(a.Body, &got); err != nil || got.Text == "" {
				return nil, a.Malformed(fmt.Errorf("no text: %w", err))
			}
			return &providers.Result{Text: got.Text, RequestID: a.RequestID}, nil
		},
	}
}

var two = []providers.BatchRequest{
	{ID: "a", Request: &providers.Request{Model: "m", Messages: []providers.Message{{Role: providers.User, Content: "<1>"}}}},
	{ID: "b", Request: &providers.Request{Model: "m", Messages: []providers.Message{{Role: providers.User, Content: "2"}}}},
}

// TestRequests compares what is sent with the vendors' documentation.
func TestRequests(t *testing.T) {
	t.Parallel()
	for vendor, want := range map[Vendor]struct{ path, batch, line string }{
		OpenAI: {
			"/v1/batches",
			`{"completion_window":"24h","endpoint":"/v1/chat/completions","input_file_id":"file-1","metadata":{"evalfleet_batch":"n-1"}}`,
			`{"body":{"messages":[{"role":"user","content":"2"}],"model":"m"},"custom_id":"b","method":"POST","url":"/v1/chat/completions"}`,
		},
		Mistral: {
			"/v1/batch/jobs",
			`{"endpoint":"/v1/chat/completions","input_files":["file-1"],"metadata":{"evalfleet_batch":"n-1"},"model":"m","timeout_hours":24}`,
			`{"body":{"messages":[{"role":"user","content":"2"}]},"custom_id":"b"}`,
		},
	} {
		s := &site{answers: map[string]string{"POST /v1/files": `{"id":"file-1"}`, "POST " + want.path: `{"id":"batch-1","status":"validating"}`}}
		id, err := s.open(t, vendor).SubmitBatch(t.Context(), "", "n-1", two)
		if err != nil || id != "batch-1" {
			t.Fatalf("%s: got %q, %v", vendor, id, err)
		}
		for _, part := range []string{`name="purpose"` + "\r\n\r\nbatch", `name="file"; filename="n-1.jsonl"`, want.line + "\n"} {
			if !strings.Contains(s.bodies[0], part) {
				t.Errorf("%s: the file lacks %s:\n%s", vendor, part, s.bodies[0])
			}
		}
		if s.bodies[1] != want.batch || len(s.got) != 2 {
			t.Errorf("%s: sent %s with %v, want %s", vendor, s.bodies[1], s.got, want.batch)
		}
	}
}

// TestSubmissionSaysWhetherABatchMayExist: only the request that creates the batch can leave one.
func TestSubmissionSaysWhetherABatchMayExist(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		file, batch string
		mayExist    bool
	}{
		"the upload breaks off":   {`{"id":"fi✂`, `{"id":"batch-1"}`, false},
		"the upload has no ID":    {`{}`, `{"id":"batch-1"}`, false},
		"the creation breaks off": {`{"id":"file-1"}`, `{"id":"bat✂`, true},
		"the creation has no ID":  {`{"id":"file-1"}`, `{}`, true},
		"the creation is a page":  {`{"id":"file-1"}`, `<html>`, true},
	} {
		s := &site{answers: map[string]string{"POST /v1/files": test.file, "POST /v1/batches": test.batch}}
		_, err := s.open(t, OpenAI).SubmitBatch(t.Context(), "", "n", two)
		var failed *providers.Error
		if !errors.As(err, &failed) || failed.MayBeBilled != test.mayExist {
			t.Errorf("%s: got %+v, want that a batch may exist: %v", name, err, test.mayExist)
		}
	}
}

// TestPagesOfBatches: a batch is found on a later page, and the search ends where all are older.
func TestPagesOfBatches(t *testing.T) {
	t.Parallel()
	since := time.Unix(1_000_000, 0)
	page := func(more bool, batches ...string) string {
		return fmt.Sprintf(`{"object":"list","has_more":%v,"data":[%s]}`, more, strings.Join(batches, ","))
	}
	one := func(id, name string, created int64) string {
		return fmt.Sprintf(`{"id":%q,"created_at":%d,"metadata":{"evalfleet_batch":%q}}`, id, created, name)
	}
	s := &site{answers: map[string]string{
		"GET /v1/batches?limit=100":           page(true, one("x", "other", 1_000_100), `{"id":"y","created_at":1000090,"metadata":null}`),
		"GET /v1/batches?after=y&limit=100":   page(true, one("z", "wanted", 999_900), one("o", "older", 10)), // the clocks differ
		"GET /v1/batches?after=o&limit=100":   page(true, one("l", "late", 999_950)),                          // in another order
		"GET /v1/batches?after=l&limit=100":   page(true, one("old", "oldest", 9)),
		"GET /v1/batches?after=old&limit=100": `<html>`,
	}}
	b := s.open(t, OpenAI)
	for name, want := range map[string]string{"wanted": "z", "other": "x", "late": "l", "absent": ""} {
		if id, err := b.FindBatch(t.Context(), "", name, since, 2); id != want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", name, id, err, want)
		}
	}
	full := strings.Repeat(one("x", "other", 1_000_100)+",", pageSize-1) + one("last", "other", 1_000_090)
	for name, test := range map[string]struct {
		vendor  Vendor
		answers map[string]string
		want    string
	}{
		"groq": {OpenAI, map[string]string{
			"GET /v1/batches?limit=100":          `{"object":"list","data":[` + one("x", "other", 1_000_100) + `],"paging":{"next_cursor":"c"}}`,
			"GET /v1/batches?cursor=c&limit=100": `{"object":"list","data":[` + one("ours", "wanted", 1_000_000) + `],"paging":{}}`,
		}, "ours"},
		"mistral": {Mistral, map[string]string{
			"GET /v1/batch/jobs?page_size=100":        `{"object":"list","total":101,"data":[` + full + `]}`,
			"GET /v1/batch/jobs?page=1&page_size=100": `{"object":"list","total":101,"data":[` + one("ours", "wanted", 1_000_000) + `]}`,
		}, "ours"},
		"mistral's empty list": {Mistral, map[string]string{"GET /v1/batch/jobs?page_size=100": `{"object":"list","total":0}`}, ""},
		"does not say": {OpenAI, map[string]string{
			"GET /v1/batches?limit=100":            `{"data":[` + full + `]}`,
			"GET /v1/batches?after=last&limit=100": `{"data":[` + one("ours", "wanted", 1_000_000) + `]}`,
		}, "ours"},
	} {
		s := &site{answers: test.answers}
		if id, err := s.open(t, test.vendor).FindBatch(t.Context(), "", "wanted", since, 2); id != test.want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", name, id, err, test.want)
		}
	}
	for what, answer := range map[string]string{
		"a page": "<html>", "an error": `{"error":{"message":"x"}}`, "another object": `{"object":"batch"}`, "half a list": `{"data":[{"id":"x"`, "a list in a list": `[]`,
	} {
		s := &site{answers: map[string]string{"GET /v1/batches?limit=100": answer}}
		if id, err := s.open(t, OpenAI).FindBatch(t.Context(), "", "wanted", since, 2); err == nil {
			t.Errorf("%s: got %q without an error: that says that there is certainly no batch", what, id)
		}
	}
}

// TestStates reads recorded batches of both vendors.
func TestStates(t *testing.T) {
	t.Parallel()
	const expires = 1_711_575_600
	at := time.Unix(expires, 0)
	for name, test := range map[string]struct {
		vendor Vendor
		answer string
		want   providers.BatchState
	}{
		"in progress": {
			OpenAI, `{"id":"batch_1","object":"batch","status":"in_progress","expires_at":1711575600,"request_counts":{"total":100,"completed":95,"failed":5}}`,
			providers.BatchState{Total: 100, Answered: 95, Failed: 5, Expires: at},
		},
		"cancelling": {OpenAI, `{"id":"b","status":"cancelling","request_counts":{"total":9,"completed":2,"failed":0}}`, providers.BatchState{Cancelling: true, Total: 9, Answered: 2}},
		"cancelled":  {OpenAI, `{"id":"b","status":"cancelled","request_counts":{"total":9,"completed":2,"failed":0}}`, providers.BatchState{Ended: true, Total: 9, Answered: 2, Failed: 7}},
		"expired":    {OpenAI, `{"id":"b","status":"expired","request_counts":{"total":9,"completed":2,"failed":1}}`, providers.BatchState{Ended: true, Total: 9, Answered: 2, Failed: 7}},
		"no counts":  {OpenAI, `{"id":"b","status":"validating","request_counts":null}`, providers.BatchState{}},
		"another":    {OpenAI, `{"id":"b","status":"pondering"}`, providers.BatchState{}},
		"mistral": {
			Mistral, `{"id":"b","object":"batch","status":"RUNNING","input_files":["f"],"errors":[],"total_requests":3,"completed_requests":2,"succeeded_requests":1,"failed_requests":1}`,
			providers.BatchState{Total: 3, Answered: 1, Failed: 1},
		},
		"mistral, partly failed": {
			Mistral, `{"id":"b","status":"FAILED","total_requests":3,"succeeded_requests":1,"failed_requests":2}`,
			providers.BatchState{Ended: true, Total: 3, Answered: 1, Failed: 2},
		},
		"groq, with errors": {
			OpenAI, `{"id":"b","status":"completed","errors":[{"code":"invalid_method","message":"x","line":4}],"request_counts":{"total":3,"completed":2,"failed":1}}`,
			providers.BatchState{Ended: true, Total: 3, Answered: 2, Failed: 1},
		},
		"mistral, out of time": {
			Mistral, `{"id":"b","status":"TIMEOUT_EXCEEDED","total_requests":3,"succeeded_requests":1,"failed_requests":0}`,
			providers.BatchState{Ended: true, Total: 3, Answered: 1, Failed: 2},
		},
	} {
		s := &site{answers: map[string]string{"GET /v1/batches/b": test.answer, "GET /v1/batch/jobs/b": test.answer}}
		got, err := s.open(t, test.vendor).PollBatch(t.Context(), "", "b")
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

// TestFailedBatches reads why whole batches failed.
func TestFailedBatches(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		errors string
		class  providers.Class
		kind   providers.LimitKind
	}{
		"enqueued tokens": { // https://github.com/openai/openai-python/issues/2084
			`{"object":"list","data":[{"code":"token_limit_exceeded","message":"Enqueued token limit reached for gpt-4o-mini in organization ` +
				`org-x. Limit: 2,000,000 enqueued tokens. Please try again once some in_progress batches have been completed.","param":null,"line":null}]}`,
			providers.RateLimited, providers.LimitEnqueuedTokens,
		},
		"invalid line": {`{"data":[{"code":"invalid_json_line","message":"This line is not parseable as valid JSON.","line":7}]}`, providers.BadRequest, ""},
		"no model":     {`{"data":[{"code":"model_not_found","message":"The provided model 'x' is not supported by the Batch API."}]}`, providers.ModelUnavailable, ""},
		"no billing":   {`{"data":[{"code":"billing_hard_limit_reached","message":"Billing hard limit has been reached"}]}`, providers.QuotaBilling, ""},
		"mistral":      {`[{"message":"invalid input file","count":1}]`, providers.BadRequest, ""},
		"silent":       {`null`, providers.BadRequest, ""},
	} {
		s := &site{answers: map[string]string{"GET /v1/batches/b": `{"id":"b","status":"failed","errors":` + test.errors + `}`}}
		state, err := s.open(t, OpenAI).PollBatch(t.Context(), "", "b")
		if f := state.Failure; err != nil || !state.Ended || f == nil || f.Class != test.class || f.Exceeded != test.kind || f.MayBeBilled {
			t.Errorf("%s: got %+v with %+v, %v, want class %s, limit %q", name, state, f, err, test.class, test.kind)
		}
	}
}

// TestAnswers reads recorded files, and hostile ones.
func TestAnswers(t *testing.T) {
	t.Parallel()
	answer := func(id, text string) string {
		return fmt.Sprintf(`{"id":"batch_req_1","custom_id":%q,"response":{"status_code":200,"request_id":"req-%s","body":{"text":%q}},"error":null}`, id, id, text)
	}
	good := answer("a", "yes") + "\n"
	huge := answer("h", strings.Repeat("x", 200_000)) + "\n"
	for name, test := range map[string]struct {
		output, errors string
		want           []string
		class          providers.Class // of the error in the end; empty: none
	}{
		"both files": {
			good, `{"custom_id":"b","response":{"status_code":429,"request_id":"r","body":{"error":{"code":"rate_limit_exceeded","message":"x"}}},"error":null}
{"custom_id":"c","response":null,"error":{"code":"batch_expired","message":"This request could not be executed before the completion window expired."}}
{"custom_id":"d","response":null,"error":{"code":"batch_cancelled","message":"x"}}
{"custom_id":"e","response":null,"error":{"code":"request_timeout","message":"x"}}
{"custom_id":"f","error":{"code":"server_error","message":"x"}}
`, []string{"a yes batch req-a", "b rate_limited false", "c cancelled false", "d cancelled false", "e timeout true", "f transient true"}, "",
		},
		"mistral's numbers":    {`{"id":"x","custom_id":"a","response":{"status_code":200,"body":{"text":"yes"}},"error":null}` + "\n", "", []string{"a yes batch "}, ""},
		"an error with 200":    {`{"custom_id":"a","response":{"status_code":200,"body":{"error":{"message":"x"}}}}` + "\n", "", []string{"a transient true"}, ""},
		"blank lines, CRLF":    {"\n\r\n" + answer("a", "yes") + "\r\n\n", "", []string{"a yes batch req-a"}, ""},
		"no line feed at end":  {answer("a", "yes"), "", []string{"a yes batch req-a"}, ""},
		"nothing":              {"", "", nil, ""},
		"no ID":                {good + `{"response":{"status_code":200,"body":{"text":"?"}}}` + "\n", "", []string{"a yes batch req-a"}, providers.Malformed},
		"ID twice":             {good + answer("a", "no") + "\n", "", []string{"a no batch req-a", "a yes batch req-a"}, ""},
		"unknown ID":           {answer("zzz", "yes") + "\n", "", []string{"zzz yes batch req-zzz"}, ""},
		"ID of another type":   {`{"custom_id":7,"response":{}}` + "\n" + good, "", []string{"a yes batch req-a"}, providers.Malformed},
		"wrong JSON with ID":   {`{"custom_id":"w","response":{"status_code":"many"}}` + "\n" + good, "", []string{"a yes batch req-a", "w transient true"}, ""},
		"broken JSON":          {`{"custom_id":"w","response":{]}` + "\n" + good, "", []string{"a yes batch req-a", "w transient true"}, ""},
		"no JSON":              {"hello\n" + good, "", []string{"a yes batch req-a"}, providers.Malformed},
		"neither":              {`{"custom_id":"n","response":null,"error":null}` + "\n", "", []string{"n transient true"}, ""},
		"a huge line":          {huge + good, "", []string{"a yes batch req-a", "h malformed true"}, ""},
		"a huge line without":  {strings.Repeat("x", 200_000) + "\n" + good, "", []string{"a yes batch req-a"}, providers.Malformed},
		"a page":               {"<!doctype html>\n<p>wait\n", "", nil, providers.Transient},
		"ends within a line":   {good + answer("b", "half")[:60], "", []string{"a yes batch req-a"}, providers.Transient},
		"ends within a huge":   {good + huge[:100_000], "", []string{"a yes batch req-a"}, providers.Transient},
		"the connection broke": {good + answer("b", "half")[:60] + "✂", "", []string{"a yes batch req-a"}, providers.Transient},
		"broke between lines":  {good + "✂", "", []string{"a yes batch req-a"}, providers.Transient},
	} {
		for _, vendor := range []Vendor{OpenAI, Mistral} {
			s := &site{answers: map[string]string{
				"GET /v1/batches/b":         `{"id":"b","status":"completed","output_file_id":"out","error_file_id":"err"}`,
				"GET /v1/batch/jobs/b":      `{"id":"b","status":"SUCCESS","output_file":"out","error_file":"err"}`,
				"GET /v1/files/out/content": test.output,
				"GET /v1/files/err/content": test.errors,
			}}
			ctx := providers.WithReading(t.Context(), providers.Reading{Most: 10_000})
			got, err := outcomes(ctx, s.open(t, vendor))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", vendor, name, diff)
			}
			if test.class == "" && err != nil || test.class != "" && (err == nil || providers.ClassOf(err) != test.class) {
				t.Errorf("%s %s: got %v, want class %q", vendor, name, err, test.class)
			}
		}
	}
}

// outcomes returns the outcomes that each gets, in the form "ID text", "ID class" or "ID class billed".
func outcomes(ctx context.Context, b Batches) (got []string, err error) {
	err = b.BatchAnswers(ctx, "", "b", func(request string, result *providers.Result, err error) error {
		var failed *providers.Error
		switch {
		case errors.As(err, &failed):
			got = append(got, fmt.Sprintf("%s %s %v", request, failed.Class, failed.MayBeBilled))
		default:
			got = append(got, fmt.Sprintf("%s %s %s %s", request, result.Text, result.Usage.Tier, result.RequestID))
		}
		return nil
	})
	slices.Sort(got)
	return got, err
}

// TestAnswersAreReadWhileTheyArrive: the second one is sent when the first was read.
func TestAnswersAreReadWhileTheyArrive(t *testing.T) {
	t.Parallel()
	read := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/batches/b" {
			_, _ = io.WriteString(w, `{"id":"b","status":"completed","output_file_id":"out"}`)
			return
		}
		for _, id := range []string{"a", "b"} {
			_, _ = fmt.Fprintf(w, `{"custom_id":%q,"response":{"status_code":200,"body":{"text":"yes"}}}`+"\n", id)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-read:
			case <-r.Context().Done():
			}
		}
	}))
	t.Cleanup(server.Close)
	b := (&site{}).at(t, server.URL, OpenAI)
	n := 0
	err := b.BatchAnswers(t.Context(), "", "b", func(string, *providers.Result, error) error {
		n++
		read <- struct{}{}
		return nil
	})
	if n != 2 || err != nil {
		t.Errorf("got %d answers, %v", n, err)
	}
}
