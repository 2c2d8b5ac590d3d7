package simulator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// client reuses the connections of a few calls at a time.
var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}

func TestMain(m *testing.M) {
	code := m.Run()
	client.CloseIdleConnections()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// start listens with the given configuration until the test ends.
func start(t *testing.T, config Config) *Server {
	t.Helper()
	s, err := Listen("127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// completion is what a client reads of an answer.
type completion struct {
	status int
	header http.Header
	text   string
	finish string
	usage  map[string]int
	// reasoning is a part of the output.
	reasoning int
	error     string
}

func (s *Server) ask(ctx context.Context, body map[string]any) (completion, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return completion{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/v1/chat/completions", bytes.NewReader(raw))
	if err != nil {
		return completion{}, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return completion{}, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return completion{}, err
	}
	var parsed struct {
		Choices []struct {
			Message      message
			FinishReason string `json:"finish_reason"`
		}
		Usage struct {
			Prompt     int `json:"prompt_tokens"`
			Completion int `json:"completion_tokens"`
			Total      int `json:"total_tokens"`
			Details    struct {
				Reasoning int `json:"reasoning_tokens"`
			} `json:"completion_tokens_details"`
		}
		Error struct{ Message, Code string }
	}
	if err := json.Unmarshal(answer, &parsed); err != nil {
		return completion{}, fmt.Errorf("%q: %w", answer, err)
	}
	u := parsed.Usage
	c := completion{
		status:    resp.StatusCode,
		header:    resp.Header,
		usage:     map[string]int{"prompt_tokens": u.Prompt, "completion_tokens": u.Completion, "total_tokens": u.Total},
		reasoning: u.Details.Reasoning,
		error:     parsed.Error.Code + " " + parsed.Error.Message,
	}
	if len(parsed.Choices) > 0 {
		c.text, c.finish = parsed.Choices[0].Message.Content, parsed.Choices[0].FinishReason
	}
	return c, nil
}

func prompt(model, text string) map[string]any {
	return map[string]any{"model": model, "messages": []message{{Role: "user", Content: text}}}
}

func (s *Server) mustAsk(t *testing.T, body map[string]any) completion {
	t.Helper()
	c, err := s.ask(t.Context(), body)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// until waits for a state that calls in flight are about to bring about.
func (s *Server) until(t *testing.T, what string, reached func(Counts) bool) {
	t.Helper()
	for deadline := testrun.Deadline(t); !reached(s.Stats().All); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not reached: %s; %+v", what, s.Stats().All)
		}
	}
}

func TestProseAnswerAndItsUsage(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	c := s.mustAsk(t, prompt("careful", "Say something."))
	if c.status != http.StatusOK || c.text == "" || c.finish != "stop" || c.header.Get("X-Request-Id") == "" {
		t.Errorf("got %+v", c)
	}
	if c.usage["prompt_tokens"] == 0 || c.usage["total_tokens"] != c.usage["prompt_tokens"]+c.usage["completion_tokens"] {
		t.Errorf("usage: got %v", c.usage)
	}
	short := prompt("careful", "Say something.")
	short["max_tokens"] = 5
	if c := s.mustAsk(t, short); c.finish != "length" || len(c.text) != 20 || c.usage["completion_tokens"] != 5 {
		t.Errorf("with 5 tokens at most: got %+v", c)
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	for name, test := range map[string]struct {
		body map[string]any
		want int
	}{
		"no messages":   {map[string]any{"model": "careful"}, 400},
		"unknown model": {prompt("gpt", "x"), 404},
		"streaming":     {map[string]any{"model": "careful", "stream": true, "messages": []message{{Role: "user"}}}, 400},
	} {
		if c := s.mustAsk(t, test.body); c.status != test.want || strings.TrimSpace(c.error) == "" {
			t.Errorf("%s: got %+v, want status %d", name, c, test.want)
		}
	}
	if got := s.Stats().All.Arrived; got != 0 {
		t.Errorf("arrived: got %d, want 0", got)
	}
}

// TestInFlightIsBoundedAndCounted holds two calls, has a third refused, lets one
// client leave and sees its slot free again.
func TestInFlightIsBoundedAndCounted(t *testing.T) {
	t.Parallel()
	s := start(t, Config{
		Limits:    Limits{MaxInFlight: 2},
		Behaviour: Behaviour{HangRate: 1, RetryAfter: Span{1500 * time.Millisecond, 1500 * time.Millisecond}},
		Models:    map[string]Model{"prompt": {Behaviour: &Behaviour{}}},
	})
	var wg sync.WaitGroup
	defer wg.Wait()
	hang := func(text string) context.CancelFunc {
		ctx, leave := context.WithCancel(t.Context())
		wg.Go(func() {
			if _, err := s.ask(ctx, prompt("careful", text)); !errors.Is(err, context.Canceled) {
				t.Errorf("a hanging call: got %v, want cancelled", err)
			}
		})
		return leave
	}
	leaveFirst, leaveSecond := hang("one"), hang("two")
	defer leaveSecond()
	s.until(t, "two in flight", func(c Counts) bool { return c.InFlight == 2 })
	c := s.mustAsk(t, prompt("prompt", "three"))
	if c.status != http.StatusTooManyRequests || !strings.HasPrefix(c.error, "rate_limit_exceeded") {
		t.Errorf("above the limit: got %+v", c)
	}
	c = s.mustAsk(t, prompt("careful", "four"))
	if c.header.Get("Retry-After") != "2" || c.header.Get("Retry-After-Ms") != "1500" {
		t.Errorf("hint: got %v", c.header)
	}
	leaveFirst()
	s.until(t, "one abandoned", func(c Counts) bool { return c.Abandoned == 1 && c.InFlight == 1 })
	if c := s.mustAsk(t, prompt("prompt", "three")); c.status != http.StatusOK {
		t.Errorf("with room again: got %+v", c)
	}
	got := s.Stats()
	if all := got.All; all.Arrived != 5 || all.Rejected != 2 || all.Answered != 1 || all.MaxInFlight != 2 || all.Prompts != 4 || all.PromptsRepeated != 1 || all.PromptsRetaken != 0 {
		t.Errorf("all: got %+v", all)
	}
	if m := got.Models["prompt"]; m.Arrived != 2 || m.Rejected != 1 || m.Answered != 1 || m.MaxInFlight != 1 {
		t.Errorf("model: got %+v", m)
	}
}

func TestAverageInFlightFromTwoSamples(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Behaviour: Behaviour{HangRate: 1}})
	ctx, leave := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() { _, _ = s.ask(ctx, prompt("careful", fmt.Sprint(i))) })
	}
	s.until(t, "three in flight", func(c Counts) bool { return c.InFlight == 3 })
	one := s.Stats()
	s.until(t, "some time gone by", func(c Counts) bool { return c.InFlightSeconds-one.All.InFlightSeconds > 0.05 })
	two := s.Stats()
	average := (two.All.InFlightSeconds - one.All.InFlightSeconds) / two.At.Sub(one.At).Seconds()
	if math.Abs(average-3) > 1e-6 {
		t.Errorf("average in flight: got %v, want 3", average)
	}
	s.Reset()
	if got := s.Stats().All; got.Arrived != 0 || got.InFlight != 3 || got.MaxInFlight != 3 || got.Prompts != 0 {
		t.Errorf("after a reset: got %+v", got)
	}
	leave()
	wg.Wait()
}

func TestRatesAreEnforcedPerModelAndTold(t *testing.T) {
	t.Parallel()
	s := start(t, Config{
		Limits: Limits{Requests: Rates{{N: 5, Window: time.Hour}}},
		Models: map[string]Model{"small": {Limits: Limits{Requests: Rates{{N: 2, Window: time.Hour}}}}},
	})
	statuses := func(model string, n int) (got []int) {
		for i := range n {
			got = append(got, s.mustAsk(t, prompt(model, fmt.Sprint(i))).status)
		}
		return got
	}
	if got, want := statuses("small", 3), []int{200, 200, 429}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("small: got %v, want %v", got, want)
	}
	if got, want := statuses("careful", 4), []int{200, 200, 200, 429}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("careful, after two of small: got %v, want %v", got, want)
	}
	c := s.mustAsk(t, prompt("careful", "once more"))
	if c.header.Get("X-Ratelimit-Limit-Requests") != "5" || c.header.Get("X-Ratelimit-Remaining-Requests") != "0" {
		t.Errorf("headers: got %v", c.header)
	}
	reset, err := time.ParseDuration(c.header.Get("X-Ratelimit-Reset-Requests"))
	if err != nil || reset < 59*time.Minute || reset > time.Hour || c.header.Get("Retry-After") == "" {
		t.Errorf("reset: got %v, %v; headers %v", reset, err, c.header)
	}
	got := s.Stats()
	if got.All.Limits[0].Busiest != 8 || got.Models["small"].Limits[0].Busiest != 3 || got.All.Rejected != 3 {
		t.Errorf("counted: got %+v", got)
	}
	want := map[string]int64{"requests 5/1h0m0s": 2, "requests 2/1h0m0s": 1}
	if diff := cmp.Diff(want, got.All.RejectedBy); diff != "" {
		t.Errorf("rejected by (-want +got):\n%s", diff)
	}
}

// TestFaultsDependOnSeedAndPromptOnly asks the same prompts in two orders.
func TestFaultsDependOnSeedAndPromptOnly(t *testing.T) {
	t.Parallel()
	const n = 60
	run := func(seed uint64, backwards bool) (fates [n]string) {
		s := start(t, Config{Seed: seed, Behaviour: Behaviour{FailRate: 0.3, FailStatus: 503, CutRate: 0.2}})
		for i := range n {
			if backwards {
				i = n - 1 - i
			}
			c, err := s.ask(t.Context(), prompt("careful", fmt.Sprint("prompt ", i)))
			switch {
			case errors.Is(err, io.ErrUnexpectedEOF):
				fates[i] = "cut"
			case err != nil:
				t.Fatal(err)
			default:
				fates[i] = fmt.Sprint(c.status)
			}
		}
		counted := s.Stats().All
		if counted.Failed+counted.Cut+counted.Answered != n || counted.Failed == 0 || counted.Cut == 0 || counted.Answered == 0 {
			t.Errorf("counted: got %+v, want some of each and %d together", counted, n)
		}
		return fates
	}
	first := run(1, false)
	if again := run(1, true); again != first {
		t.Errorf("in another order: got %v, want %v", again, first)
	}
	if other := run(2, false); other == first {
		t.Error("another seed has the same luck")
	}
}

func TestFailEveryFailsAPromptOnce(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Behaviour: Behaviour{FailEvery: 3}})
	failures := 0
	for i := range 60 {
		body := prompt("careful", fmt.Sprint("prompt ", i))
		if s.mustAsk(t, body).status == http.StatusInternalServerError {
			failures++
		}
		if c := s.mustAsk(t, body); c.status != http.StatusOK {
			t.Errorf("the second time: got %+v", c)
		}
	}
	if failures < 10 || failures > 30 {
		t.Errorf("failures: got %d of 60, want about 20", failures)
	}
}

func TestLatencyIsKept(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Behaviour: Behaviour{Latency: Span{50 * time.Millisecond, 80 * time.Millisecond}}})
	began := time.Now()
	s.mustAsk(t, prompt("careful", "x"))
	if took := time.Since(began); took < 50*time.Millisecond {
		t.Errorf("took %v, want at least 50ms", took)
	}
}

func TestStatsAndHealthOverHTTP(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	s.mustAsk(t, prompt("careful", "x"))
	get := func(method, path string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		raw, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(raw)
	}
	if status, body := get("GET", "/healthz"); status != 200 || body != "ok\n" {
		t.Errorf("healthz: got %d %q", status, body)
	}
	var stats Stats
	_, body := get("GET", "/stats")
	if err := json.Unmarshal([]byte(body), &stats); err != nil || stats.All.Answered != 1 || stats.Models["careful"].Answered != 1 {
		t.Errorf("stats: got %s, %v", body, err)
	}
	if status, _ := get("POST", "/stats/reset"); status != 200 || s.Stats().All.Answered != 0 {
		t.Errorf("reset: got %d, then %+v", status, s.Stats().All)
	}
}

// TestAWholeAnswerMakesRoom has as many clients as there is room for, each
// sending its next request as soon as it has its answer.
func TestAWholeAnswerMakesRoom(t *testing.T) {
	t.Parallel()
	const clients, calls = 4, 200
	s := start(t, Config{Limits: Limits{MaxInFlight: clients}})
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := range calls {
				if got, err := s.ask(t.Context(), prompt("careful", fmt.Sprint(c, " ", i))); err != nil || got.status != http.StatusOK {
					t.Errorf("call %d of client %d: got %+v, %v", i, c, got, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := s.Stats().All; got.Answered != clients*calls || got.Rejected != 0 || got.MaxInFlight > clients {
		t.Errorf("counted: got %+v", got)
	}
}

// watcher is a client's side that looks how many calls are in flight whenever
// bytes reach it.
type watcher struct {
	http.ResponseWriter
	simulator *Simulator
	inFlight  []int
}

func (w *watcher) Flush() {}

func (w *watcher) Write(p []byte) (int, error) {
	w.inFlight = append(w.inFlight, w.simulator.Stats().All.InFlight)
	return w.ResponseWriter.Write(p)
}

func TestACallEndsJustBeforeItsLastByte(t *testing.T) {
	t.Parallel()
	s := New(Config{})
	raw, err := json.Marshal(prompt("careful", "x"))
	if err != nil {
		t.Fatal(err)
	}
	recorder := httptest.NewRecorder()
	w := &watcher{ResponseWriter: recorder, simulator: s}
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions", bytes.NewReader(raw)))
	if fmt.Sprint(w.inFlight) != "[1 0]" {
		t.Errorf("in flight at each write: got %v, want [1 0]", w.inFlight)
	}
	if body := recorder.Body.String(); fmt.Sprint(len(body)) != recorder.Header().Get("Content-Length") || !json.Valid([]byte(body)) {
		t.Errorf("body: got %q, headers %v", body, recorder.Header())
	}
}
