package simulator

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// always has a model fail in one way.
func always(f Failure) Config {
	return Config{Behaviour: Behaviour{FailRate: 1, FailAs: f, RetryAfter: Span{34 * time.Second, 34 * time.Second}}}
}

// told is a failure as a client sees it.
type told struct {
	status int
	body   string
}

func TestChatFailures(t *testing.T) {
	t.Parallel()
	form := `{"error":{"message":%q,"type":%q,"param":null,"code":%s}}`
	for failure, want := range map[Failure]told{
		RateLimited:      {429, fmt.Sprintf(form, "Rate limit reached for careful in organization org-simulated on requests per min (RPM): Limit 60, Used 60, Requested 1. Please slow down.", "requests", `"rate_limit_exceeded"`)},
		QuotaDaily:       {429, fmt.Sprintf(form, "Rate limit reached for careful in organization org-simulated on requests per day (RPD): Limit 200, Used 200, Requested 1. Please slow down.", "requests", `"rate_limit_exceeded"`)},
		QuotaBilling:     {429, fmt.Sprintf(form, "You exceeded your current quota, please check your plan and billing details.", "insufficient_quota", `"insufficient_quota"`)},
		SpendLimit:       {429, fmt.Sprintf(form, "This project has reached its monthly spend limit.", "insufficient_quota", `"project_spend_limit_exceeded"`)},
		Overloaded:       {503, fmt.Sprintf(form, "The engine is currently overloaded, please try again later.", "overloaded_error", "null")},
		ServerError:      {500, fmt.Sprintf(form, "The server had an error while processing your request. Sorry about that!", "server_error", "null")},
		FailedIn200:      {200, fmt.Sprintf(form, "The server had an error while processing your request. Sorry about that!", "server_error", "null")},
		Loading:          {503, fmt.Sprintf(form, "Loading model", "unavailable_error", "null")},
		ContextLength:    {400, fmt.Sprintf(form, "This model's maximum context length is 2 tokens. However, your messages resulted in 5 tokens. Please reduce the length of the messages.", "invalid_request_error", `"context_length_exceeded"`)},
		Refused:          {400, fmt.Sprintf(form, "Invalid prompt: your prompt was flagged as potentially violating our usage policy.", "invalid_request_error", `"invalid_prompt"`)},
		Auth:             {401, fmt.Sprintf(form, "Incorrect API key provided.", "invalid_request_error", `"invalid_api_key"`)},
		ModelUnavailable: {404, fmt.Sprintf(form, "The model `careful` does not exist or you do not have access to it.", "invalid_request_error", `"model_not_found"`)},
		BadRequest:       {400, fmt.Sprintf(form, "Invalid value in the request.", "invalid_request_error", "null")},
	} {
		t.Run(string(failure), func(t *testing.T) {
			t.Parallel()
			s := start(t, always(failure))
			got := s.post(t, chatPath, `{"model":"careful","messages":[{"role":"user","content":"x"}]}`)
			got.is(t, want.status, want.body)
			if got.header.Get("Retry-After") != "34" || s.Stats().All.Failed != 1 {
				t.Errorf("got %v, %+v, want a hint of 34 seconds and one failure", got.header, s.Stats().All)
			}
		})
	}
}

func TestGarbageIsNoJSON(t *testing.T) {
	t.Parallel()
	s := start(t, always(Garbage))
	resp, err := client.Post(s.URL+chatPath, "application/json", strings.NewReader(`{"model":"careful","messages":[{"role":"user","content":"x"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/html" || string(body) != wreck {
		t.Errorf("got %d %v %q, %v", resp.StatusCode, resp.Header, body, err)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Keys: []string{"sk-one", "sk-two"}})
	const body = `{"model":"careful","messages":[{"role":"user","content":"x"}]}`
	for _, test := range []struct {
		header string
		status int
		code   any
	}{
		{"Bearer sk-two", 200, nil}, {"Bearer sk-three", 401, "invalid_api_key"}, {"", 401, nil},
	} {
		got := s.post(t, chatPath, body, "Authorization", test.header)
		problem, _ := got.body["error"].(map[string]any)
		if got.status != test.status || problem["code"] != test.code {
			t.Errorf("%q: got %d %v, want %d, %v", test.header, got.status, got.body, test.status, test.code)
		}
	}
	if got := s.Stats(); got.Keys != (KeyCounts{Right: 1, Wrong: 1, Missing: 1}) || got.All.Arrived != 1 {
		t.Errorf("counted: got %+v", got)
	}
	if header, key := s.LastKey(); header != "Authorization" || key != "sk-three" {
		t.Errorf("last key: got %q %q", header, key)
	}
	if got := encode(s.Stats()); strings.Contains(got, "sk-") {
		t.Errorf("the counts tell a key: %s", got)
	}
}

func TestAContextWindowBoundsInputAndOutput(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Behaviour: Behaviour{ContextWindow: 12}})
	if c := s.mustAsk(t, prompt("careful", "Say something.")); c.status != 200 || c.finish != "length" || c.usage["total_tokens"] != 12 {
		t.Errorf("an answer out of the window: got %+v", c)
	}
	c := s.mustAsk(t, prompt("careful", strings.Repeat("x", 36)))
	if c.status != 400 || !strings.Contains(c.error, "maximum context length is 12 tokens. However, your messages resulted in 13 tokens") {
		t.Errorf("a prompt over the window: got %+v", c)
	}
}

func TestAnswersOfAnyLength(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Behaviour: Behaviour{AnswerBytes: 10 << 20}})
	c := s.mustAsk(t, bounded("x", 3))
	if len(c.text) != 10<<20 || c.usage["completion_tokens"] != 3 {
		t.Errorf("got %d bytes, %v", len(c.text), c.usage)
	}
}

// TestABodyTrickles reads an answer whose bytes come one after the other, and
// leaves another in the middle.
func TestABodyTrickles(t *testing.T) {
	t.Parallel()
	models := map[string]Model{"endless": {Behaviour: &Behaviour{Trickle: Span{time.Hour, time.Hour}}}}
	for i := range 20 { // bodies of every length
		models[strings.Repeat("m", i+1)] = Model{}
	}
	s := start(t, Config{
		Behaviour: Behaviour{Trickle: Span{400 * time.Millisecond, 400 * time.Millisecond}},
		Models:    models,
	})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			began := time.Now()
			if c, err := s.ask(t.Context(), prompt(strings.Repeat("m", i+1), "x")); err != nil || c.text == "" || time.Since(began) < 400*time.Millisecond {
				t.Errorf("got %+v, %v after %v", c, err, time.Since(began))
			}
		})
	}
	wg.Wait()
	resp, err := client.Post(s.URL+chatPath, "application/json", strings.NewReader(encode(prompt("endless", "x"))))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 5)); err != nil {
		t.Error(err)
	}
	resp.Body.Close()
	s.until(t, "one abandoned", func(c Counts) bool { return c.Abandoned == 1 && c.InFlight == 0 })
}

func TestSettingsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]Behaviour{
		"fail_as: \"on_fire\"":   {FailAs: "on_fire"},
		"set only one of them":   {FailAs: Auth, FailStatus: 500},
		"search_with_json":       {SearchWithJSON: "perhaps"},
		"refuse_rate: 2":         {RefuseRate: 2},
		"truncate_rate: -1":      {TruncateRate: -1},
		"ungrounded_rate":        {UngroundedRate: 1.5},
		"unreasoned_rate":        {UnreasonedRate: 1.5},
		"vendor: \"acme\"":       {Vendor: "acme"},
		"filter_rate":            {FilterRate: 2},
		"lose_rate":              {LoseRate: 2},
		"cached_share":           {CachedShare: 2},
		"prompt_cache":           {PromptCache: &PromptCache{Manner: "often"}},
		"pauses: -1":             {Pauses: -1},
		"context_window: -1":     {ContextWindow: -1},
		"answer_bytes: -1":       {AnswerBytes: -1},
		"trickle: 2s..1s: want ": {Trickle: Span{2 * time.Second, time.Second}},
	} {
		if err := (Config{Behaviour: b}).Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%+v: got %v, want %q", b, err, name)
		}
	}
	if err := (Config{Keys: []string{"x", ""}}).Validate(); err == nil {
		t.Error("an empty key: got no error")
	}
	if err := (Config{Keys: []string{"x"}, Behaviour: Behaviour{FailAs: Garbage, SearchWithJSON: SearchIgnored}}).Validate(); err != nil {
		t.Error(err)
	}
}
