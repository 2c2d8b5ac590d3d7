package controller

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// metrics are what a scrape finds.
func (b *bench) metrics() string {
	b.t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(b)
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequestWithContext(b.t.Context(), http.MethodGet, "/", nil))
	return w.Body.String()
}

// metric is a metric without labels.
func (b *bench) metric(text, name string) float64 {
	b.t.Helper()
	_, line, _ := strings.Cut(text, "\n"+name+" ")
	number, _, _ := strings.Cut(line, "\n")
	value, err := strconv.ParseFloat(number, 64)
	if err != nil {
		b.t.Errorf("metrics have %s as %q", name, number)
	}
	return value
}

// What the controller tells of a fleet whose worker has died: what is queued, held,
// limited, spent and not drained.
func TestMetrics(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	adaptive := inFlight("p", 3)
	adaptive.Adaptive = true
	budget := ratelimit.Budget("its own", 4*ratelimit.Dollar)
	r := b.submit("one", "p", 4, adaptive, budget) // 12 runs
	b.submit("other", "q", 3, ofEvaluation(2))     // 6 runs in a queue of its own
	b.submit("third", "q", 2)
	b.until("the runs are in their queues", func() bool { return b.depth("p").Pending == 12 && b.depth("q").Pending == 2 })
	id, err := b.client.LMove(ctx, "asynq:{p}:pending", "asynq:{p}:active", "RIGHT", "LEFT").Result()
	if err != nil {
		t.Fatal(err)
	}
	b.client.HSet(ctx, "asynq:{p}:t:"+id, "state", "active", "owner", "gone", "pull", 1)
	if err := b.limiter.Begin(ctx, time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := b.limiter.TellSpent(ctx, string(r.ID), "", ratelimit.Dollar); err != nil {
		t.Fatal(err)
	}
	if err := b.client.XAdd(ctx, &redis.XAddArgs{Stream: b.store.Keys().Results(r.ID), Values: record.Entry{}.Values(), ID: "1-1"}).Err(); err != nil {
		t.Fatal(err)
	}
	b.committed(make([]record.Entry, 7))

	text := b.metrics()
	age := time.Since(time.UnixMilli(int64(1000 * b.metric(text, "evalfleet_limiter_epoch_timestamp_seconds"))))
	if age < time.Hour || age > 24*time.Hour {
		t.Errorf("limits are remembered for %s, want an hour", age)
	}
	for _, want := range []string{
		"evalfleet_redis_up 1",
		"evalfleet_workers 0",
		`evalfleet_queue_tasks{queue="p",state="pending"} 11`,
		`evalfleet_queue_tasks{queue="p",state="active"} 1`,
		`evalfleet_queue_tasks{queue="q",state="pending"} 8`, // with the queue of one evaluation
		`evalfleet_queue_orphaned_tasks{queue="p"} 1`,
		`evalfleet_queue_runs{queue="p",state="runnable"} 12`,
		`evalfleet_limit_capacity{kind="concurrency",limit="provider/p/concurrency"} 3`,
		`evalfleet_limit_configured{kind="concurrency",limit="provider/p/concurrency"} 3`,
		`evalfleet_limit_allowed{kind="concurrency",limit="provider/p/concurrency"} 3`,
		`evalfleet_limit_used{kind="concurrency",limit="provider/p/concurrency"} 0`,
		"evalfleet_budget_usd 4",
		"evalfleet_budget_used_usd 1",
		"evalfleet_budget_used_ratio 0.25",
		"evalfleet_evaluations_active 3",
		"evalfleet_evaluations_unreadable 0",
		"evalfleet_results_undrained 1",
		"evalfleet_results_drained_total 7",
		"evalfleet_redis_evicted_keys 0",
		"evalfleet_redis_aof_enabled 0",
		"evalfleet_redis_aof_last_write_ok 1",
		"evalfleet_redis_aof_last_rewrite_ok 1",
		`asynq_tasks_enqueued_total{queue="p",state="pending"} 11`,
		`asynq_queue_size{queue="p"} 12`,
		`asynq_tasks_processed_total{queue="p"} 0`,
		`asynq_tasks_failed_total{queue="p"} 0`,
		`asynq_queue_paused_total{queue="p"} 0`,
		`asynq_queue_size{queue="q"} 2`, // as asynq has it
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("metrics lack %q", want)
		}
	}
	for _, name := range []string{
		"evalfleet_results_undrained_bytes", "evalfleet_results_oldest_undrained_seconds", "evalfleet_results_last_drain_timestamp_seconds",
		"evalfleet_redis_memory_bytes", "evalfleet_queue_oldest_pending_seconds", "asynq_queue_memory_usage_approx_bytes", "asynq_queue_latency_seconds",
	} {
		if !strings.Contains(text, "\n"+name) || strings.Contains(text, "\n"+name+" 0\n") {
			t.Errorf("metrics lack %s, or it is 0", name)
		}
	}
	if strings.Contains(text, "ev-") {
		t.Error("metrics hold the id of an evaluation")
	}
	problems, err := testutil.CollectAndLint(b)
	for _, problem := range problems {
		if !strings.HasPrefix(problem.Metric, "asynq_") { // others named them
			t.Errorf("%s: %s", problem.Metric, problem.Text)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// Of a Cluster, amounts are those of all masters, and a state is that of the worst.
func TestMetricsOfCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t, false, "--maxmemory", "100mb")
	options := &redis.ClusterOptions{Addrs: []string{cluster.Masters[0].Address()}}
	client := redis.NewClusterClient(redistest.PatientCluster(options))
	t.Cleanup(func() { _ = client.Close() })
	b := &bench{New(Config{Store: store.New(client, ""), Log: zerolog.Nop()}), t, client}
	b.scrapeTime = time.Hour
	if err := cluster.Masters[1].Client().ConfigSet(t.Context(), "appendonly", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	text := b.metrics()
	if got := b.metric(text, "evalfleet_redis_memory_max_bytes"); got != 3*100<<20 {
		t.Errorf("the masters may use %.0f bytes together, want 3 times 100 MB", got)
	}
	if got := b.metric(text, "evalfleet_redis_aof_enabled"); got != 0 {
		t.Errorf("append-only: %.0f, want 0, since only one of them is", got)
	}
	if got := b.metric(text, "evalfleet_redis_up"); got != 1 {
		t.Errorf("up: %.0f, want 1", got)
	}
}

// Names in asynq:queues, which anyone who can write to Redis adds, are labels and
// nothing else.
func TestNamesOfQueuesAreOnlyLabels(t *testing.T) {
	t.Parallel()
	b := setup(t)
	names := []string{"\xff", "\ufffd", `\xff`, "\x1b[2J", "a\"} 1\nforged_metric 2", "\u202eevil", "\u009b2J"}
	for _, name := range names {
		if err := b.client.SAdd(t.Context(), "asynq:queues", name).Err(); err != nil {
			t.Fatal(err)
		}
	}
	text := b.metrics()
	if got := strings.Count(text, "\nasynq_queue_size{"); got != len(names) {
		t.Errorf("%d queues, want %d:\n%s", got, len(names), text)
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "forged") || harmless.Line(strings.TrimSuffix(line, "\n"))+"\n" != line {
			t.Errorf("the metrics contain %q", line)
		}
	}
}
