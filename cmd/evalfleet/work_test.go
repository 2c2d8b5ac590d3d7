package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/telemetry/metrics"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// A run serves metrics while it works and writes every event to the file that
// was asked for as well as to its folder.
func TestRunServesMetricsAndEvents(t *testing.T) {
	t.Parallel()
	f := newFleetWith(t, "--max-in-flight", "100")
	calls := f.gate()
	f.documents(4)
	f.file = f.evaluation("pairs", "simulator:careful", 2, 1000)
	address := testrun.FreeAddress(t)
	run := launch(t, f.dir, "run", f.file, "--config", "fleet.yaml", "--out-dir", "out", "--metrics-addr", address,
		"--events", "all.jsonl", "--queues", "simulator")
	calls.allow(1)
	testrun.EventuallyGot(t, "the metrics count a run that succeeded", func() (string, bool) {
		response, err := http.Get("http://" + address + metrics.HealthPath)
		if err != nil {
			return err.Error(), false
		}
		_ = response.Body.Close()
		text := scrape(t, address)
		return text, strings.Contains(text, `evalfleet_runs_total{model="careful",provider="simulator",state="succeeded"} 1`)
	})
	calls.open()
	if code := run.wait(); code != 0 {
		t.Fatalf("exit code %d, want 0", code)
	}
	asked, err := os.ReadFile(filepath.Join(f.dir, "all.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(filepath.Join(f.dir, "out", outdir.EventsFile))
	if err != nil {
		t.Fatal(err)
	}
	lines := func(text []byte) map[string]int { // written from several goroutines, in any order
		counts := map[string]int{}
		for line := range strings.Lines(string(text)) {
			counts[line]++
		}
		return counts
	}
	differ := len(lines(asked)) != len(lines(kept))
	for line, n := range lines(asked) {
		differ = differ || lines(kept)[line] != n
	}
	for line := range lines(asked) {
		var e observe.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		leased := e.Event == observe.EventAcquired || e.Event == observe.EventReleased
		if leased && (e.ActiveSlots == nil || *e.ActiveSlots < 0 || *e.ActiveSlots > 100) || !leased && e.ActiveSlots != nil {
			t.Errorf("calls in flight of up to 100: %s", line)
		}
	}
	if succeeded := strings.Count(string(asked), `"event":"succeeded"`); differ || succeeded != 12 {
		t.Errorf("--events has %d bytes and %d runs that succeeded, %s %d bytes; want the same events of 12 runs",
			len(asked), succeeded, outdir.EventsFile, len(kept))
	}
}

// At level debug the log has every event, with the fields of the file, but for
// timeouts and failures, which it tells as a warning and an error.
func TestLogHasEvents(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{
		"docs/a.md": "A.", "docs/b.md": "B.",
		"eval.yaml": "documents: [docs/*.md]\njudges: [simulator:careful, simulator:unknown]\npairwise: {}\nretry: {max_attempts: 1}\n",
	})
	out := filepath.Join(dir, "out")
	code, _, stderr := evalfleet(t, nil, "run", filepath.Join(dir, "eval.yaml"), "--out-dir", out, "--log-level", "debug", "--log-format", "json")
	kept, err := os.ReadFile(filepath.Join(out, outdir.EventsFile))
	if err != nil {
		t.Fatalf("ended with %d, %v:\n%s", code, err, stderr)
	}
	count := func(text string) map[string]int {
		counts := map[string]int{}
		for line := range strings.Lines(text) {
			var e struct {
				Event, Level string
				RunID        string `json:"run_id"`
				Provider     string
			}
			if json.Unmarshal([]byte(line), &e) != nil || e.Event == "" || e.Event == observe.EventQueued {
				continue
			}
			if e.RunID == "" || e.Provider == "" {
				t.Errorf("an event of no evaluation: %s", line)
			}
			want := map[string]string{observe.EventFailed: "error", observe.EventTimeout: "warn"}[e.Event]
			if want == "" {
				want = "debug"
			}
			if e.Level != "" && e.Level != want {
				t.Errorf("level of %s is %s, want %s", e.Event, e.Level, want)
			}
			counts[e.Event]++
		}
		return counts
	}
	logged, written := count(stderr), count(string(kept))
	if diff := cmp.Diff(written, logged); diff != "" || written[observe.EventAcquired] == 0 {
		t.Errorf("events in the log (-%s +log):\n%s", outdir.EventsFile, diff)
	}
}
