package metrics

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/worker"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// What a worker tells becomes these numbers, and no label holds an evaluation's
// or a run's id.
func TestWorkerMetrics(t *testing.T) {
	t.Parallel()
	m := NewWorker(&worker.Probe{}, 7, "v1.2.3")
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	call := func(boundBy string, class providers.Class, status int, usage providers.Usage) {
		m.Call(record.Call{
			ID: "0.17.0-worker-1", Model: "openai:gpt-5:free", BoundBy: boundBy, Class: class, Status: status, Usage: usage,
			Asked: began, Started: began.Add(2 * time.Second), Ended: began.Add(5 * time.Second),
		})
	}
	cost := 0.25
	call("", "", 200, providers.Usage{Reported: true, Input: 100, Cached: 40, Output: 20, Reasoning: 5, CostUSD: &cost})
	call("evaluation/ev-abcdefghijkl/provider/openai/concurrency", "", 200, providers.Usage{Reported: true, Input: 1})
	call("provider/openai/requests/1m0s", providers.RateLimited, 429, providers.Usage{})
	call("", providers.QuotaDaily, 403, providers.Usage{})
	judge := eval.Judge{Provider: "openai", Model: "gpt-5:free"}
	m.Wait(judge)
	m.Wait(judge)
	m.Reserved(observe.Reserved{Provider: judge.Provider, Model: judge.Model, Input: 130, Output: 60})
	for event, classes := range map[string][]providers.Class{
		record.EventRateLimitFallback:     {providers.RateLimited, providers.QuotaDaily, providers.RateLimited, providers.Timeout},
		record.EventContextLengthFallback: {providers.ContextLength, providers.ContextLength},
	} {
		for _, class := range classes {
			m.Event(observe.Event{Event: event, Provider: judge.Provider, Model: judge.Model, Class: class})
		}
	}
	for _, event := range []string{
		observe.EventStarted, observe.EventQueueing, observe.EventAcquired, observe.EventReleased, observe.EventRetry, observe.EventAcquired,
		observe.EventSucceeded, observe.EventSucceeded, observe.EventFailed,
	} {
		m.Event(observe.Event{Event: event, Provider: "openai", Model: "gpt-5:free", Evaluation: "ev-abcdefghijkl", RunID: "0.17"})
	}

	const model = `model="gpt-5:free",provider="openai"`
	want := strings.NewReplacer("MODEL", model).Replace(`
# HELP evalfleet_calls_total Calls that have ended, by class of failure; ok: answered, cached: not made, because an identical call was answered before. rate_limited should stay at 0, or low where limits adapt.
# TYPE evalfleet_calls_total counter
evalfleet_calls_total{class="cached",MODEL} 0
evalfleet_calls_total{class="ok",MODEL} 2
evalfleet_calls_total{class="quota_daily",MODEL} 1
evalfleet_calls_total{class="rate_limited",MODEL} 1
# HELP evalfleet_calls_in_flight Calls that hold a lease.
# TYPE evalfleet_calls_in_flight gauge
evalfleet_calls_in_flight{MODEL} 1
# HELP evalfleet_tokens_total Tokens that providers reported. input includes cached, which was read from prompt caches, and cache_write; output includes reasoning.
# TYPE evalfleet_tokens_total counter
evalfleet_tokens_total{MODEL,token_type="cache_write"} 0
evalfleet_tokens_total{MODEL,token_type="cached"} 40
evalfleet_tokens_total{MODEL,token_type="input"} 101
evalfleet_tokens_total{MODEL,token_type="output"} 20
evalfleet_tokens_total{MODEL,token_type="reasoning"} 5
# HELP evalfleet_tokens_reserved_total Tokens reserved from limits, input or output, for calls whose tokens providers reported.
# TYPE evalfleet_tokens_reserved_total counter
evalfleet_tokens_reserved_total{MODEL,token_type="input"} 130
evalfleet_tokens_reserved_total{MODEL,token_type="output"} 60
# HELP evalfleet_rate_limited_total Calls over a limit, by who refused them: the provider with status 429 (http_429) or in another answer (answer), which should stay at 0, or our own limits before the call was sent, which made it wait (local).
# TYPE evalfleet_rate_limited_total counter
evalfleet_rate_limited_total{MODEL,source="answer"} 1
evalfleet_rate_limited_total{MODEL,source="http_429"} 1
evalfleet_rate_limited_total{MODEL,source="local"} 2
# HELP evalfleet_rate_limit_waits_total Waits of runs for limits and after 429s instead of asking another model, by the model that they waited for.
# TYPE evalfleet_rate_limit_waits_total counter
evalfleet_rate_limit_waits_total{MODEL} 2
# HELP evalfleet_rate_limit_fallbacks_total Fallbacks to another model because of limits or 429s, by the run's own model.
# TYPE evalfleet_rate_limit_fallbacks_total counter
evalfleet_rate_limit_fallbacks_total{MODEL} 3
# HELP evalfleet_context_fallbacks_total Fallbacks to another model because the text was too large, by the run's own model.
# TYPE evalfleet_context_fallbacks_total counter
evalfleet_context_fallbacks_total{MODEL} 2
# HELP evalfleet_error_fallbacks_total Fallbacks to another model because of any other failure, by the run's own model.
# TYPE evalfleet_error_fallbacks_total counter
evalfleet_error_fallbacks_total{MODEL} 1
# HELP evalfleet_cost_usd_total Cost of calls in US dollars: as the provider reported it, else computed from its price if known.
# TYPE evalfleet_cost_usd_total counter
evalfleet_cost_usd_total{MODEL} 0.25
# HELP evalfleet_retries_total Failed calls that led to another call.
# TYPE evalfleet_retries_total counter
evalfleet_retries_total{MODEL} 1
# HELP evalfleet_runs_total Runs that ended with this worker, by state.
# TYPE evalfleet_runs_total counter
evalfleet_runs_total{MODEL,state="failed"} 1
evalfleet_runs_total{MODEL,state="succeeded"} 2
# HELP evalfleet_worker_slots Calls that this process may have in flight.
# TYPE evalfleet_worker_slots gauge
evalfleet_worker_slots 7
# HELP evalfleet_build_info Always 1; the labels have the program's version.
# TYPE evalfleet_build_info gauge
evalfleet_build_info{version="v1.2.3"} 1
# HELP evalfleet_worker_ready 1 if this process is registered with the fleet and accepts runs.
# TYPE evalfleet_worker_ready gauge
evalfleet_worker_ready 0
# HELP evalfleet_worker_session_restarts_total How often this process could not renew its leases in time and continued under another worker id.
# TYPE evalfleet_worker_session_restarts_total counter
evalfleet_worker_session_restarts_total 0
`)
	var names []string
	for line := range strings.Lines(want) {
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, _, _ := strings.Cut(rest, " ")
			names = append(names, name)
		}
	}
	if err := testutil.GatherAndCompare(m.registry, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}

	text := get(t, m, MetricsPath, http.StatusOK)
	for _, line := range []string{
		`evalfleet_call_duration_seconds_sum{` + model + `} 12`,
		`evalfleet_call_duration_seconds_bucket{` + model + `,le="5"} 4`,
		`evalfleet_call_duration_seconds_bucket{` + model + `,le="2.5"} 0`,
		`evalfleet_limit_wait_seconds_count{limit="evaluation/provider/openai/concurrency"} 1`,
		`evalfleet_limit_wait_seconds_sum{limit="provider/openai/requests/1m0s"} 2`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("metrics lack %q", line)
		}
	}
	for _, id := range []string{"ev-abc", "0.17"} {
		if strings.Contains(text, id) {
			t.Errorf("metrics hold the id %q", id)
		}
	}
	problems, err := testutil.GatherAndLint(m.registry)
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
	if err != nil {
		t.Error(err)
	}
}

// A worker that Redis has not answered yet is alive and not ready.
func TestHealth(t *testing.T) {
	t.Parallel()
	m := NewWorker(&worker.Probe{}, 1, "")
	if got := get(t, m, HealthPath, http.StatusOK); got != "ok\n" {
		t.Errorf("got %q, want ok", got)
	}
	if got := get(t, m, ReadyPath, http.StatusServiceUnavailable); got != ErrRedisAway.Error()+"\n" {
		t.Errorf("got %q, want why not", got)
	}
	get(t, m, "/", http.StatusNotFound)
}

// A port can be had again once a server was closed, and not before.
func TestListen(t *testing.T) {
	t.Parallel()
	m := NewWorker(&worker.Probe{}, 1, "")
	first, err := Listen(t.Context(), "127.0.0.1:0", m.Handler())
	if err != nil {
		t.Fatal(err)
	}
	if second, err := Listen(t.Context(), first.Address(), m.Handler()); err == nil {
		t.Errorf("a second server listens on %s", second.Address())
	}
	if err := first.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	again, err := Listen(t.Context(), first.Address(), m.Handler())
	if err != nil {
		t.Fatalf("after Close: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func get(t *testing.T, m *Worker, path string, status int) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	if w.Code != status {
		t.Errorf("%s answers %d, want %d", path, w.Code, status)
	}
	return w.Body.String()
}
