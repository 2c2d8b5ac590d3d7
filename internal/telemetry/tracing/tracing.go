// Package tracing makes OpenTelemetry traces of the runs that a worker has handled, by the conventions for generative
// AI, and sends them to a collector.
//
// It does not trace live: a run's spans are made when the worker lets go of the run, so that a run costs only the notes
// taken. No prompt, no answer and no text from a provider is ever in a span. If the collector is unreachable, spans are
// lost, with no other effect.
package tracing

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	otelsdk "go.opentelemetry.io/otel/sdk"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// scope is the name of the spans' instrumentation.
const scope = "github.com/evalfleet/evalfleet"

// flushTime is how long Close may take to send pending spans.
const flushTime = 3 * time.Second

// Tracer turns what a worker has done for runs into spans. Its methods are safe for concurrent use.
type Tracer struct {
	settings  Settings
	version   string
	models    map[string]Model
	client    *client
	processor sdk.SpanProcessor // shared by the providers of all workers

	mu      sync.Mutex // guards workers
	workers map[string]trace.Tracer
}

// Open starts tracing. Pass the tracer's Handled to worker.Config. version is the program's version; models maps each
// provider's name to its Model.
func Open(settings Settings, version string, models map[string]Model, log zerolog.Logger) (*Tracer, error) {
	t := &Tracer{settings: settings, version: version, models: models, client: newClient(settings, log), workers: map[string]trace.Tracer{}}
	exporter, err := otlptrace.New(context.Background(), t.client)
	if err != nil {
		return nil, err
	}
	t.processor = sdk.NewBatchSpanProcessor(exporter)
	return t, nil
}

// Close sends pending spans, for 3 s at most, and ends the tracer.
func (t *Tracer) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	_ = t.processor.Shutdown(ctx) // the client counts the spans that it could not send
	t.client.abort()
	<-t.client.stopped
	return nil
}

// tracerOf returns the tracer of a worker by the worker's ID. A process gets another ID after it could not renew its leases
// in time.
func (t *Tracer) tracerOf(workerID string) trace.Tracer {
	t.mu.Lock()
	defer t.mu.Unlock()
	tracer, ok := t.workers[workerID]
	if !ok {
		provider := sdk.NewTracerProvider(
			sdk.WithSpanProcessor(t.processor), sdk.WithSampler(t.settings.sampler), sdk.WithIDGenerator(ids{}),
			sdk.WithResource(t.resource(workerID)),
		)
		tracer = provider.Tracer(scope, trace.WithInstrumentationVersion(t.version))
		t.workers[workerID] = tracer
	}
	return tracer
}

// resource describes the sender. Attributes from the environment take precedence.
func (t *Tracer) resource(workerID string) *resource.Resource {
	all := []attribute.KeyValue{
		attribute.String("service.name", "evalfleet"),
		attribute.String("service.version", t.version),
		attribute.String("service.instance.id", workerID),
		attribute.String("telemetry.sdk.name", "opentelemetry"),
		attribute.String("telemetry.sdk.language", "go"),
		attribute.String("telemetry.sdk.version", otelsdk.Version()),
	}
	return resource.NewSchemaless(append(all, t.settings.resource...)...) // the last of two with the same name wins
}
