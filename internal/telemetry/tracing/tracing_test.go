package tracing

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// A run is a span, each of its calls one below it, with what the conventions want of
// them, and nothing of what was asked or answered.
func TestRunIsTraced(t *testing.T) {
	t.Parallel()
	f := setup(t, "google:"+gemini, map[string]simulator.Model{gemini: {Behaviour: &simulator.Behaviour{
		FailEvery: 1, FailStatus: 503, CachedShare: 1, AnswerTokens: simulator.Range{Min: 300, Max: 300},
	}}}, nil)
	c := newCollector(t)
	tracer := open(t, c.URL, zerolog.Nop(), "OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	f.work(t.Context(), tracer)
	_ = tracer.Close()
	spans := c.spans(t)
	if len(spans) != 3 {
		t.Fatalf("got %d spans, want a run and two calls: %+v", len(spans), spans)
	}
	run, failed, answered := spans[0], spans[1], spans[2]
	recorded, calls := f.entry()

	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(string(f.id)+".0.0.0")))
	if run.name != "run pairwise" || run.trace != sum[:32] || run.id != sum[32:48] || run.parent != "" || run.failure != "" {
		t.Errorf("the run's span is %s of trace %s with id %s below %q, failure %q; want that of its task's id", run.name, run.trace, run.id, run.parent, run.failure)
	}
	instance := recorded.Worker
	want := map[string]any{
		"evalfleet.evaluation": string(f.id), "evalfleet.run_id": "0.0", "evalfleet.generation": int64(0), "evalfleet.kind": "pairwise",
		"evalfleet.queue": "google", "evalfleet.model": "google:" + gemini, "evalfleet.worker": instance, "evalfleet.state": "succeeded",
		"evalfleet.attempts": int64(2), "evalfleet.answered_by": "google:" + gemini,
		"evalfleet.rate_limit_waits": int64(0), "evalfleet.rate_limit_fallbacks": int64(0), "evalfleet.context_fallbacks": int64(0),
	}
	if diff := cmp.Diff(want, run.attributes); diff != "" {
		t.Errorf("attributes of the run (-want +got):\n%s", diff)
	}
	for _, name := range []string{"service.version", "telemetry.sdk.version"} {
		if run.resource[name] == "" {
			t.Errorf("the resource has no %s", name)
		}
		delete(run.resource, name)
	}
	want = map[string]any{
		"service.name": "evalfleet", "service.instance.id": instance, "deployment.environment.name": "test",
		"telemetry.sdk.name": "opentelemetry", "telemetry.sdk.language": "go",
	}
	if diff := cmp.Diff(want, run.resource); diff != "" {
		t.Errorf("resource (-want +got):\n%s", diff)
	}
	retry := run.eventNamed(observe.EventRetry)
	if len(retry) != 1 || retry[0].attributes["status_code"] != int64(503) || retry[0].attributes["model"] != gemini || retry[0].at.Before(failed.ended) {
		t.Errorf("events of the run: got %+v, want one retry after a 503", run.events)
	}
	if n := len(run.eventNamed(observe.EventAcquired)); n != 2 {
		t.Errorf("events of the run: got %d acquired, want 2", n)
	}

	call := func(id string, attempt int64, status int64) map[string]any {
		return map[string]any{
			"gen_ai.operation.name": "generate_content", "gen_ai.provider.name": "gcp.gemini", "gen_ai.request.model": gemini,
			"server.address": "generativelanguage.googleapis.com", "server.port": int64(443), "http.response.status_code": status,
			"evalfleet.provider": "google", "evalfleet.stage": "verdict", "evalfleet.call": id, "evalfleet.attempt": attempt,
		}
	}
	want = call(calls[0].ID, 1, 503)
	want["error.type"] = "overloaded"
	if diff := cmp.Diff(want, without(failed.attributes, "evalfleet.request_id")); diff != "" || failed.failure != "overloaded" {
		t.Errorf("attributes of the call that failed, as %q (-want +got):\n%s", failed.failure, diff)
	}
	used := calls[1].Usage
	if used.Cached == 0 || used.Reasoning == 0 {
		t.Errorf("the simulator said nothing of cached or reasoning tokens: %+v", used)
	}
	want = call(calls[1].ID, 2, 200)
	want["gen_ai.response.model"], want["gen_ai.response.finish_reasons"] = gemini, []string{"stop"}
	want["gen_ai.usage.input_tokens"], want["gen_ai.usage.output_tokens"] = used.Input, used.Output
	want["gen_ai.usage.cache_read.input_tokens"], want["gen_ai.usage.reasoning.output_tokens"] = used.Cached, used.Reasoning
	if diff := cmp.Diff(want, without(answered.attributes, "evalfleet.request_id")); diff != "" || answered.failure != "" {
		t.Errorf("attributes of the call that was answered, failure %q (-want +got):\n%s", answered.failure, diff)
	}
	for i, s := range []span{failed, answered} {
		if s.name != "generate_content "+gemini || s.kind != "SPAN_KIND_CLIENT" || s.trace != run.trace || s.parent != run.id {
			t.Errorf("call %d is %s, %s, in %s below %s; want a client's below the run", i, s.name, s.kind, s.trace, s.parent)
		}
		if !s.began.Equal(calls[i].Started) || !s.ended.Equal(calls[i].Ended) || s.began.Before(run.began) || s.ended.After(run.ended) {
			t.Errorf("call %d lasted from %s to %s, the run from %s to %s; want within it", i, s.began, s.ended, run.began, run.ended)
		}
	}
	f.wantNothingSaid(c)
}

func without(attributes map[string]any, name string) map[string]any {
	delete(attributes, name)
	return attributes
}

// Another model answers for the one that fails: the event says so in its own words,
// and each call names who was called.
func TestFallbackIsTraced(t *testing.T) {
	t.Parallel()
	f := setup(t, "openai:"+gpt, map[string]simulator.Model{
		gpt:    {Behaviour: &simulator.Behaviour{ThrottleRate: 1, RetryAfter: simulator.Span{Min: time.Second, Max: time.Second}}},
		gemini: {Behaviour: &simulator.Behaviour{}},
	}, func(s *record.Settings) {
		s.Fallback = &record.Fallback{
			Models: []string{"google:" + gemini}, AutoWait: true, MaxRetries: 1, Base: 2, MaxWait: 10 * time.Second, After429: 10 * time.Millisecond,
		}
	})
	c := newCollector(t)
	tracer := open(t, c.URL, zerolog.Nop())
	f.work(t.Context(), tracer)
	_ = tracer.Close()
	spans := c.spans(t)
	run, last := spans[0], spans[len(spans)-1]
	fell := run.eventNamed(record.EventRateLimitFallback)
	if len(fell) != 1 {
		t.Fatalf("events of the run: got %+v, want one %s", run.events, record.EventRateLimitFallback)
	}
	recorded, _ := f.entry()
	of := recorded.Fell[0]
	want := map[string]any{
		"provider": "openai", "model": gpt, "class": "rate_limited", "original_model": "openai:" + gpt, "fallback_model": "google:" + gemini,
		"reason": "rate_limit_or_error", "wait_time_exceeded": of.WaitS, "max_wait_seconds": 10.0, "retry_count": int64(of.Retries),
	}
	if diff := cmp.Diff(want, fell[0].attributes); diff != "" {
		t.Errorf("the fallback (-want +got):\n%s", diff)
	}
	waits := run.eventNamed(observe.EventRateLimitWait)
	if len(waits) != recorded.RateLimitWaits || len(waits) == 0 || waits[0].attributes["delay_s"] != 1.0 {
		t.Errorf("got waits %+v, want the %d that are recorded, the first of 1 s", waits, recorded.RateLimitWaits)
	}
	if run.attributes["evalfleet.rate_limit_waits"] != int64(len(waits)) || run.attributes["evalfleet.rate_limit_fallbacks"] != int64(1) {
		t.Errorf("attributes of the run: got %v, want what its outcome counts", run.attributes)
	}
	if s := spans[1]; s.name != "chat "+gpt || s.attributes["gen_ai.provider.name"] != "openai" || s.attributes["error.type"] != "rate_limited" ||
		s.attributes["http.response.status_code"] != int64(429) || s.failure != "rate_limited" {
		t.Errorf("the first call is %+v, want a refused one of %s", s, gpt)
	}
	if last.name != "generate_content "+gemini || last.attributes["gen_ai.provider.name"] != "gcp.gemini" || last.failure != "" {
		t.Errorf("the last call is %+v, want one that %s answered", last, gemini)
	}
	f.wantNothingSaid(c)
}

// A run that fails is an error by its class.
func TestFailedRunIsTraced(t *testing.T) {
	t.Parallel()
	f := setup(t, "google:"+gemini, map[string]simulator.Model{gemini: {Behaviour: &simulator.Behaviour{RefuseRate: 1}}}, nil)
	c := newCollector(t)
	tracer := open(t, c.URL, zerolog.Nop())
	f.work(t.Context(), tracer)
	_ = tracer.Close()
	run := c.spans(t)[0]
	if run.failure != "refused" || run.attributes["error.type"] != "refused" || run.attributes["evalfleet.state"] != "failed" {
		t.Errorf("got %q and %v, want a run that failed as refused", run.failure, run.attributes)
	}
	f.wantNothingSaid(c)
}

// A run that one worker gives back and another records is one trace: what the first
// did, and all calls, are below the run's span, which the second sends.
func TestOneTraceOverWorkers(t *testing.T) {
	t.Parallel()
	f := setup(t, "google:"+gemini, map[string]simulator.Model{gemini: {Behaviour: &simulator.Behaviour{FailEvery: 1, FailStatus: 503}}},
		func(s *record.Settings) { s.Retry.InitialDelay, s.Retry.MaxDelay = time.Second, time.Second })
	c := newCollector(t)
	first, second := open(t, c.URL, zerolog.Nop()), open(t, c.URL, zerolog.Nop())
	ctx, stop := context.WithCancel(t.Context())
	f.cfg.Observer.Event = func(e observe.Event) {
		if e.Event == observe.EventRetry { // the wait for the next call begins when this returns
			stop()
		}
	}
	f.work(ctx, first)
	_ = first.Close()
	f.cfg.Observer.Event = nil
	f.work(t.Context(), second)
	_ = second.Close()
	byName := map[string]span{}
	var calls []span
	for _, s := range c.spans(t) {
		byName[s.name] = s
		if s.kind == "SPAN_KIND_CLIENT" {
			calls = append(calls, s)
		}
	}
	run, part := byName["run pairwise"], byName["part of run pairwise"]
	if len(byName) != 3 || len(calls) != 2 {
		t.Fatalf("got %v and %d calls, want a run, a part of it and two calls", byName, len(calls))
	}
	for _, s := range append(calls, part) {
		if s.trace != run.trace || s.parent != run.id || s.began.Before(run.began) || s.ended.After(run.ended) {
			t.Errorf("%s is of trace %s below %s, want %s below %s, and within it", s.name, s.trace, s.parent, run.trace, run.id)
		}
	}
	if part.attributes["evalfleet.why"] != "the worker stops" || part.attributes["evalfleet.worker"] == run.attributes["evalfleet.worker"] ||
		len(part.eventNamed(observe.EventRetry)) != 1 {
		t.Errorf("the part is %+v, want one of another worker that stopped, with its retry", part)
	}
}

// A collector that is not there costs its spans: the run ends as it would, and that
// they are dropped is said once.
func TestCollectorAway(t *testing.T) {
	t.Parallel()
	f := setup(t, "google:"+gemini, map[string]simulator.Model{gemini: {}}, nil)
	c := newCollector(t)
	c.Close()
	var log bytes.Buffer
	tracer := open(t, c.URL, zerolog.New(zerolog.SyncWriter(&log)), "OTEL_EXPORTER_OTLP_HEADERS", "authorization=secret")
	f.work(t.Context(), tracer)
	for i := range 2000 { // more than a batch
		tracer.Handled(observe.Handled{Task: record.Task{Evaluation: f.id, Kind: eval.KindPairwise, Index: i}, Worker: "w", Why: "dropped"})
	}
	_ = tracer.Close()
	if run, _ := f.entry(); run.State != "succeeded" {
		t.Errorf("the run ended %s", run.State)
	}
	if n := strings.Count(log.String(), `"level":"warn"`); n != 1 || strings.Contains(log.String(), "secret") || !strings.Contains(log.String(), c.URL) {
		t.Errorf("got %d warnings, want one with the address and without the header:\n%s", n, log.String())
	}
}

// A collector that never answers holds up neither who tells of runs nor, for long,
// the end.
func TestCollectorHangs(t *testing.T) {
	t.Parallel()
	hang, release := context.WithCancel(t.Context())
	asked := make(chan struct{})
	once := sync.OnceFunc(func() { close(asked) })
	c := newCollector(t)
	c.Config.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		once()
		<-hang.Done()
	})
	tracer := open(t, c.URL, zerolog.Nop())
	tell := func(n int) {
		for i := range n {
			tracer.Handled(observe.Handled{Task: record.Task{Evaluation: "ev-abcdefghijkl", Kind: eval.KindPairwise, Index: i}, Worker: "w", Why: "dropped"})
		}
	}
	tell(1000)
	<-asked
	tell(10_000) // the queue has room for 2,048
	_ = tracer.Close()
	release()
}

// Which traces are sent is decided by their ids: by every worker alike.
func TestSampling(t *testing.T) {
	t.Parallel()
	const told = 400
	var sent [2]map[string]bool
	for i := range sent {
		c := newCollector(t)
		tracer := open(t, c.URL, zerolog.Nop(), "OTEL_TRACES_SAMPLER", "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG", "0.25")
		for index := range told {
			h := observe.Handled{Task: record.Task{Evaluation: "ev-abcdefghijkl", Kind: eval.KindPairwise, Index: index}, Worker: fmt.Sprint(i)}
			if i == 0 {
				h.Run = &record.Run{State: "succeeded"}
			}
			tracer.Handled(h)
		}
		_ = tracer.Close()
		sent[i] = map[string]bool{}
		for _, s := range c.spans(t) {
			sent[i][s.trace] = true
		}
	}
	if diff := cmp.Diff(sent[0], sent[1]); diff != "" || len(sent[0]) < told/8 || len(sent[0]) > told/2 {
		t.Errorf("%d of %d traces were sent, want about a quarter, and of both workers the same:\n%s", len(sent[0]), told, diff)
	}
}

// A wait at a limit and a call that was answered from before are events of the run,
// as is the end of another run that was answered with it.
func TestEventsOfARun(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	tracer := open(t, c.URL, zerolog.Nop())
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tracer.Handled(observe.Handled{
		Task: record.Task{Evaluation: "ev-abcdefghijkl", Kind: eval.KindPanel, Index: 4, Agent: "expert", Dimension: "style"}, Worker: "w",
		Began: at, Ended: at.Add(time.Second), Run: &record.Run{State: "succeeded"},
		Calls: []record.Call{
			{Model: "openai:" + gpt, Stage: "verdict", Cached: true, Asked: at, Ended: at, Text: "an answer"},
			{Model: "openai:" + gpt, Stage: "repair", BoundBy: "provider/openai/concurrency", Asked: at, Started: at.Add(time.Second / 2), Ended: at.Add(time.Second)},
		},
		Events: []observe.Event{
			{Event: observe.EventStarted, Time: at, RunID: "0.4"},
			{Event: observe.EventSucceeded, Time: at, RunID: "0.4", Dimension: "style"},
			{Event: observe.EventSucceeded, Time: at, RunID: "0.5", Dimension: "facts", Provider: "openai", Model: gpt},
		},
	})
	_ = tracer.Close()
	spans := c.spans(t)
	if len(spans) != 2 {
		t.Fatalf("got %+v, want the run and the call that was made", spans)
	}
	want := []event{
		{observe.EventSucceeded, at, map[string]any{"provider": "openai", "model": gpt, "run_id": "0.5", "dimension": "facts"}},
		{eventCached, at, map[string]any{"model": "openai:" + gpt, "stage": "verdict"}},
		{eventLimitWait, at, map[string]any{"model": "openai:" + gpt, "stage": "repair", "limit": "provider/openai/concurrency", "wait_s": 0.5}},
	}
	same := cmp.Comparer(func(a, b event) bool {
		return a.name == b.name && a.at.Equal(b.at) && cmp.Equal(a.attributes, b.attributes)
	})
	if diff := cmp.Diff(want, spans[0].events, same); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if spans[0].attributes["evalfleet.agent"] != "expert" || spans[0].attributes["evalfleet.dimension"] != "style" {
		t.Errorf("attributes: got %v, want the agent and the dimension", spans[0].attributes)
	}
	if got := spans[1].attributes; got["evalfleet.limit"] != "provider/openai/concurrency" || got["evalfleet.wait_s"] != 0.5 {
		t.Errorf("attributes of the call: got %v, want the limit and the wait", got)
	}
}
