package tracing

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// Names of events that the event log does not have.
const (
	eventLimitWait = "limit_wait" // a call waited for a limit
	eventCached    = "cached"     // a call was not made, but answered from the cache
)

// Handled makes the spans for a worker's handling of a run. If the outcome was recorded, there is a span of the whole
// run, otherwise one of the worker's part in it. In either case there is a span for each call, below the run's.
func (t *Tracer) Handled(h observe.Handled) {
	tracer := t.tracerOf(h.Worker)
	began := h.Began
	if !h.First.IsZero() && h.First.Before(began) {
		began = h.First
	}
	ctx := context.WithValue(context.Background(), idsKey{}, idsOf(h.Task))
	// If the outcome is not recorded yet, another worker ends the run's span. Here the span is started and never ended,
	// so it is not sent, but tells whether the trace is sampled.
	ctx, run := tracer.Start(ctx, "run "+string(h.Task.Kind), trace.WithNewRoot(), trace.WithTimestamp(began))
	if !run.IsRecording() {
		return
	}

	for i := range h.Calls {
		if !h.Calls[i].Cached {
			t.call(ctx, tracer, &h.Calls[i])
		}
	}

	had := run
	if h.Run == nil {
		partBegan := h.Began
		if h.First.After(partBegan) { // like the run's span: the worker that ends that one knows only First
			partBegan = h.First
		}
		_, had = tracer.Start(ctx, "part of run "+string(h.Task.Kind), trace.WithTimestamp(partBegan))
		had.SetAttributes(attribute.String("evalfleet.why", h.Why), attribute.Float64("evalfleet.delay_s", h.Delay.Seconds()))
	} else {
		outcome(run, h.Run)
	}

	had.SetAttributes(about(h)...)
	for _, e := range h.Events {
		if !toldBySpan(e, h.Task) {
			had.AddEvent(e.Event, trace.WithTimestamp(e.Time), trace.WithAttributes(fields(e, h.Task)...))
		}
	}

	waits(had, h.Calls)
	had.End(trace.WithTimestamp(h.Ended))
}

// about returns the attributes that identify the run and the worker.
func about(h observe.Handled) []attribute.KeyValue {
	task := h.Task
	said := []attribute.KeyValue{
		attribute.String("evalfleet.evaluation", string(task.Evaluation)),
		attribute.String("evalfleet.run_id", task.Shown()),
		attribute.Int("evalfleet.generation", task.Generation),
		attribute.String("evalfleet.kind", string(task.Kind)),
		attribute.String("evalfleet.queue", h.Queue),
		attribute.String("evalfleet.model", task.Model),
		attribute.String("evalfleet.worker", h.Worker),
	}
	if task.Agent != "" {
		said = append(said, attribute.String("evalfleet.agent", task.Agent), attribute.String("evalfleet.dimension", task.Dimension))
	}
	return said
}

// outcome adds the run's outcome to a span.
func outcome(span trace.Span, run *record.Run) {
	span.SetAttributes(
		attribute.String("evalfleet.state", run.State),
		attribute.Int("evalfleet.attempts", run.Attempts),
		attribute.Int("evalfleet.rate_limit_waits", run.RateLimitWaits),
		attribute.Int("evalfleet.rate_limit_fallbacks", run.RateLimitFallbacks),
		attribute.Int("evalfleet.context_fallbacks", run.ContextFallbacks),
	)
	if run.AnsweredBy != "" {
		span.SetAttributes(attribute.String("evalfleet.answered_by", run.AnsweredBy))
	}
	if run.State == eval.StateFailed.String() {
		failed(span, string(run.Class))
	}
}

// failed marks a span as failed, with only the class of the failure: messages may quote the prompt.
func failed(span trace.Span, class string) {
	span.SetAttributes(attribute.String("error.type", class))
	span.SetStatus(codes.Error, class)
}

// call makes the span of a call, from its request to its end.
func (t *Tracer) call(ctx context.Context, tracer trace.Tracer, c *record.Call) {
	provider, name, _ := strings.Cut(c.Model, ":")
	model := t.models[provider]
	said := []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", model.operation),
		attribute.String("gen_ai.provider.name", model.provider),
		attribute.String("gen_ai.request.model", name),
		attribute.String("evalfleet.provider", provider),
		attribute.String("evalfleet.call", c.ID),
		attribute.String("evalfleet.stage", c.Stage),
		attribute.Int("evalfleet.attempt", c.Attempt),
	}

	if model.address != "" {
		said = append(said, attribute.String("server.address", model.address), attribute.Int("server.port", model.port))
	}
	if c.Status != 0 {
		said = append(said, attribute.Int("http.response.status_code", c.Status))
	}
	if c.RequestID != "" {
		said = append(said, attribute.String("evalfleet.request_id", c.RequestID))
	}
	if c.BoundBy != "" {
		said = append(
			said, attribute.String("evalfleet.limit", c.BoundBy),
			attribute.Float64("evalfleet.wait_s", c.Started.Sub(c.Asked).Seconds()),
		)
	}
	said = append(said, answered(c)...)
	_, span := tracer.Start(ctx, model.operation+" "+name, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithTimestamp(c.Started), trace.WithAttributes(said...))
	if c.Class != "" {
		failed(span, string(c.Class))
	}
	span.End(trace.WithTimestamp(c.Ended))
}

// finishes maps our reasons for the end of an answer to the convention's words.
var finishes = map[string]string{"stop": "stop", "truncated": "length", "refused": "content_filter"}

// answered returns the known facts about a call's answer, except the answer.
func answered(c *record.Call) []attribute.KeyValue {
	var said []attribute.KeyValue
	if c.Named != "" {
		said = append(said, attribute.String("gen_ai.response.model", c.Named))
	}
	if reason, known := finishes[c.Finish]; known {
		said = append(said, attribute.StringSlice("gen_ai.response.finish_reasons", []string{reason}))
	}
	used := c.Usage
	if used.Reported {
		said = append(said, attribute.Int64("gen_ai.usage.input_tokens", used.Input), attribute.Int64("gen_ai.usage.output_tokens", used.Output))
		for _, part := range []struct {
			name  string
			count int64
		}{
			{"gen_ai.usage.cache_read.input_tokens", used.Cached},
			{"gen_ai.usage.cache_write.input_tokens", used.Written},
			{"gen_ai.usage.reasoning.output_tokens", used.Reasoning},
		} {
			if part.count > 0 {
				said = append(said, attribute.Int64(part.name, part.count))
			}
		}
	}

	if used.CostUSD != nil {
		said = append(said, attribute.Float64("evalfleet.cost_usd", *used.CostUSD))
	}
	return said
}

// toldBySpan reports whether an event is the beginning or the end of the run's own span. The end of another run that
// was answered together with it is not.
func toldBySpan(e observe.Event, task record.Task) bool {
	switch e.Event {
	case observe.EventStarted, observe.EventFailed:
		return true
	case observe.EventSucceeded:
		return e.RunID == task.Shown()
	}
	return false
}

// fields returns the fields of an event's line in the event log, without those that its span has already.
func fields(e observe.Event, task record.Task) []attribute.KeyValue {
	said := []attribute.KeyValue{attribute.String("provider", e.Provider), attribute.String("model", e.Model)}
	text := func(key, value string) {
		if value != "" {
			said = append(said, attribute.String(key, value))
		}
	}
	seconds := func(key string, value float64) {
		if value != 0 {
			said = append(said, attribute.Float64(key, value))
		}
	}
	if e.RunID != task.Shown() {
		text("run_id", e.RunID)
	}
	if e.Dimension != task.Dimension {
		text("dimension", e.Dimension)
	}
	if e.Attempt > 0 {
		said = append(said, attribute.Int("attempt", e.Attempt))
	}
	if e.QueueDepth > 0 {
		said = append(said, attribute.Int("queue_depth", e.QueueDepth))
	}
	if e.ActiveSlots != nil {
		said = append(said, attribute.Int64("active_slots", *e.ActiveSlots))
	}
	if e.StatusCode != nil {
		said = append(said, attribute.Int("status_code", *e.StatusCode))
	}
	seconds("delay_s", e.DelayS)
	seconds("timeout_s", e.TimeoutS)
	seconds("elapsed_s", e.ElapsedS)
	text("class", string(e.Class))
	if f := e.Fell; f != nil {
		text("original_model", f.Original)
		text("fallback_model", f.Fallback)
		text("reason", f.Reason)
		said = append(said, attribute.Float64("wait_time_exceeded", f.WaitS), attribute.Int("retry_count", f.Retries))
		if f.MaxWaitS != nil {
			said = append(said, attribute.Float64("max_wait_seconds", *f.MaxWaitS))
		}
	}

	return said
}

// waits adds events for the calls that waited for limits, and for those that were not made.
func waits(span trace.Span, calls []record.Call) {
	for _, c := range calls {
		event, at, said := eventCached, c.Ended, []attribute.KeyValue{attribute.String("model", c.Model), attribute.String("stage", c.Stage)}
		switch {
		case c.Cached:
		case c.BoundBy != "":
			event, at = eventLimitWait, c.Asked
			said = append(
				said, attribute.String("limit", c.BoundBy),
				attribute.Float64("wait_s", c.Started.Sub(c.Asked).Round(time.Millisecond).Seconds()),
			)
		default:
			continue
		}
		span.AddEvent(event, trace.WithTimestamp(at), trace.WithAttributes(said...))
	}
}
