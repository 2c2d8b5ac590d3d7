package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/chat"
	"github.com/evalfleet/evalfleet/providers/transport"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// panel makes a panel of what submit asks: agents about dimensions d0, d1, …, each
// document asked for in one call where batching is on.
func panel(agents, dimensions int, batching bool) func(*eval.Evaluation, map[string]string, *record.Settings) {
	return func(e *eval.Evaluation, _ map[string]string, s *record.Settings) {
		e.Judges, e.Pairwise = nil, nil
		e.Panel = &eval.Panel{Scale: eval.Scale{Min: 1, Max: 5}}
		for i := range agents {
			name := fmt.Sprintf("agent%d", i)
			e.Panel.Agents = append(e.Panel.Agents, eval.Judge{Name: name, Provider: "p", Model: "m", Prompt: "You are " + name + "."})
			if batching {
				s.Batching = append(s.Batching, name)
			}
		}
		for i := range dimensions {
			e.Panel.Dimensions = append(e.Panel.Dimensions, eval.Dimension{ID: fmt.Sprintf("d%d", i)})
		}
	}
}

// panelist answers panels as change says, and counts what it was asked.
type panelist struct {
	change func(ids []string, entries []string) []string // of a call for several dimensions

	mu     sync.Mutex
	asked  map[string]int // dimensions with commas between, over all agents
	failed map[string]int // as asked, of calls that are to fail
}

// opinion is a proper entry.
func opinion(id string) string {
	return fmt.Sprintf(`{"criterion_id":%q,"score":3,"argument":"of %s"}`, id, id)
}

func (p *panelist) answer(_ context.Context, _ int, request *providers.Request) (*providers.Result, error) {
	var schema struct {
		Properties struct {
			Evaluations struct {
				Items struct {
					Properties struct {
						ID struct {
							Enum []string `json:"enum"`
						} `json:"criterion_id"`
					} `json:"properties"`
				} `json:"items"`
			} `json:"evaluations"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(request.Schema.Schema, &schema); err != nil {
		return nil, &providers.Error{Class: providers.BadRequest, Message: err.Error()}
	}
	ids := schema.Properties.Evaluations.Items.Properties.ID.Enum
	key := strings.Join(ids, ",")
	p.mu.Lock()
	if p.asked == nil {
		p.asked = map[string]int{}
	}
	p.asked[key]++
	fails := p.failed[key] > 0
	if fails {
		p.failed[key]--
	}
	p.mu.Unlock()
	if fails {
		return nil, &providers.Error{Class: providers.Overloaded, Status: 503, Message: "too busy"}
	}
	entries := make([]string, len(ids))
	for i, id := range ids {
		entries[i] = opinion(id)
	}
	if len(ids) > 1 && p.change != nil {
		entries = p.change(ids, entries)
	}
	return &providers.Result{
		Text: `{"evaluations":[` + strings.Join(entries, ",") + `]}`, Finish: providers.FinishStop,
		Usage: providers.Usage{Reported: true, Input: 10, Output: 2},
	}, nil
}

func (p *panelist) count() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := map[string]int{}
	for ids, n := range p.asked {
		if strings.Contains(ids, ",") {
			ids = "together"
		}
		counts[ids] += n
	}
	return counts
}

// linesWith are those of a log that hold a text.
func linesWith(log string, text string) []string {
	var found []string
	for line := range strings.Lines(log) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// sharedLog is a log that may be read while it is written.
type sharedLog struct {
	mu  sync.Mutex
	log bytes.Buffer
}

func (l *sharedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Write(p)
}

func (l *sharedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.String()
}

func TestPartOfAnAnswerToAllDimensionsIsKept(t *testing.T) {
	t.Parallel()
	const corrupt = `{"criterion_id":"d%d","score":"high","argument":"r"}`
	for name, tt := range map[string]struct {
		spoilt int   // dimension whose entry is corrupt
		left   []int // dimensions left out
	}{
		"the leader's outcome is kept": {4, []int{2, 7, 9}},
		"the leader's is not":          {0, []int{2, 7, 9}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw := fmt.Sprintf(corrupt, tt.spoilt)
			judge := &panelist{change: func(_, entries []string) []string {
				entries[tt.spoilt] = raw
				var kept []string
				for i, entry := range entries {
					if !slices.Contains(tt.left, i) {
						kept = append(kept, entry)
					}
				}
				return kept
			}}
			b := setup(t, &fakeProvider{answer: judge.answer})
			b.submit(1, panel(1, 10, true))
			log, cfg := &sharedLog{}, b.config()
			cfg.Log = zerolog.New(log)
			stop := b.start(cfg)
			b.wait()
			stop()

			want := map[string]int{"together": 1, fmt.Sprintf("d%d", tt.spoilt): 1}
			for _, i := range tt.left {
				want[fmt.Sprintf("d%d", i)] = 1
			}
			if diff := cmp.Diff(want, judge.count()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			b.wantEachOnce()
			runs, calls := b.outcomes()
			if len(calls) != 5 {
				t.Errorf("%d calls are recorded, want 5", len(calls))
			}
			for index, of := range runs {
				id := fmt.Sprintf("d%d", index)
				wantScore := []record.Score{{Criterion: id, Score: 3, Reason: "of " + id}}
				if diff := cmp.Diff(wantScore, of[0].Scores); diff != "" || of[0].Dimension != id || of[0].Judge != "agent0" {
					t.Errorf("run %d is %+v", index, of[0])
				}
			}
			escaped, _ := json.Marshal(raw)
			if warned := linesWith(log.String(), `"level":"warn"`); len(warned) != 1 || !strings.Contains(warned[0], string(escaped)) {
				t.Errorf("warnings %q, want one with %s", warned, raw)
			}
		})
	}
}

// After a call for all dimensions has failed for good, each is asked for by itself, the
// leader's own too, unless that would fail for the same reason.
func TestFailureOfACallForAllDimensions(t *testing.T) {
	t.Parallel()
	all := "d0,d1,d2"
	for name, tt := range map[string]struct {
		class  providers.Class
		leader string // its state
		want   map[string]int
	}{
		"too long":  {providers.ContextLength, "succeeded", map[string]int{"together": 1, "d0": 1, "d1": 1, "d2": 1}},
		"overload":  {providers.Overloaded, "succeeded", map[string]int{"together": 3, "d0": 1, "d1": 1, "d2": 1}},
		"too slow":  {providers.Timeout, "succeeded", map[string]int{"together": 3, "d0": 1, "d1": 1, "d2": 1}},
		"no longer": {providers.ModelUnavailable, "failed", map[string]int{"together": 1, "d1": 1, "d2": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			judge := &panelist{}
			b := setup(t, &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
				result, err := judge.answer(ctx, n, request)
				if strings.Contains(string(request.Schema.Schema), `"d0","d1"`) {
					return nil, &providers.Error{Class: tt.class, Status: 503, Message: "no"}
				}
				return result, err
			}})
			b.submit(1, panel(1, 3, true))
			defer b.start(b.config())()
			b.wait()
			if diff := cmp.Diff(tt.want, judge.count()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			runs, _ := b.outcomes()
			if runs[0][0].State != tt.leader || runs[1][0].State != "succeeded" || runs[2][0].State != "succeeded" {
				t.Errorf("asked for %s: %+v", all, runs)
			}
		})
	}
}

// A model whose endpoint refuses every JSON mode is not asked for several dimensions in
// words, but for each by itself.
func TestModelWithoutAJSONModeIsAskedSingly(t *testing.T) {
	t.Parallel()
	var formats, together, singly atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		raw, _ := io.ReadAll(request.Body)
		body := string(raw)
		named := regexp.MustCompile(`\bd[0-2]\b`).FindAllString(body, -1)
		slices.Sort(named)
		named = slices.Compact(named)
		switch {
		case strings.Contains(body, "response_format"):
			formats.Add(1)
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error": {"message": "This response_format type is unavailable now", "type": "invalid_request_error"}}`)
			return
		case len(named) > 1:
			together.Add(1)
		default:
			singly.Add(1)
		}
		entries := make([]string, len(named))
		for i, id := range named {
			entries[i] = opinion(id)
		}
		text, _ := json.Marshal(`{"evaluations":[` + strings.Join(entries, ",") + `]}`)
		fmt.Fprintf(w, `{"choices": [{"message": {"content": %s}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 9, "completion_tokens": 3}}`, text)
	}))
	t.Cleanup(server.Close)
	model, err := chat.New(chat.Config{Config: transport.Config{BaseURL: server.URL, HTTPClient: server.Client()}})
	if err != nil {
		t.Fatal(err)
	}
	b := setup(t, nil)
	b.submit(4, panel(1, 3, true))
	log, cfg := &sharedLog{}, b.config()
	cfg.Log, cfg.Endpoints = zerolog.New(log), map[string]providers.Endpoint{"p": {Provider: model, Key: "k"}}
	stop := b.start(cfg)
	b.wait()
	stop()
	if together.Load() != 0 || singly.Load() != 12 || formats.Load() < 2 {
		t.Errorf("%d calls for several dimensions in words and %d for one, after %d with a response_format; want 0, 12 and at least 2",
			together.Load(), singly.Load(), formats.Load())
	}
	runs, calls := b.outcomes()
	for index, of := range runs {
		if of[0].State != "succeeded" || of[0].Attempts != 1 {
			t.Errorf("run %d ended as %+v, want one attempt that succeeded", index, of[0])
		}
	}
	if len(calls) != 12 {
		t.Errorf("%d calls are recorded, want 12", len(calls))
	}
	if said := linesWith(log.String(), "no JSON mode"); len(said) != 1 {
		t.Errorf("said %d times, want once: %s", len(said), said)
	}
}

func TestDimensionThatCannotBeHadHasNoScore(t *testing.T) {
	t.Parallel()
	judge := &panelist{failed: map[string]int{"d1": 1000}}
	b := setup(t, &fakeProvider{answer: judge.answer})
	b.submit(2, panel(2, 3, false))
	log, cfg := &sharedLog{}, b.config()
	cfg.Log = zerolog.New(log)
	var events []observe.Event
	var mu sync.Mutex
	cfg.Observer.Event = func(e observe.Event) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, e)
	}
	stop := b.start(cfg)
	b.wait()
	stop()
	if diff := cmp.Diff(map[string]int{"d0": 4, "d1": 12, "d2": 4}, judge.count()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	runs, _ := b.outcomes()
	for index, of := range runs {
		run := of[0]
		switch {
		case run.Dimension != "d1" && (run.State != "succeeded" || len(run.Scores) != 1):
			t.Errorf("run %d: %+v", index, run)
		case run.Dimension == "d1" && (run.Reason != "Evaluation failed after 3 retries" || run.Scores != nil || run.Class != providers.Overloaded || run.Error == ""):
			t.Errorf("run %d: %+v", index, run)
		}
	}
	said := linesWith(log.String(), `"level":"error"`)
	if len(said) != 4 {
		t.Fatalf("%d errors in the log, want 4: %s", len(said), said)
	}
	for _, field := range []string{`"agent":"agent`, `"dimension":"d1"`, `"status_code":503`, `"elapsed_s":`} {
		if !strings.Contains(said[0], field) {
			t.Errorf("the error %s lacks %s", said[0], field)
		}
	}
	for _, e := range events {
		if !strings.HasPrefix(e.Agent, "agent") || !strings.HasPrefix(e.Dimension, "d") {
			t.Errorf("event without agent or dimension: %+v", e)
		}
	}
}

// A 429 is an attempt of a panel's run, which waits for the shared cooldown all the
// same.
func TestRefusedCallsOfAPanelAreAttempts(t *testing.T) {
	t.Parallel()
	var refused atomic.Int32
	judge := &panelist{}
	b := setup(t, &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		if strings.Contains(string(request.Schema.Schema), `["d0"]`) && refused.Add(1) <= 100 {
			return nil, &providers.Error{Class: providers.RateLimited, Status: 429, Message: "slow down", RetryAfter: 10 * time.Millisecond}
		}
		return judge.answer(ctx, n, request)
	}})
	b.submit(1, panel(1, 2, false))
	defer b.start(b.config())()
	b.wait()
	runs, _ := b.outcomes()
	if run := runs[0][0]; refused.Load() != 3 || run.Attempts != 3 || run.Class != providers.RateLimited || runs[1][0].State != "succeeded" {
		t.Errorf("%d calls were refused, and the runs ended as %+v; want 3", refused.Load(), runs)
	}
}

func TestAnswerThatWasTakenIsNotAskedForAgain(t *testing.T) {
	t.Parallel()
	judge := &panelist{}
	b := setup(t, &fakeProvider{answer: judge.answer})
	b.submit(1, panel(1, 3, true))
	leader := record.Task{Evaluation: b.id, Kind: eval.KindPanel}
	if _, err := b.store.SaveProgress(t.Context(), leader, store.Progress{Taken: true}, nil); err != nil {
		t.Fatal(err)
	}
	defer b.start(b.config())()
	b.wait()
	if diff := cmp.Diff(map[string]int{"d0": 1, "d1": 1, "d2": 1}, judge.count()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}
