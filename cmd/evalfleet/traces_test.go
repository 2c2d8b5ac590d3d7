package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A run sends its traces to the collector that .env names, all of them before it
// ends; a protocol that it does not speak is refused before anything is asked.
func TestRunSendsTraces(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex // guards sent
	var sent []*tracepb.ResourceSpans
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var batch tracepb.TracesData
		if err != nil || proto.Unmarshal(body, &batch) != nil || r.Header.Get("Authorization") != "Basic key" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, batch.GetResourceSpans()...)
	}))
	defer collector.Close()

	dir := tree(t, map[string]string{
		"docs/a.md": "A.", "docs/b.md": "B.",
		"eval.yaml": "documents: [docs/*.md]\njudges: [simulator:careful]\npairwise: {}\n",
		"otel.env":  "OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL + "\nOTEL_EXPORTER_OTLP_HEADERS=authorization=Basic%20key\n",
	})
	run := []string{"run", filepath.Join(dir, "eval.yaml"), "--out-dir", filepath.Join(dir, "out"), "--env-file", filepath.Join(dir, "otel.env")}
	if code, _, stderr := evalfleet(t, map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, run...); code != 2 || !strings.Contains(stderr, "OTEL_EXPORTER_OTLP_PROTOCOL") {
		t.Errorf("over gRPC: ended with %d and %q, want 2 and the variable", code, stderr)
	}

	for i := 0; ; i++ { // a slow machine may not send them in time
		mu.Lock()
		sent = nil
		mu.Unlock()
		run[3] = filepath.Join(dir, fmt.Sprint("out", i))
		code, _, stderr := evalfleet(t, nil, run...)
		if code != 0 {
			t.Fatalf("ended with %d:\n%s", code, stderr)
		}
		if !strings.Contains(stderr, "cannot send traces") {
			break
		}
	}
	mu.Lock()
	defer mu.Unlock()

	names, servers := map[string]int{}, map[string]bool{}
	for _, of := range sent {
		for _, in := range of.GetScopeSpans() {
			for _, span := range in.GetSpans() {
				names[span.GetName()]++
				for _, pair := range span.GetAttributes() {
					if pair.GetKey() == "server.address" {
						servers[pair.GetValue().GetStringValue()] = true
					}
				}
			}
		}
	}
	if names["run pairwise"] != 2 || names["chat careful"] != 2 || len(names) != 2 || !servers["127.0.0.1"] {
		t.Errorf("got %v of calls to %v, want two runs and their calls to the simulator of this process", names, servers)
	}
}
