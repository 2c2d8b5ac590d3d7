package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/internal/telemetry/metrics"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/worker"
)

// A worker counts what the provider saw, is alive whether or not Redis is, and
// ready only while it is; a second one on its address is refused.
func TestWorkerMetricsAndHealth(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	f := newFleetLimited(t, 4, calm)
	f.documents(3)
	f.file = f.evaluation("pairs", "simulator:careful", 4, 1000)
	address := testrun.FreeAddress(t)
	working := launch(t, f.dir, "worker", "--redis", f.redis.URL(), "--config", "fleet.yaml", "--metrics-addr", address)
	health := func(want int, args ...string) {
		t.Helper()
		testrun.EventuallyGot(t, fmt.Sprintf("healthcheck %v ends with %d", args, want), func() (string, bool) {
			code, stdout, stderr := evalfleet(t, nil, append(args, "healthcheck", "--metrics-addr", address)...)
			return fmt.Sprintf("%d, %q, %q", code, stdout, stderr), code == want
		})
	}
	health(0, "--ready")
	health(0)

	second := launch(t, f.dir, "worker", "--redis", f.redis.URL(), "--config", "fleet.yaml", "--metrics-addr", address)
	if code := second.wait(); code != 2 || !strings.Contains(second.stderr.String(), "--metrics-addr "+address) {
		t.Errorf("a second worker on the address: got %d and %q, want 2 and the flag", code, second.stderr.String())
	}

	if code := f.enqueueAndWait().wait(); code != 0 {
		t.Fatalf("enqueue --wait ended with %d", code)
	}
	for _, want := range []string{
		fmt.Sprintf(`evalfleet_calls_total{class="ok",model="careful",provider="simulator"} %d`, f.stats().All.Arrived),
		`evalfleet_runs_total{model="careful",provider="simulator",state="succeeded"} 6`,
		`evalfleet_calls_in_flight{model="careful",provider="simulator"} 0`,
		`evalfleet_limit_wait_seconds_count{limit="provider/simulator/concurrency"} `,
		"evalfleet_worker_ready 1",
		"evalfleet_redis_up 1",
	} {
		testrun.EventuallyGot(t, "metrics have "+want, func() (string, bool) {
			text := scrape(t, address)
			return text, strings.Contains(text, "\n"+want)
		})
	}

	f.redis.Kill()
	health(3, "--ready")
	health(0)
	f.redis.Start()
	health(0, "--ready")
	_ = working.cmd.Process.Kill()
	<-working.ended
	health(3)
}

// The default port may be taken by another worker of the machine; one that was
// asked for may not.
func TestMetricsPortTaken(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.Addr().String()
	var log strings.Builder
	served, err := watched(t.Context(), &worker.Config{}, address, false, zerolog.New(&log))
	if err != nil || served.Close() != nil || !strings.Contains(log.String(), "working without metrics") {
		t.Errorf("a default port that is taken: got %v and the log %q, want a warning", err, log.String())
	}
	if _, err := watched(t.Context(), &worker.Config{}, address, true, zerolog.Nop()); codeOf(err) != exitUsage {
		t.Errorf("a given port that is taken: got %v, want exit code 2", err)
	}
	settings := worker.Config{}
	if served, err := watched(t.Context(), &settings, "off", true, zerolog.Nop()); err != nil || served.Close() != nil || settings.Observer.Call != nil {
		t.Errorf("off: got %v, want nothing served and nothing counted", err)
	}
}

func scrape(t *testing.T, address string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+metrics.MetricsPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
