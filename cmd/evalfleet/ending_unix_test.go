//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/telemetry/notify"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

const notifySecret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

// receiver takes signed events. It answers each first attempt with 503.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex // guards the fields below
	tries  map[string]int
	events []notify.Event
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	signed, err := webhooks.NewWebhook(notifySecret)
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{tries: map[string]int{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err == nil {
			err = signed.VerifyIgnoringTimestamp(body, request.Header)
		}
		var e notify.Event
		if err == nil {
			err = json.Unmarshal(body, &e)
		}
		if err != nil {
			t.Errorf("event %s: %v", body, err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		id := request.Header.Get("webhook-id")
		switch r.tries[id]++; r.tries[id] {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2: // a third try follows an answer that came too late
			r.events = append(r.events, e)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// types are the types of the events so far, for each evaluation.
func (r *receiver) types() map[string][]notify.Type {
	r.mu.Lock()
	defer r.mu.Unlock()
	types := map[string][]notify.Type{}
	for _, e := range r.events {
		types[e.Data.Evaluation] = append(types[e.Data.Evaluation], e.Type)
	}
	return types
}

func (r *receiver) until(t *testing.T, id string, want ...notify.Type) notify.Event {
	t.Helper()
	testrun.EventuallyGot(t, fmt.Sprintf("the receiver gets %v", want), func() (string, bool) {
		got := r.types()[id]
		return fmt.Sprint(got), cmp.Equal(want, got)
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.events[len(r.events)-1]
}

// notified adds a results store and a receiver to the fleet's settings.
func (f *testFleet) notified(to *receiver) {
	f.t.Helper()
	f.add("fleet.yaml", fmt.Sprintf(`sink: sqlite:results.db
notify: {url: %q, secret_env: HOOK_SECRET, pages: "https://evals.example.org/"}
`, to.URL+"/hook"))
	f.write(".env", "HOOK_SECRET="+notifySecret+"\nLOCKED_KEY=wrong\nOPEN_KEY=right\n")
}

func (f *testFleet) submitted(file string) (id string) {
	f.t.Helper()
	return strings.TrimSpace(f.onFleet(exitOK, "enqueue", file, "--config", "fleet.yaml").stdout.String())
}

// An evaluation that ends under a controller has its files beside the others, its winner in
// `status` and on the pages, and one event at the receiver, even if the controller is killed
// and another takes over.
func TestControllerEndsAnEvaluation(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	f, to := newFleet(t, 4, calm), newReceiver(t)
	f.notified(to)
	control := func() *program {
		return f.program("controller", "--config", "fleet.yaml", "--listen", "127.0.0.1:0", "--metrics-addr", "off")
	}
	controller := control()
	f.startWorkers(1)
	id := f.submitted(f.file)
	event := to.until(t, id, notify.Completed)
	if want := "https://evals.example.org/evaluations/" + id + "/report"; event.Data.Report != want || event.Data.Name != "pairs" ||
		event.Data.Runs != (notify.Runs{Planned: f.runs, Succeeded: f.runs}) || event.Data.Headline == "" || event.Data.Why != "" {
		t.Errorf("got %+v, want all %d runs and the report at %s", event.Data, f.runs, want)
	}
	var said string
	testrun.EventuallyGot(t, "status says who won", func() (string, bool) {
		said = f.onFleet(exitOK, "status", id).stdout.String()
		return said, strings.Contains(strings.Join(strings.Fields(said), " "), event.Data.Headline)
	})
	eventuallySays(t, controller, "/", `class="result"`, event.Data.Headline[:20], `href="/evaluations/`+id+`/report"`)
	for _, name := range []string{outdir.ReportFile, "ranking.csv", "pairwise_results.csv", "manifest.json"} {
		if info, err := os.Stat(filepath.Join(f.dir, outdir.Default("pairs", eval.ID(id)), name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v, want it beside the results", name, err)
		}
	}
	controller.signal(syscall.SIGKILL)
	control()
	second := f.submitted(f.evaluation("second", `"simulator:average"`, fleetLimit, fleetLimit))
	to.until(t, second, notify.Completed)
	if diff := cmp.Diff([]notify.Type{notify.Completed}, to.types()[id]); diff != "" {
		t.Errorf("after another controller took over: %s", diff)
	}
}

// A spent budget, a refused key, and an end with failed runs are told, each once, with what to
// do.
func TestControllerTellsOfStops(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	t.Run("budget", func(t *testing.T) {
		t.Parallel()
		f, to := newBudgeted(t, "20ms", calm), newReceiver(t)
		f.notified(to)
		f.program("controller", "--config", "fleet.yaml", "--listen", "off", "--metrics-addr", "off")
		f.startWorkers(1)
		f.budgeted(40)
		event := to.until(t, f.submitted("evaluation.yaml"), notify.Spent)
		if event.Data.CostUSD == nil || *event.Data.CostUSD > 0.04 || !strings.Contains(event.Data.Why, "no room for another call") {
			t.Errorf("got %+v", event.Data)
		}
	})
	t.Run("key", func(t *testing.T) {
		t.Parallel()
		f, to := newKeyed(t), newReceiver(t)
		f.redis = redistest.NewTCP(t)
		f.trustRedis()
		f.notified(to)
		f.program("controller", "--config", "fleet.yaml", "--listen", "off", "--metrics-addr", "off")
		f.startWorkers(1)
		event := to.until(t, f.submitted("evaluation.yaml"), notify.Paused)
		if !strings.Contains(event.Data.Why, "set LOCKED_KEY") {
			t.Errorf("got %+v", event.Data)
		}
	})
}

func TestControllerRefusesASecretThatIsNone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "fleet.yaml"), []byte("notify: {url: \"https://hooks.example.org/x?key=sk-1\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	redis := redistest.NewTCP(t).URL()
	for env, want := range map[string]string{
		"":                              "EVALFLEET_NOTIFY_SECRET is not: set it",
		"EVALFLEET_NOTIFY_SECRET=short": "openssl rand -base64 32",
	} {
		name, value, _ := strings.Cut(env, "=")
		code, _, stderr := evalfleet(t, map[string]string{name: value}, "controller", "--redis", redis, "--config", filepath.Join(dir, "fleet.yaml"), "--listen", "off", "--metrics-addr", "off")
		if code != int(exitUsage) || !strings.Contains(stderr, want) || strings.Contains(stderr, "sk-1") {
			t.Errorf("%q: exit code %d, %q; want %q", env, code, stderr, want)
		}
	}
}
