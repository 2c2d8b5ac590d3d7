package tracing

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/catalog"
	"github.com/evalfleet/evalfleet/providers/transport"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker"
	"github.com/evalfleet/evalfleet/worker/observe"
)

func TestMain(m *testing.M) {
	testrun.Parallel(8) // they wait for workers
	goleak.VerifyTestMain(m)
}

// collector takes what is sent to it, and keeps it.
type collector struct {
	*httptest.Server

	mu       sync.Mutex // guards all below
	requests []*http.Request
	bodies   []string
	statuses []int // of the next answers; then 200
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(c.take))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) take(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	status := http.StatusOK
	if err != nil {
		status = http.StatusBadRequest
	}
	if len(c.statuses) > 0 {
		status, c.statuses = c.statuses[0], c.statuses[1:]
	}
	c.requests, c.bodies = append(c.requests, r), append(c.bodies, string(body))
	w.WriteHeader(status)
}

// span is one that a collector has got.
type span struct {
	name, kind, failure string // failure is the description of a status that is an error
	trace, id, parent   string // in hexadecimal; of a root no parent
	began, ended        time.Time
	attributes          map[string]any
	events              []event
	resource            map[string]any
}

type event struct {
	name       string
	at         time.Time
	attributes map[string]any
}

// spans are all that were sent, in order of their beginnings.
func (c *collector) spans(t *testing.T) (all []span) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, body := range c.bodies {
		var sent tracepb.TracesData
		if err := proto.Unmarshal([]byte(body), &sent); err != nil {
			t.Fatal(err)
		}
		for _, of := range sent.GetResourceSpans() {
			for _, in := range of.GetScopeSpans() {
				for _, s := range in.GetSpans() {
					all = append(all, spanOf(s, of.GetResource().GetAttributes()))
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b span) int { return a.began.Compare(b.began) })
	return all
}

func spanOf(s *tracepb.Span, resource []*commonpb.KeyValue) span {
	read := span{
		name: s.GetName(), kind: s.GetKind().String(),
		trace: trace.TraceID(s.GetTraceId()).String(), id: trace.SpanID(s.GetSpanId()).String(),
		began: time.Unix(0, int64(s.GetStartTimeUnixNano())), ended: time.Unix(0, int64(s.GetEndTimeUnixNano())),
		attributes: values(s.GetAttributes()), resource: values(resource),
	}
	if len(s.GetParentSpanId()) > 0 {
		read.parent = trace.SpanID(s.GetParentSpanId()).String()
	}
	if s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR {
		read.failure = s.GetStatus().GetMessage()
	}
	for _, e := range s.GetEvents() {
		read.events = append(read.events, event{e.GetName(), time.Unix(0, int64(e.GetTimeUnixNano())), values(e.GetAttributes())})
	}
	return read
}

func values(pairs []*commonpb.KeyValue) map[string]any {
	read := map[string]any{}
	for _, pair := range pairs {
		switch v := pair.GetValue().GetValue().(type) {
		case *commonpb.AnyValue_StringValue:
			read[pair.GetKey()] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			read[pair.GetKey()] = v.IntValue
		case *commonpb.AnyValue_DoubleValue:
			read[pair.GetKey()] = v.DoubleValue
		case *commonpb.AnyValue_ArrayValue:
			var texts []string
			for _, each := range v.ArrayValue.GetValues() {
				texts = append(texts, each.GetStringValue())
			}
			read[pair.GetKey()] = texts
		}
	}
	return read
}

func (s span) eventNamed(name string) (found []event) {
	for _, e := range s.events {
		if e.name == name {
			found = append(found, e)
		}
	}
	return found
}

// open makes a tracer that sends to an endpoint.
func open(t *testing.T, endpoint string, log zerolog.Logger, more ...string) *Tracer {
	t.Helper()
	env := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
	for i := 0; i < len(more); i += 2 {
		env[more[i]] = more[i+1]
	}
	settings, on, err := Read(func(name string) (string, bool) { value, ok := env[name]; return value, ok })
	if err != nil || !on {
		t.Fatalf("settings of %v: on is %t, %v", env, on, err)
	}
	models := map[string]Model{}
	for name, entry := range catalog.BuiltIn() {
		models[name] = ModelOf(entry)
	}
	tracer, err := Open(settings, "v1.2.3", models, log)
	if err != nil {
		t.Fatal(err)
	}
	return tracer
}

const (
	apiKey    = "sk-0123456789-secret"
	gpt       = "gpt-5-mini"
	gemini    = "gemini-2.5-flash"
	firstText = "The heron stands in the shallow water. It waits for fish."
	otherText = "The heron stand in in shallow watr waits fish"
)

// fleet is one evaluation of a single pair, its Redis, and the simulator that takes
// for all its providers.
type fleet struct {
	t         *testing.T
	store     *store.Store
	cfg       worker.Config
	simulator *simulator.Server
	id        eval.ID
}

func setup(t *testing.T, target string, models map[string]simulator.Model, change func(*record.Settings)) *fleet {
	t.Helper()
	server, err := simulator.Listen("127.0.0.1:0", simulator.Config{Models: models})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	client := redistest.New(t).Client()
	f := &fleet{t: t, store: store.New(client, ""), simulator: server, cfg: worker.Config{
		Client: client, Endpoints: map[string]providers.Endpoint{}, Slots: 5, Lease: 20 * time.Second, Grace: time.Minute, // longer than a busy machine stops a process
		Log: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.ErrorLevel),
	}}
	calls := transport.NewClient(transport.Connections{Slots: 5})
	t.Cleanup(calls.CloseIdleConnections)
	for name, suffix := range map[string]string{"google": "", "openai": "/v1"} {
		entry := catalog.BuiltIn()[name]
		entry.BaseURL = server.URL + suffix
		provider, err := entry.Open(calls, catalog.Credentials{})
		if err != nil {
			t.Fatal(err)
		}
		f.cfg.Endpoints[name] = providers.Endpoint{Provider: provider, Key: apiKey, Capabilities: entry.Capabilities}
	}
	provider, model, _ := eval.ParseTarget(target)
	e := &eval.Evaluation{
		Name: t.Name(), Items: []eval.Item{{}}, JSON: eval.JSONAuto,
		Judges:   []eval.Judge{{Name: target, Provider: provider, Model: model}},
		Pairwise: &eval.Pairwise{Pairs: eval.Pairs{Mode: eval.PairsAll}, Order: eval.OrderAsListed, Trials: 1},
	}
	texts := map[string]string{}
	for id, text := range map[string]string{"a.md": firstText, "b.md": otherText} {
		e.Documents = append(e.Documents, eval.Document{ID: id, Candidate: id, Hash: eval.TextHash(text), Bytes: len(text)})
		texts[eval.TextHash(text)] = text
	}
	e.Normalize()
	settings := record.Settings{Priority: 1, Retry: record.Retry{MaxAttempts: 3, InitialDelay: 10 * time.Millisecond, MaxDelay: 20 * time.Millisecond}}
	if change != nil {
		change(&settings)
	}
	receipt, err := (&enqueue.Enqueuer{Store: f.store, Limits: ratelimit.NewAdmin(client, ratelimit.Config{}), Log: zerolog.Nop()}).
		Submit(t.Context(), enqueue.Submission{Evaluation: e, Texts: texts, Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	f.id = receipt.ID
	return f
}

// work has a worker carry runs out until it has told of one that it recorded, or
// until ctx ends.
func (f *fleet) work(ctx context.Context, tracer *Tracer) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cfg := f.cfg
	cfg.Observer.Handled = func(h observe.Handled) {
		tracer.Handled(h)
		if h.Run != nil {
			cancel()
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx, cfg) }()
	if err := <-ended; err != nil {
		f.t.Error(err)
	}
}

// entry is what was recorded of the one run.
func (f *fleet) entry() (run *record.Run, calls []record.Call) {
	f.t.Helper()
	messages, err := f.store.Client().XRange(f.t.Context(), f.store.Keys().Results(f.id), "-", "+").Result()
	if err != nil {
		f.t.Fatal(err)
	}
	for _, m := range messages {
		entry, err := record.DecodeEntry(m.Values)
		if err != nil {
			f.t.Fatal(err)
		}
		calls = append(calls, entry.Calls...)
		if entry.Run != nil {
			run = entry.Run
		}
	}
	if run == nil {
		f.t.Fatal("no run is recorded")
	}
	return run, calls
}

// wantNothingSaid fails where documents, answers, keys or a provider's words are in
// what was sent.
func (f *fleet) wantNothingSaid(c *collector) {
	f.t.Helper()
	run, calls := f.entry()
	secret := []string{apiKey, firstText, otherText, "heron", run.Reason}
	for _, call := range calls {
		secret = append(secret, call.Text, call.Error)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, text := range secret {
		if text != "" && strings.Contains(strings.Join(c.bodies, "\n"), text) {
			f.t.Errorf("what was sent says %q", text)
		}
	}
}
