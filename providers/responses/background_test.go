package responses

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/providers"
)

// keeper is a server of background jobs as
// https://developers.openai.com/api/docs/guides/background describes it: it gives
// out one job, answers each question with the next state, and stays with the last.
type keeper struct {
	mu     sync.Mutex
	seen   []string // requests as they came
	states []string // bodies of GET
	cancel string   // body of a cancellation; with a digit in front, its status
}

func (k *keeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen = append(k.seen, strings.TrimSpace(r.Method+" "+r.URL.EscapedPath()+" "+string(body)))
	if got := r.Header.Get("Authorization"); got != "Bearer sk-secret-key" {
		k.seen = append(k.seen, "key: "+got)
	}
	answer := `{"id":"resp_1","object":"response","status":"queued","background":true,"output":[]}`
	switch {
	case r.Method == http.MethodGet && len(k.states) > 0:
		answer = k.states[0]
		if len(k.states) > 1 {
			k.states = k.states[1:]
		}
	case strings.HasSuffix(r.URL.Path, "/cancel"):
		answer = k.cancel
	}
	var status int
	if n, _ := fmt.Sscanf(answer, "%d ", &status); n == 1 {
		w.WriteHeader(status)
		answer = answer[4:]
	}
	_, _ = io.WriteString(w, answer)
}

func (k *keeper) requests() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.seen
}

func keeping(t *testing.T, k *keeper) *Provider {
	t.Helper()
	return endpoint(t, knowing(providers.Capabilities{
		JSON: providers.JSONNone, Search: "web_search_preview", Reasoning: providers.ReasoningEffort, Efforts: []string{"medium"}, Sampling: providers.SamplingNever,
	}), k.ServeHTTP)
}

const (
	inProgress = `{"id":"resp_1","status":"in_progress","output":[]}`
	researched = `{"id":"resp_1","status":"completed","model":"o3-deep-research-2025-06-26","output":[` +
		`{"type":"reasoning","summary":[{"type":"summary_text","text":"plan"}]},` +
		`{"type":"web_search_call","status":"completed","action":{"type":"search","query":"q"}},` +
		`{"type":"message","content":[{"type":"output_text","text":"Report.","annotations":[{"type":"url_citation","url":"https://a.example","title":"A"}]}]}],` +
		`"usage":{"input_tokens":60506,"input_tokens_details":{"cached_tokens":0},"output_tokens":22883,"output_tokens_details":{"reasoning_tokens":20416},"total_tokens":83389}}`
	key = "sk-secret-key"
)

// TestAJobFromSubmissionToResult follows
// https://developers.openai.com/api/docs/guides/deep-research.
func TestAJobFromSubmissionToResult(t *testing.T) {
	t.Parallel()
	k := &keeper{states: []string{`{"id":"resp_1","status":"queued","output":[]}`, inProgress, researched}}
	provider := keeping(t, k)
	req := request()
	req.Search, req.Reason, req.Extra = true, true, map[string]any{"max_tool_calls": 40}
	warm := 0.5
	req.Temperature = &warm
	id, err := provider.Submit(t.Context(), req)
	if err != nil || id != "resp_1" {
		t.Fatalf("submitted: got %q, %v", id, err)
	}
	for range 2 {
		if result, done, err := provider.Poll(t.Context(), key, id); result != nil || done || err != nil {
			t.Fatalf("under way: got %+v, %v, %v", result, done, err)
		}
	}
	want := &providers.Result{
		Text: "Report.", Finish: providers.FinishStop, Model: "o3-deep-research-2025-06-26", Reasoning: "plan",
		Usage:     providers.Usage{Reported: true, Input: 60506, Output: 22883, Reasoning: 20416},
		Grounding: providers.Grounding{Searches: 1, Queries: []string{"q"}, Sources: []providers.Source{{URL: "https://a.example", Title: "A"}}},
		Raw:       []byte(researched),
	}
	for range 2 { // after the first died, another may poll
		result, done, err := provider.Poll(t.Context(), key, id)
		if err != nil || !done {
			t.Fatalf("ended: got %v, %v", done, err)
		}
		if diff := cmp.Diff(want, result); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
	}
	const poll = "GET /v1/responses/resp_1"
	sent := []string{
		`POST /v1/responses {"background":true,"include":["web_search_call.action.sources"],"input":[{"role":"user","content":"a or b?"}],"max_tool_calls":40,"model":"m1",` +
			`"reasoning":{"effort":"medium","summary":"auto"},"store":true,"tool_choice":"required","tools":[{"type":"web_search_preview"}],"truncation":"disabled"}`,
		poll, poll, poll, poll,
	}
	if diff := cmp.Diff(sent, k.requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestPoll(t *testing.T) {
	t.Parallel()
	const text = `"output":[{"type":"message","content":[{"type":"output_text","text":"{\"a\":1}"}]}]`
	for _, test := range []struct {
		name, state string
		done        bool
		class       providers.Class // empty: no error
		billed      bool
		want        providers.Result // Text, Finish and JSON
	}{
		{name: "queued", state: `{"id":"resp_1","status":"queued"}`},
		{name: "in progress", state: inProgress},
		{name: "completed", state: `{"status":"completed",` + text + `}`, done: true, want: providers.Result{Text: `{"a":1}`, Finish: providers.FinishStop}},
		{
			name: "completed under a schema", state: `{"status":"completed","text":{"format":{"type":"json_schema","name":"v"}},` + text + `}`, done: true,
			want: providers.Result{Text: `{"a":1}`, Finish: providers.FinishStop, JSON: []byte(`{"a":1}`)},
		},
		{name: "incomplete", state: `{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},` + text + `}`, done: true, want: providers.Result{Text: `{"a":1}`, Finish: providers.FinishTruncated}},
		{name: "filtered", state: `{"status":"incomplete","incomplete_details":{"reason":"content_filter"},"output":[]}`, done: true, want: providers.Result{Finish: providers.FinishRefused}},
		{name: "failed", state: `{"status":"failed","error":{"code":"rate_limit_exceeded","message":"x"}}`, done: true, class: providers.RateLimited, billed: true},
		{name: "cancelled", state: `{"status":"cancelled"}`, done: true, class: providers.Cancelled, billed: true},
		{name: "unknown to the provider", state: `404 {"error":{"message":"Response with id 'resp_1' not found.","type":"invalid_request_error","param":"id","code":null}}`, done: true, class: providers.Lost, billed: true},
		// What fails here is the question.
		{name: "rate limited", state: `429 {"error":{"code":"rate_limit_exceeded","message":"x"}}`, class: providers.RateLimited},
		{name: "server error", state: `500 `, class: providers.Transient},
		{name: "wrong key", state: `401 {"error":{"code":"invalid_api_key","message":"sk-secret-key is wrong"}}`, class: providers.Auth},
		{name: "cut JSON", state: `{"status":"comp`, class: providers.Transient},
		{name: "an unknown state", state: `{"status":"sleeping"}`, class: providers.Transient},
		{name: "a gateway's error", state: `{"error":{"code":502,"message":"upstream"}}`, class: providers.Transient},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			result, done, err := keeping(t, &keeper{states: []string{test.state}}).Poll(t.Context(), key, "resp_1")
			if done != test.done {
				t.Errorf("done: got %v, want %v", done, test.done)
			}
			var failed *providers.Error
			switch errors.As(err, &failed); {
			case test.class == "" && err != nil:
				t.Errorf("got %v", err)
			case test.class != "" && (failed == nil || result != nil):
				t.Errorf("got result %+v and error %v, want a *providers.Error alone", result, err)
			case test.class != "" && (failed.Class != test.class || failed.MayBeBilled != test.billed || failed.Message == "" || strings.Contains(failed.Message+string(failed.Raw), key)):
				t.Errorf("got %+v, want class %s, may be billed %v, no key", failed, test.class, test.billed)
			case test.class == "" && done:
				got := providers.Result{Text: result.Text, Finish: result.Finish, JSON: result.JSON}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("result (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	const cancel, poll = "POST /v1/responses/resp_1/cancel", "GET /v1/responses/resp_1"
	refused := `400 {"error":{"message":"Cannot cancel a completed response.","type":"invalid_request_error"}}`
	for _, test := range []struct {
		name, cancel, state string
		class               providers.Class // empty: no error
		seen                []string
	}{
		{"under way", `{"id":"resp_1","status":"cancelled"}`, "", "", []string{cancel}},
		{"again", `{"id":"resp_1","status":"cancelled"}`, `{"status":"cancelled"}`, "", []string{cancel}},
		{"of a job that has ended", refused, researched, "", []string{cancel, poll}},
		{"of a job that failed", refused, `{"status":"failed","error":{"code":"server_error","message":"x"}}`, "", []string{cancel, poll}},
		{"of a job that is unknown", `404 {"error":{"message":"not found"}}`, `404 {"error":{"message":"not found"}}`, "", []string{cancel, poll}},
		{"refused, and the job goes on", refused, inProgress, providers.BadRequest, []string{cancel, poll}},
		{"by an endpoint that cannot", `404 {"detail":"Not Found"}`, inProgress, providers.ModelUnavailable, []string{cancel, poll}},
		{"while the server fails", `500 `, "", providers.Transient, []string{cancel}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			k := &keeper{cancel: test.cancel, states: []string{test.state}}
			err := keeping(t, k).Cancel(t.Context(), key, "resp_1")
			var failed *providers.Error
			if errors.As(err, &failed); (err == nil) != (test.class == "") || err != nil && (failed == nil || failed.Class != test.class || failed.MayBeBilled) {
				t.Errorf("got %v, want class %q, unbilled", err, test.class)
			}
			if diff := cmp.Diff(test.seen, k.requests()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSubmissionsThatFail(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, answer string
		class        providers.Class
		billed       bool
	}{
		{"without an id", `{"status":"queued"}`, providers.Transient, true},
		{"cut JSON", `{"id":"re`, providers.Transient, true},
		{"a gateway's error", `{"error":{"code":429,"message":"upstream"}}`, providers.RateLimited, true},
	} {
		provider := endpoint(t, Config{}, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, test.answer) })
		id, err := provider.Submit(t.Context(), request())
		var failed *providers.Error
		if !errors.As(err, &failed) || failed.Class != test.class || failed.MayBeBilled != test.billed || id != "" {
			t.Errorf("%s: got %q and %+v, want class %s, may be billed %v", test.name, id, err, test.class, test.billed)
		}
	}
}

func TestAJobsNameLeadsNowhereElse(t *testing.T) {
	t.Parallel()
	k := &keeper{states: []string{inProgress}}
	provider := keeping(t, k)
	for _, id := range []string{"", ".", ".."} {
		if _, done, err := provider.Poll(t.Context(), key, id); done || providers.ClassOf(err) != providers.BadRequest {
			t.Errorf("%q: got %v, %v, want a bad request", id, done, err)
		}
		if err := provider.Cancel(t.Context(), key, id); providers.ClassOf(err) != providers.BadRequest {
			t.Errorf("%q: got %v, want a bad request", id, err)
		}
	}
	if _, _, err := provider.Poll(t.Context(), key, "../models?x#y"); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"GET /v1/responses/..%2Fmodels%3Fx%23y"}, k.requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestAQuestionEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	provider := endpoint(t, Config{}, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
		close(ended)
	})
	_, done, err := provider.Poll(ctx, key, "resp_1")
	<-ended
	var failed *providers.Error
	if !errors.As(err, &failed) || failed.Class != providers.Cancelled || failed.MayBeBilled || done {
		t.Errorf("got %+v, done %v, want class %s, unbilled", err, done, providers.Cancelled)
	}
}
