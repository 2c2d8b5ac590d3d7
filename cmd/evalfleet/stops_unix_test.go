//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// keyed is a simulator that takes one key, two accounts on it, and an evaluation
// of 132 runs on each.
const (
	keyedRuns     = 132
	keyedInFlight = 4
)

func newKeyed(t *testing.T) *testFleet {
	t.Helper()
	f := &testFleet{t: t, dir: t.TempDir()}
	f.write("simulator.json", `{"keys": ["right"], "latency": "20ms"}`)
	f.simulate("--settings", "simulator.json")
	f.documents(12)
	f.writeCalm(fmt.Sprintf(`providers:
  locked: {base_url: "%[1]s/v1", api_key_env: LOCKED_KEY}
  open: {base_url: "%[1]s/v1", api_key_env: OPEN_KEY}
`, f.provider))
	f.file = f.write("evaluation.yaml", fmt.Sprintf(`name: keyed
documents: ["docs/*.md"]
judges: ["locked:careful", "open:average"]
pairwise: {pairs: all, order: both}
concurrency: {max_concurrency: 16, per_provider: {locked: {max_concurrency: %d}}}
`, keyedInFlight))
	return f
}

func (f *testFleet) keys(locked string) {
	f.write(".env", "LOCKED_KEY="+locked+"\nOPEN_KEY=right\n")
}

// counts is what the simulator saw.
func (f *testFleet) counts() simulator.Stats {
	f.t.Helper()
	answer, err := http.Get(f.provider + "/stats")
	if err != nil {
		f.t.Fatal(err)
	}
	defer answer.Body.Close()
	var stats simulator.Stats
	if err := json.NewDecoder(answer.Body).Decode(&stats); err != nil {
		f.t.Fatal(err)
	}
	return stats
}

// wantPaused wants that a command ended because the provider with the wrong key is paused, that few calls had that key,
// and that the other provider's runs are all done. A single worker makes as many calls as may be in flight, and one
// more because it takes the first refusal for its run's own. Of two workers, the one that is refused first takes the key
// for its own trouble, so its slots are free for the other, and it tries again after one second and after two more.
func (f *testFleet) wantPaused(p *program, goOn string) {
	f.t.Helper()
	if code := p.wait(); code != int(exitRunsFailed) {
		f.t.Fatalf("it ended with %d, want %d", code, exitRunsFailed)
	}
	const want = "provider locked is paused, auth: "
	if n := strings.Count(p.stderr.String(), want); n != 1 || !strings.Contains(p.stderr.String(), fmt.Sprintf("%d of %d runs are recorded; resume with: %s", keyedRuns, 2*keyedRuns, goOn)) {
		f.t.Errorf("it was said %d times in the end that the provider is paused, want once, with how to go on", n)
	}
	most := int64(keyedInFlight + 1)
	if len(f.workers) > 1 {
		most += keyedInFlight + 2
	}
	if keys := f.counts().Keys; keys.Wrong == 0 || keys.Wrong > most || keys.Right != keyedRuns {
		f.t.Errorf("%d calls with a wrong key and %d with a right one, want 1 to %d and %d", keys.Wrong, keys.Right, most, keyedRuns)
	}
}

// wantStopSaid wants what is in the output folder to say why the evaluation stopped, or
// that it did not.
func (f *testFleet) wantStopSaid(stopped bool) {
	f.t.Helper()
	for _, command := range []string{"status", "report"} {
		p := launch(f.t, f.dir, command, "out", "--config", "fleet.yaml")
		p.wait()
		if got := strings.Join(strings.Fields(p.stdout.String()), " "); strings.Contains(got, "provider locked is paused, auth: ") != stopped {
			f.t.Errorf("%s says why it stopped: %t, want %t:\n%s", command, !stopped, stopped, got)
		}
	}
	manifest, err := os.ReadFile(filepath.Join(f.dir, "out", "manifest.json"))
	if err != nil || strings.Contains(string(manifest), `"stopped": {`) != stopped {
		f.t.Errorf("the manifest says why it stopped: %t, %v; want %t", !stopped, err, stopped)
	}
}

func (f *testFleet) wantAllAnswered() {
	f.t.Helper()
	for model, got := range f.stats().Models {
		if got.Answered != keyedRuns || got.Retaken > 0 {
			f.t.Errorf("%s: %d answered, %d asked twice; want %d and none", model, got.Answered, got.Retaken, keyedRuns)
		}
	}
}

// TestWrongKeyEndsARun: `run` ends when nothing but the runs of a paused provider
// is left, and `resume` does them once the key is right.
func TestWrongKeyEndsARun(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	f := newKeyed(t)
	f.keys("wrong")
	f.wantPaused(launch(t, f.dir, "run", "evaluation.yaml", "--config", "fleet.yaml", "--out-dir", "out"), "evalfleet resume out")
	f.wantStopSaid(true)
	events, err := os.ReadFile(filepath.Join(f.dir, "out", outdir.EventsFile))
	if n := strings.Count(string(events), `"event":"paused"`); err != nil || n != 1 || !strings.Contains(string(events), `"message":"auth: `) {
		t.Errorf("%s has %d lines of a pause, %v; want one that says why", outdir.EventsFile, n, err)
	}
	f.keys("right")
	if code := launch(t, f.dir, "resume", "out", "--config", "fleet.yaml").wait(); code != 0 {
		t.Errorf("resumed, it ended with %d, want 0", code)
	}
	f.wantStopSaid(false)
	f.wantAllAnswered()
}

// TestWrongKeyEndsWaitingForAFleet: the same of workers, whose message is in one
// of their logs, and `status` tells of it.
func TestWrongKeyEndsWaitingForAFleet(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	f := newKeyed(t)
	f.redis = redistest.NewTCP(t)
	f.trustRedis()
	f.keys("wrong")
	f.startWorkers(2)
	wait := func() *program {
		return launch(t, f.dir, "enqueue", "evaluation.yaml", "--wait", "--redis", f.redis.URL(), "--config", "fleet.yaml", "--out-dir", "out")
	}
	first := wait()
	f.wantPaused(first, "evalfleet enqueue evaluation.yaml --wait")
	f.wantStopSaid(true)

	told := 0
	testrun.Eventually(t, "a worker says that the provider is paused", func() bool {
		told = 0
		for _, w := range f.workers {
			told += strings.Count(w.stderr.String(), "provider locked is paused for this evaluation")
		}
		return told > 0
	})
	if told != 1 {
		t.Errorf("workers said %d times that the provider is paused, want once", told)
	}

	status := launch(t, f.dir, "status", "--redis", f.redis.URL())
	status.wait()
	if got := status.stdout.String(); !strings.Contains(got, "provider locked is paused, auth: ") || !strings.Contains(got, "set LOCKED_KEY to a valid key") {
		t.Errorf("status says\n%s", got)
	}
	for _, w := range f.workers {
		w.signal(syscall.SIGTERM)
		w.wait()
	}

	f.keys("right")
	f.startWorkers(2)
	if code := wait().wait(); code != 0 {
		t.Errorf("submitted again, it ended with %d, want 0", code)
	}
	f.wantStopSaid(false)
	f.wantAllAnswered()
}

// A controller notes in the results store why an evaluation stopped, and that it resumed,
// so that the store says it when Redis is gone.
func TestControllerNotesWhyAnEvaluationStopped(t *testing.T) {
	t.Parallel()
	server, err := simulator.Listen("127.0.0.1:0", simulator.Config{Keys: []string{"right"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	f := &testFleet{t: t, dir: t.TempDir(), provider: server.URL, redis: redistest.NewTCP(t)}

	f.documents(2)
	f.write("fleet.yaml", fmt.Sprintf("providers: {locked: {base_url: %q, api_key_env: LOCKED_KEY}}\nsink: \"sqlite:%s/out/results.db\"\n", server.URL+"/v1", f.dir))
	if err := os.Mkdir(filepath.Join(f.dir, "out"), 0o755); err != nil {
		t.Fatal(err)
	}
	f.write("evaluation.yaml", "documents: [\"docs/*.md\"]\njudges: [\"locked:careful\"]\npairwise: {}\n")
	f.keys("wrong")
	f.onFleet(exitOK, "enqueue", "evaluation.yaml", "--config", "fleet.yaml")
	launch(t, f.dir, "controller", "--redis", f.redis.URL(), "--config", "fleet.yaml", "--listen", "127.0.0.1:0")
	worker := f.program("worker", "--config", "fleet.yaml", "--events", "events.jsonl")

	stopped := func(want bool) {
		t.Helper()
		testrun.EventuallyGot(t, fmt.Sprintf("the results store says that it stopped: %t", want), func() (string, bool) {
			p := launch(t, f.dir, "report", "out", "--config", "fleet.yaml")
			p.wait()
			said := p.stdout.String() + p.stderr.String()
			return said, strings.Contains(said, "provider locked is paused, auth: ") == want && strings.Contains(said, "Runs")
		})
	}

	stopped(true)
	testrun.EventuallyGot(t, "the worker's events say once that the provider is paused", func() (string, bool) {
		events, err := os.ReadFile(filepath.Join(f.dir, "events.jsonl"))
		return fmt.Sprintf("%s%v", events, err), strings.Count(string(events), `"event":"paused"`) == 1
	})
	worker.signal(syscall.SIGTERM)
	worker.wait()
	f.onFleet(exitOK, "resume", f.onlyID())
	stopped(false)
}

// onlyID is the id of the fleet's only evaluation.
func (f *testFleet) onlyID() string {
	f.t.Helper()
	for id := range f.statuses() {
		return string(id)
	}
	f.t.Fatal("there is no evaluation")
	return ""
}

// A run whose provider's address nothing listens at, or whose key is wrong, ends soon and
// says what to do.
func TestRunSaysWhatIsWrongWithItsProvider(t *testing.T) {
	t.Parallel()
	server, err := simulator.Listen("127.0.0.1:0", simulator.Config{Keys: []string{"right"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	dead := "http://" + testrun.FreeAddress(t) + "/v1"
	for name, c := range map[string]struct {
		address string
		most    int // calls; a key is wrong when a second run is refused
		want    []string
	}{
		"nothing listens": {dead, 20, []string{"nothing is listening at " + dead + " (connection refused); start the server, or correct base_url; 0 of 56 runs are recorded"}},
		"a wrong key":     {server.URL + "/v1", 10, []string{"set LOCKED_KEY to a valid key"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &testFleet{t: t, dir: t.TempDir()}
			f.documents(8)
			f.write("fleet.yaml", fmt.Sprintf("providers: {locked: {base_url: %q, api_key_env: LOCKED_KEY}}\nretry: {initial_delay: 50ms}\n", c.address))
			f.write("evaluation.yaml", "documents: [\"docs/*.md\"]\njudges: [\"locked:careful\"]\npairwise: {pairs: all, order: both}\n")
			f.keys("wrong")
			p := launch(t, f.dir, "run", "evaluation.yaml", "--config", "fleet.yaml", "--out-dir", "out")
			if code := p.wait(); code != int(exitRunsFailed) {
				t.Errorf("it ended with %d, want %d", code, exitRunsFailed)
			}
			said := strings.Join(strings.Fields(p.stderr.String()), " ")
			for _, want := range append(c.want, "resume with: evalfleet resume out") {
				if !strings.Contains(said, want) {
					t.Errorf("it does not say %q", want)
				}
			}
			if strings.Contains(said, "workers") {
				t.Error("it speaks of workers, and there are none")
			}
			events, err := os.ReadFile(filepath.Join(f.dir, "out", outdir.EventsFile))
			if n := strings.Count(string(events), `"acquired"`); err != nil || n > c.most {
				t.Errorf("%d calls were made for 56 runs, %v; want at most %d", n, err, c.most)
			}
		})
	}
}
