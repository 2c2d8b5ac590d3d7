package web

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// asynqmon's charts are drawn from a Prometheus that this server asks, so that the
// page's policy need not let the browser ask it.
func TestQueueCharts(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []string
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.URL.Path+" "+r.FormValue("query"))
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"matrix","result":[]}}`)
	}))
	t.Cleanup(http.DefaultClient.CloseIdleConnections) // asynqmon's
	t.Cleanup(prometheus.Close)
	s := newSite(t, func(cfg *Config) { cfg.Prometheus = prometheus.URL })
	if _, text := s.ask(http.MethodGet, "/asynqmon/"); !strings.Contains(text, prometheus.Listener.Addr().String()) {
		t.Error("asynqmon does not know that there is a Prometheus")
	}
	got, text := s.ask(http.MethodGet, "/asynqmon/api/metrics?queues=p")
	if got.code != http.StatusOK || !strings.Contains(text, `"queue_latency_seconds":{"status":"success"`) {
		t.Errorf("the charts' numbers: %d, %s", got.code, text)
	}
	if len(asked) != 9 || !strings.Contains(strings.Join(asked, "\n"), `/api/v1/query_range rate(asynq_tasks_processed_total{queue=~"p"}[5m])`) {
		t.Errorf("asynqmon asked %q, want the nine queries of its charts", asked)
	}
}

// Names of queues become part of a query: others than ours are not asked for.
func TestQueueNamesMakeNoQueries(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 100)
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.FormValue("query")
		_, _ = io.WriteString(w, `{"status":"success"}`)
	}))
	t.Cleanup(http.DefaultClient.CloseIdleConnections) // asynqmon's
	t.Cleanup(prometheus.Close)
	s := newSite(t, func(cfg *Config) { cfg.Prometheus = prometheus.URL })
	for _, name := range []string{`p"} or secret{a="`, `p\`, "p\n", "p}", "p(", "p,x%22", "p&queues=%22"} {
		got, _ := s.ask(http.MethodGet, "/asynqmon/api/metrics?queues="+strings.ReplaceAll(url.QueryEscape(name), "%26queues%3D%2522", "&queues=%22"))
		if got.code != http.StatusBadRequest || len(asked) > 0 {
			t.Errorf("%q: answered with %d, and Prometheus was asked %d times", name, got.code, len(asked))
		}
	}
	if got, text := s.ask(http.MethodGet, "/asynqmon/api/metrics?queues=openai:gpt-5.1,group%3Dlarge,a~2fb"); got.code != http.StatusOK || len(asked) != 9 {
		t.Errorf("names of ours: %d, %s", got.code, text)
	}
}
