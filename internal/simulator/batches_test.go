package simulator

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// upload sends a file of requests and returns its ID.
func (s *Server) uploaded(t *testing.T, lines ...string) string {
	t.Helper()
	w := s.sendFile(t, "batch", strings.Join(lines, "\n"))
	id, _ := w.body["id"].(string)
	if w.status != http.StatusOK || id == "" {
		t.Fatalf("upload: got %d, %v", w.status, w.body)
	}
	return id
}

func (s *Server) sendFile(t *testing.T, purpose, content string) wire {
	t.Helper()
	var form bytes.Buffer
	to := multipart.NewWriter(&form)
	_ = to.WriteField("purpose", purpose)
	file, err := to.CreateFormFile("file", "requests.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(file, content)
	_ = to.Close()
	return s.post(t, "/v1/files", form.String(), "Content-Type", to.FormDataContentType())
}

func batchLine(id, model, text string) string {
	return fmt.Sprintf(`{"custom_id":%q,"method":"POST","url":"/v1/chat/completions","body":{"model":%q,"messages":[{"role":"user","content":%q}]}}`, id, model, text)
}

func creation(file, endpoint, window string) string {
	return fmt.Sprintf(`{"input_file_id":%q,"endpoint":%q,"completion_window":%q,"metadata":{"a":"b"}}`, file, endpoint, window)
}

// settled polls a batch of OpenAI's form until it has ended.
func (s *Server) settled(t *testing.T, id string) map[string]any {
	t.Helper()
	var object map[string]any
	testrun.EventuallyGot(t, "the batch ends", func() (string, bool) {
		object = s.exchange(t, http.MethodGet, "/v1/batches/"+id, "").body
		switch object["status"] {
		case "completed", "failed", "expired", "cancelled":
			return "", true
		}
		return fmt.Sprint(object["status"]), false
	})
	return object
}

// content returns the lines of a file.
func (s *Server) content(t *testing.T, file any) (lines []map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("%s/v1/files/%v/content", s.URL, file), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("file %v: %d, %v", file, resp.StatusCode, err)
	}
	for line := range strings.Lines(string(raw)) {
		lines = append(lines, decoded(t, line))
	}
	return lines
}

func TestFilesThatMakeABatchFail(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	for code, lines := range map[string][]string{
		"invalid_json_line":          {batchLine("a", "careful", "x"), `{"custom_id":`},
		"missing_required_parameter": {batchLine("", "careful", "x")},
		"duplicate_custom_id":        {batchLine("a", "careful", "x"), batchLine("a", "careful", "y")},
		"mismatched_url":             {strings.Replace(batchLine("a", "careful", "x"), "/v1/chat", "/v2/chat", 1)},
		"mismatched_model":           {batchLine("a", "careful", "x"), batchLine("b", "careless", "x")},
		"model_not_found":            {batchLine("a", "unknown", "x")},
		"empty_file":                 {"\n", "\n"},
	} {
		created := s.post(t, "/v1/batches", creation(s.uploaded(t, lines...), "/v1/chat/completions", "24h"))
		if created.status != http.StatusOK || created.body["status"] != "validating" {
			t.Errorf("%s: got %d, %v, want that the batch is validated first", code, created.status, created.body)
		}
		object := s.settled(t, fmt.Sprint(created.body["id"]))
		if object["status"] != "failed" || !strings.Contains(encode(object["errors"]), `"code":"`+code+`"`) || object["output_file_id"] != nil {
			t.Errorf("got %v, want a batch that failed with %s", object, code)
		}
	}
	if counts := s.Stats().All.Batches; counts.Refused != 7 || counts.Submitted != 0 || counts.Enqueued != 0 {
		t.Errorf("counts %+v, want 7 refused batches", counts)
	}
}

func TestRequestsAboutBatchesThatAreRefused(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	file := s.uploaded(t, batchLine("a", "careful", "x"))
	const anthropic, google = "/v1/messages/batches", "/v1beta/models/careful:batchGenerateContent"
	version := []string{"Anthropic-Version", "2023-06-01"}
	for name, test := range map[string]struct {
		method, path, body string
		header             []string
		status             int
		says               string
	}{
		"no form":            {"POST", "/v1/files", "{}", nil, 400, "multipart"},
		"another window":     {"POST", "/v1/batches", creation(file, "/v1/chat/completions", "1h"), nil, 400, "24h"},
		"another endpoint":   {"POST", "/v1/batches", creation(file, "/v1/embeddings", "24h"), nil, 400, "/v1/responses"},
		"no file":            {"POST", "/v1/batches", creation("file-0", "/v1/responses", "24h"), nil, 400, "file-0 not found"},
		"an unknown field":   {"POST", "/v1/batches", `{"file":"x"}`, nil, 400, "unknown field"},
		"an unknown batch":   {"GET", "/v1/batches/batch_0", "", nil, 404, "batch_0"},
		"an unknown file":    {"GET", "/v1/files/file-0", "", nil, 404, "file-0"},
		"unknown answers":    {"GET", "/v1/files/file-output-batch_0/content", "", nil, 404, "file-output-batch_0"},
		"no version":         {"POST", anthropic, `{"requests":[]}`, nil, 400, "anthropic-version"},
		"no requests":        {"POST", anthropic, `{"requests":[]}`, version, 400, "at least 1 item"},
		"a bad custom_id":    {"POST", anthropic, `{"requests":[{"custom_id":"a b","params":{}}]}`, version, 400, "should match pattern"},
		"a long custom_id":   {"POST", anthropic, `{"requests":[{"custom_id":"` + strings.Repeat("x", 65) + `","params":{}}]}`, version, 400, "should match pattern"},
		"a custom_id twice":  {"POST", anthropic, `{"requests":[{"custom_id":"a","params":{}},{"custom_id":"a","params":{}}]}`, version, 400, "Duplicate custom_id"},
		"no message batch":   {"GET", anthropic + "/msgbatch_0", "", version, 404, "msgbatch_0"},
		"another's as ours":  {"GET", anthropic + "/batch_0/results", "", version, 404, "batch_0"},
		"no name":            {"POST", google, `{"batch":{"inputConfig":{"requests":{"requests":[{"request":{}}]}}}}`, nil, 400, "display_name"},
		"none inline":        {"POST", google, `{"batch":{"displayName":"n"}}`, nil, 400, "no requests"},
		"no operation":       {"GET", "/v1beta/batches/0", "", nil, 404, "not found"},
		"cancel no batch":    {"POST", "/v1beta/batches/0:cancel", "", nil, 404, "not found"},
		"no method":          {"POST", "/v1beta/batches/0:start", "", nil, 404, "not found"},
		"google's old model": {"POST", "/v1beta/models/old:batchGenerateContent", `{"batch":{"displayName":"n","inputConfig":{"requests":{"requests":[{"request":{"contents":[{"parts":[{"text":"x"}]}]}}]}}}}`, nil, 404, "old"},
	} {
		got := s.exchange(t, test.method, test.path, test.body, test.header...)
		if got.status != test.status || !strings.Contains(encode(got.body), test.says) {
			t.Errorf("%s: got %d, %v, want %d and %q", name, got.status, got.body, test.status, test.says)
		}
	}
	if w := s.sendFile(t, "assistants", "x"); w.status != http.StatusBadRequest {
		t.Errorf("another purpose: got %d", w.status)
	}
	if w := s.sendFile(t, "batch", ""); w.status != http.StatusBadRequest {
		t.Errorf("an empty file: got %d", w.status)
	}
	if counts := s.Stats().All.Batches; counts.Submitted != 0 {
		t.Errorf("%d batches were accepted, want none", counts.Submitted)
	}
}

// TestBatchWindow: what is not answered in time expires, and is not charged.
func TestBatchWindow(t *testing.T) {
	t.Parallel()
	second := func(d time.Duration) Span { return Span{Min: d, Max: d} }
	s := start(t, Config{Behaviour: Behaviour{BatchTime: second(time.Second), BatchWindow: second(300 * time.Millisecond)}})
	var lines []string
	for i := range 10 {
		lines = append(lines, batchLine(fmt.Sprintf("r-%d", i), "careful", fmt.Sprintf("Question %d.", i)))
	}
	created := s.post(t, "/v1/batches", creation(s.uploaded(t, lines...), "/v1/chat/completions", "24h"))
	object := s.settled(t, fmt.Sprint(created.body["id"]))
	answers, mistakes := s.content(t, object["output_file_id"]), s.content(t, object["error_file_id"])
	if object["status"] != "expired" || len(answers) != 3 || len(mistakes) != 7 || !strings.Contains(encode(mistakes[0]), "batch_expired") {
		t.Errorf("got status %v, %d answers and %d errors, the first %v; want 3 answers in 3 tenths of the time", object["status"], len(answers), len(mistakes), mistakes[0])
	}
	all := s.Stats().All
	if b := all.Batches; b.Answered != 3 || b.Expired != 7 || b.Enqueued != 0 || b.MostEnqueued == 0 || b.Ended != 1 {
		t.Errorf("counts %+v", b)
	}
	if want := float64(all.InputTokens+4*all.OutputTokens) / 2e6; all.ChargedUSD != want || want == 0 {
		t.Errorf("charged %g, want %g", all.ChargedUSD, want)
	}

	// The same answers cost twice as much one by one.
	for _, line := range answers {
		for i := range 10 {
			if line["custom_id"] == fmt.Sprintf("r-%d", i) {
				s.post(t, "/v1/chat/completions", fmt.Sprintf(`{"model":"careful","messages":[{"role":"user","content":"Question %d."}]}`, i))
			}
		}
	}
	if now := s.Stats().All; now.ChargedUSD < 2.9*all.ChargedUSD || now.ChargedUSD > 3.1*all.ChargedUSD || now.PromptsRetaken != 3 {
		t.Errorf("charged %g after %g, %d prompts were answered twice; want about three times as much, and 3", now.ChargedUSD, all.ChargedUSD, now.PromptsRetaken)
	}
}

// TestEnqueuedTokensOfAllModels: the endpoint's own bound is one for all models, and a batch that ends makes room.
func TestEnqueuedTokensOfAllModels(t *testing.T) {
	t.Parallel()
	hour := Span{Min: time.Hour, Max: time.Hour}
	s := start(t, Config{Limits: Limits{EnqueuedTokens: 10}, Behaviour: Behaviour{BatchTime: hour}})
	create := func(model string) wire {
		return s.post(t, "/v1/messages/batches", `{"requests":[{"custom_id":"a","params":{"model":"`+model+`","max_tokens":9,"messages":[{"role":"user","content":"x"}]}}]}`,
			"Anthropic-Version", "2023-06-01")
	}
	first, second := create("careful"), create("careless") // 5 tokens each
	third := create("average")
	if first.status != http.StatusOK || second.status != http.StatusOK || third.status != http.StatusTooManyRequests {
		t.Errorf("got %d, %d and %d, want two batches, and one refused", first.status, second.status, third.status)
	}
	if all := s.Stats().All.Batches; all.Submitted != 2 || all.Refused != 1 || all.MostEnqueued != 10 {
		t.Errorf("counts %+v", all)
	}
	if own := s.Stats().Models["careless"].Batches; own.Submitted != 1 || own.Enqueued != 5 {
		t.Errorf("counts of one model: %+v", own)
	}
}

// TestListsOfBatchesMayLag: a new batch is missing in lists for a while, and can be asked for.
func TestListsOfBatchesMayLag(t *testing.T) {
	t.Parallel()
	delay := Span{Min: 300 * time.Millisecond, Max: 300 * time.Millisecond}
	s := start(t, Config{Behaviour: Behaviour{BatchListDelay: delay}})
	created := s.post(t, "/v1/batches", creation(s.uploaded(t, batchLine("a", "careful", "x")), "/v1/chat/completions", "24h"))
	listed := func() int {
		return len(s.exchange(t, http.MethodGet, "/v1/batches", "").body["data"].([]any))
	}
	at := time.Now()
	if n := listed(); n != 0 && time.Since(at) < delay.Min/2 {
		t.Errorf("%d batches are listed at once, want none", n)
	}
	s.settled(t, fmt.Sprint(created.body["id"]))
	testrun.Eventually(t, "the batch is listed", func() bool { return listed() == 1 })
}

func TestBatchSettings(t *testing.T) {
	t.Parallel()
	for wrong, config := range map[string]Config{
		"enqueued_tokens":   {Limits: Limits{EnqueuedTokens: -1}},
		"batch_expire_rate": {Behaviour: Behaviour{BatchExpireRate: 1.5}},
		"batch_time":        {Behaviour: Behaviour{BatchTime: Span{Min: 2, Max: 1}}},
		"batch_window":      {Behaviour: Behaviour{BatchWindow: Span{Min: -1}}},
		"batch_list_delay":  {Behaviour: Behaviour{BatchListDelay: Span{Min: -1}}},
	} {
		if err := config.Validate(); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: got %v", wrong, err)
		}
	}
}
