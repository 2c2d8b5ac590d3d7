package tracing

import (
	"bytes"
	"compress/gzip"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers/catalog"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// read is Read of an environment given as "NAME=value" lines.
func read(lines string) (Settings, bool, error) {
	env := map[string]string{}
	for line := range strings.Lines(lines) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		env[name] = value
	}
	return Read(func(name string) (string, bool) { value, ok := env[name]; return value, ok })
}

func TestReadSwitches(t *testing.T) {
	t.Parallel()
	const here = "OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318"
	for _, test := range []struct {
		env      string
		endpoint string // empty: off
	}{
		{"", ""},
		{"OTEL_SERVICE_NAME=x\nOTEL_TRACES_SAMPLER=nonsense", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=", ""},
		{here, "http://collector:4318/v1/traces"},
		{here + "/", "http://collector:4318/v1/traces"},
		{here + "/otlp/", "http://collector:4318/otlp/v1/traces"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://one.example/as/it/is", "https://one.example/as/it/is"},
		{here + "\nOTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://one.example/t", "https://one.example/t"},
		{here + "\nOTEL_SDK_DISABLED=true", ""},
		{here + "\nOTEL_SDK_DISABLED=false", "http://collector:4318/v1/traces"},
		{here + "\nOTEL_TRACES_EXPORTER=none", ""},
		{here + "\nOTEL_TRACES_EXPORTER=otlp", "http://collector:4318/v1/traces"},
		{here + "\nOTEL_EXPORTER_OTLP_PROTOCOL=grpc\nOTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf", "http://collector:4318/v1/traces"},
	} {
		s, on, err := read(test.env)
		if err != nil || s.endpoint != test.endpoint || on != (test.endpoint != "") {
			t.Errorf("%q: got %q, %t, %v; want %q", test.env, s.endpoint, on, err, test.endpoint)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ env, want string }{
		{"OTEL_EXPORTER_OTLP_PROTOCOL=grpc", `OTEL_EXPORTER_OTLP_PROTOCOL: got "grpc", want http/protobuf, which collectors accept on port 4318`},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=collector:4317", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: want an address such as http://collector:4318"},
		{"OTEL_TRACES_EXPORTER=zipkin", `OTEL_TRACES_EXPORTER: got "zipkin", want otlp or none`},
		{"OTEL_EXPORTER_OTLP_HEADERS=sk-secret", "OTEL_EXPORTER_OTLP_HEADERS: want name=value"},
		{"OTEL_EXPORTER_OTLP_TIMEOUT=10s", `OTEL_EXPORTER_OTLP_TIMEOUT: got "10s", want milliseconds`},
		{"OTEL_EXPORTER_OTLP_COMPRESSION=zstd", `OTEL_EXPORTER_OTLP_COMPRESSION: got "zstd", want gzip or none`},
		{"OTEL_EXPORTER_OTLP_CERTIFICATE=/nowhere.pem", "OTEL_EXPORTER_OTLP_CERTIFICATE, _CLIENT_CERTIFICATE and _CLIENT_KEY: read the CA certificate: open /nowhere.pem"},
		{"OTEL_EXPORTER_OTLP_CLIENT_KEY=/nowhere.pem", "OTEL_EXPORTER_OTLP_CERTIFICATE, _CLIENT_CERTIFICATE and _CLIENT_KEY: a client certificate needs a key, and a key a certificate: name both files"},
		{"OTEL_TRACES_SAMPLER=jaeger_remote", `OTEL_TRACES_SAMPLER: got "jaeger_remote", want one of always_on, `},
		{"OTEL_TRACES_SAMPLER=traceidratio\nOTEL_TRACES_SAMPLER_ARG=NaN", `OTEL_TRACES_SAMPLER_ARG: got "NaN", want a share from 0 to 1`},
		{"OTEL_RESOURCE_ATTRIBUTES=a=%zz", "OTEL_RESOURCE_ATTRIBUTES: want name=value"},
	} {
		_, _, err := read("OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318\n" + test.env)
		if err == nil || !strings.HasPrefix(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: got %v, want %q", test.env, err, test.want)
		}
	}
}

// one sends a single span, and is at the end of it.
func one(t *testing.T, endpoint string, more ...string) {
	t.Helper()
	var log bytes.Buffer
	if tell(open(t, endpoint, zerolog.New(&log), more...)); log.Len() > 0 {
		t.Errorf("the log says %s", log.String())
	}
}

// tell tells a tracer of one run and closes it.
func tell(tracer *Tracer) {
	tracer.Handled(observe.Handled{Task: record.Task{Evaluation: "ev-abcdefghijkl", Kind: eval.KindPairwise}, Worker: "w", Why: "dropped"})
	_ = tracer.Close()
}

// What is sent has the headers that were asked for, is packed where that was asked
// for, and is sent again to a collector that has no room.
func TestSent(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	c.statuses = []int{http.StatusServiceUnavailable}
	one(t, c.URL, "OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20YTpi,x-tenant = seven", "OTEL_EXPORTER_OTLP_COMPRESSION", "gzip",
		"OTEL_SERVICE_NAME", "judges", "OTEL_RESOURCE_ATTRIBUTES", "service.name=other,service.instance.id=pod-1")
	if len(c.requests) != 2 || c.bodies[0] != c.bodies[1] {
		t.Fatalf("got %d requests, want two of the same", len(c.requests))
	}
	r := c.requests[1]
	if r.Method != http.MethodPost || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" ||
		r.Header.Get("Authorization") != "Basic YTpi" || r.Header.Get("X-Tenant") != "seven" {
		t.Errorf("got %s %s with %v", r.Method, r.URL.Path, r.Header)
	}
	unpacked, err := gzip.NewReader(strings.NewReader(c.bodies[1]))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	c.bodies = []string{string(text)}
	if got := c.spans(t)[0].resource; got["service.name"] != "judges" || got["service.instance.id"] != "pod-1" {
		t.Errorf("resource: got %v, want the names of the environment", got)
	}
}

// A redirect is not followed: headers may contain a key.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	elsewhere, c := newCollector(t), newCollector(t)
	c.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+"/v1/traces", http.StatusTemporaryRedirect)
	})
	var log bytes.Buffer
	tell(open(t, strings.Replace(c.URL, "://", "://ann:hunter2@", 1)+"/x?token=hunter3", zerolog.New(&log), "OTEL_EXPORTER_OTLP_HEADERS", "x-key=hunter4"))
	said := log.String()
	if len(elsewhere.requests) > 0 {
		t.Errorf("the other server got %v", elsewhere.requests[0].Header)
	}
	if !strings.Contains(said, "307") || strings.Contains(said, "hunter") {
		t.Errorf("the log says %s; want that the collector redirects, and no key", said)
	}
}

// A collector is believed whose certificate the file of the environment signs.
func TestCertificates(t *testing.T) {
	t.Parallel()
	c := &collector{}
	c.Server = httptest.NewTLSServer(http.HandlerFunc(c.take))
	defer c.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	one(t, c.URL, "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", file)
	if len(c.spans(t)) != 1 {
		t.Errorf("got %d spans, want one", len(c.spans(t)))
	}
}

func TestModelOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		entry catalog.Entry
		want  Model
	}{
		{catalog.BuiltIn()["openai"], Model{"chat", "openai", "api.openai.com", 443}},
		{catalog.BuiltIn()["openaidp"], Model{"chat", "openai", "api.openai.com", 443}},
		{catalog.BuiltIn()["anthropic"], Model{"chat", "anthropic", "api.anthropic.com", 443}},
		{catalog.BuiltIn()["google"], Model{"generate_content", "gcp.gemini", "generativelanguage.googleapis.com", 443}},
		{catalog.BuiltIn()["openrouter"], Model{"chat", "openrouter", "openrouter.ai", 443}},
		{catalog.BuiltIn()["ollama"], Model{"chat", "ollama", "127.0.0.1", 11434}},
		{catalog.BuiltIn()["test"], Model{"chat", "test", "", 0}},
		{catalog.Entry{Name: "ours", Dialect: catalog.Chat, BaseURL: "https://one.OpenAI.azure.com/openai/v1"}, Model{"chat", "azure.ai.openai", "one.OpenAI.azure.com", 443}},
		{catalog.Entry{Name: "fast", Dialect: catalog.Chat, BaseURL: "https://api.groq.com/openai/v1"}, Model{"chat", "groq", "api.groq.com", 443}},
		{catalog.Entry{Name: "second", Like: "openai", Dialect: catalog.Responses, BaseURL: "http://proxy:8080/v1"}, Model{"chat", "openai", "proxy", 8080}},
		{catalog.Entry{Name: "local", Dialect: catalog.Chat, BaseURL: "http://[::1]/v1"}, Model{"chat", "local", "::1", 80}},
	} {
		if got := ModelOf(test.entry); got != test.want {
			t.Errorf("%s: got %+v, want %+v", test.entry.Name, got, test.want)
		}
	}
}
