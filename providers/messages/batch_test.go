package messages

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
	if !ok || r.Header.Get("Anthropic-Version") == "" {
		w.WriteHeader(http.StatusNotFound)
		answer = `{"type":"error","error":{"type":"not_found_error","message":"not found"}}`
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

// TestBatchOnTheWire compares a submission with Anthropic's documentation.
func TestBatchOnTheWire(t *testing.T) {
	t.Parallel()
	s := &recorded{answers: map[string]string{
		"POST /v1/messages/batches": `{"id":"msgbatch_1","type":"message_batch","processing_status":"in_progress"}`,
	}}
	req := &providers.Request{
		Model: "m", MaxOutputTokens: 9, Messages: []providers.Message{{Role: providers.User, Content: "hi"}},
		Extra: map[string]any{"service_tier": "auto"},
	}
	id, err := s.open(t).SubmitBatch(t.Context(), "", "n", []providers.BatchRequest{{ID: strings.Repeat("x", providers.MostBatchID), Request: req}})
	if err != nil || id != "msgbatch_1" {
		t.Fatalf("got %q, %v", id, err)
	}
	custom := mark("n") + strings.Repeat("x", providers.MostBatchID)
	want := `{"requests":[{"custom_id":"` + custom + `","params":{"max_tokens":9,"messages":[{"role":"user","content":"hi"}],"model":"m"}}]}`
	if s.bodies[0] != want || len(custom) != 64 {
		t.Errorf("sent %s, want %s with a custom_id of 64 characters", s.bodies[0], want)
	}
}

// TestFindBatchIsExact: a batch under way is never taken for another one.
func TestFindBatchIsExact(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	batch := func(id, status string, after time.Duration, n int) string {
		counts := fmt.Sprintf(`{"processing":%d,"succeeded":0,"errored":0,"canceled":0,"expired":0}`, n)
		if status == processed {
			counts = fmt.Sprintf(`{"processing":0,"succeeded":%d,"errored":1,"canceled":0,"expired":0}`, n-1)
		}
		return fmt.Sprintf(`{"id":%q,"processing_status":%q,"created_at":%q,"request_counts":%s}`, id, status, since.Add(after).Format(time.RFC3339), counts)
	}
	result := func(id string) string { return `{"custom_id":"` + id + `","result":{"type":"expired"}}` + "\n" }
	list := func(batches ...string) string {
		return `{"has_more":false,"data":[` + strings.Join(batches, ",") + `]}`
	}
	const path = "GET /v1/messages/batches"
	for name, test := range map[string]struct {
		list      string
		second    string
		want      string
		undecided bool
		fails     bool
	}{
		"none":                     {list: list()},
		"ours":                     {list: list(batch("ours", processed, time.Second, 2)), want: "ours"},
		"ours by another clock":    {list: list(batch("ours", processed, -time.Minute, 2)), want: "ours"},
		"under way":                {list: list(batch("ours", "in_progress", time.Second, 2)), undecided: true},
		"known by another name":    {list: list(batch("known", "in_progress", time.Second, 2))},
		"being cancelled":          {list: list(batch("other", "canceling", time.Second, 2)), undecided: true},
		"ours beside one":          {list: list(batch("other", "in_progress", time.Minute, 2), batch("ours", processed, 0, 2)), want: "ours"},
		"another's":                {list: list(batch("other", processed, time.Second, 2))},
		"of another size":          {list: list(batch("other", "in_progress", time.Second, 3))},
		"created before":           {list: list(batch("other", "in_progress", -time.Hour, 2))},
		"created long after":       {list: list(batch("other", "in_progress", 2*time.Hour, 2))},
		"whose results are gone":   {list: list(batch("gone", processed, time.Second, 2))},
		"whose results are a page": {list: list(batch("page", processed, time.Second, 2)), fails: true},
		"on the second page": {
			list:   `{"has_more":true,"data":[` + batch("x", "in_progress", time.Hour, 9) + `]}`,
			second: list(batch("ours", processed, 0, 2)), want: "ours",
		},
		"undecided on the second page": {
			list:   `{"has_more":true,"data":[` + batch("x", "in_progress", time.Hour, 9) + `]}`,
			second: list(batch("y", "in_progress", 0, 2)), undecided: true,
		},
		"a second page that is broken": {list: `{"has_more":true,"data":[` + batch("x", "in_progress", time.Hour, 9) + `]}`, second: "<html>", fails: true},
		"no list":                      {list: `{}`, fails: true},
		"a web page":                   {list: "<html>", fails: true},
	} {
		s := &recorded{answers: map[string]string{
			path + "?limit=100":            test.list,
			path + "?after_id=x&limit=100": test.second,
			path + "/ours/results":         result(mark("wanted") + "r-0"),
			path + "/other/results":        result(mark("another") + "r-0"),
			path + "/page/results":         "<html>",
		}}
		ctx := providers.WithOtherBatches(t.Context(), "known")
		id, err := s.open(t).FindBatch(ctx, "", "wanted", since, 2)
		if id != test.want || errors.Is(err, providers.ErrUndecided) != test.undecided || (err != nil) != (test.undecided || test.fails) {
			t.Errorf("%s: got %q, %v, want %q, undecided: %v", name, id, err, test.want, test.undecided)
		}
	}
}

// TestBatchResults reads recorded results, and hostile ones.
func TestBatchResults(t *testing.T) {
	t.Parallel()
	id := mark("n")
	message := func(text, stop string) string {
		return `{"type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"` + text + `"}],"stop_reason":"` + stop +
			`","usage":{"input_tokens":3,"output_tokens":2,"service_tier":"batch"}}`
	}
	line := func(request, result string) string {
		return `{"custom_id":"` + id + request + `","result":` + result + "}\n"
	}
	good := line("a", `{"type":"succeeded","message":`+message("yes", "end_turn")+`}`)
	for name, test := range map[string]struct {
		results string
		want    []string
		class   providers.Class
	}{
		"all kinds": {
			good + line("b", `{"type":"errored","error":{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: required"}}}`) +
				line("c", `{"type":"errored","error":{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}}`) +
				line("d", `{"type":"canceled"}`) + line("e", `{"type":"expired"}`) +
				line("f", `{"type":"succeeded","message":`+message("half", "pause_turn")+`}`),
			[]string{"a yes batch", "b bad_request false", "c overloaded false", "d cancelled false", "e cancelled false", "f transient true batch"}, "",
		},
		"another type":       {line("a", `{"type":"pondered"}`), []string{"a transient true"}, ""},
		"no message":         {line("a", `{"type":"succeeded"}`), []string{"a transient true"}, ""},
		"no ID":              {`{"result":{"type":"expired"}}` + "\n" + good, []string{"a yes batch"}, providers.Malformed},
		"ID twice":           {good + good, []string{"a yes batch", "a yes batch"}, ""},
		"unknown ID":         {`{"custom_id":"short","result":{"type":"expired"}}`, []string{"short cancelled false"}, ""},
		"broken JSON":        {`{"custom_id":"` + id + `w","result":[}` + "\n" + good, []string{"a yes batch", "w transient true"}, ""},
		"a huge line":        {line("h", `{"type":"succeeded","message":`+message(strings.Repeat("x", 200_000), "end_turn")+`}`) + good, []string{"a yes batch", "h malformed true"}, ""},
		"ends within a line": {good + good[:80], []string{"a yes batch"}, providers.Transient},
		"a web page":         {"<html>\n", nil, providers.Transient},
		"an error":           {`{"type":"error","error":{"type":"api_error","message":"x"}}`, nil, providers.Malformed},
		"nothing":            {"", nil, ""},
	} {
		s := &recorded{answers: map[string]string{
			"GET /v1/messages/batches/b":         `{"id":"b","processing_status":"ended"}`,
			"GET /v1/messages/batches/b/results": test.results,
		}}
		var got []string
		ctx := providers.WithReading(t.Context(), providers.Reading{Most: 10_000})
		err := s.open(t).BatchAnswers(ctx, "", "b", func(request string, result *providers.Result, err error) error {
			var failed *providers.Error
			if errors.As(err, &failed) {
				got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %v %s", request, failed.Class, failed.MayBeBilled, failed.Used.Tier)))
			} else {
				got = append(got, fmt.Sprintf("%s %s %s", request, result.Text, result.Usage.Tier))
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
}
