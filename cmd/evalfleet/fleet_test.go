package main

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// fullFleet makes the fleet tests as large as the promises they check; `make fleet` sets it.
var fullFleet = flag.Bool("full-fleet", false, "run the fleet tests at their whole size")

// sizedFleet is one of two settings: a small one, and that of `make fleet`.
func sizedFleet[T any](small, whole T) T {
	if *fullFleet {
		return whole
	}
	return small
}

// testFleet is one test's Redis, simulated provider, workers and evaluation.
type testFleet struct {
	t         *testing.T
	dir       string
	redis     *redistest.Server
	access    []string     // flags by which programs come into another Redis than that
	provider  string       // URL of the simulator
	trusts    string       // file of the certificate that all programs trust alone
	client    *http.Client // asks the simulator; nil: http.DefaultClient
	file      string       // the evaluation
	runs      int
	workers   []*program
	simulator *program
}

const fleetLimit = 16

// Settings of a fleet.
const (
	// calm is for tests in which no worker dies and Redis forgets nothing.
	calm = "concurrency: {lease: 1m}\n" // no slow machine lets it lapse

	// lapses is for tests that wait until the leases of a dead worker end.
	lapses = ""
)

// newFleet is a fleet whose evaluation compares documents in
// documents·(documents−1)·2 runs, under a provider that answers 429 above 16 in
// flight and takes 500 ms a call. settings are calm or lapses.
func newFleet(t *testing.T, documents int, settings string) *testFleet {
	t.Helper()
	f := newFleetLimited(t, fleetLimit, settings)
	f.compare(documents)
	return f
}

// newFleetLimited starts Redis and the provider. settings are calm or lapses.
func newFleetLimited(t *testing.T, limit int, settings string) *testFleet {
	t.Helper()
	f := newFleetWith(t, "--max-in-flight", fmt.Sprint(limit), "--latency", "500ms")
	f.configure(f.provider, settings)
	return f
}

// configure writes fleet.yaml, by which calls go to a URL. settings are calm or lapses.
func (f *testFleet) configure(url, settings string) {
	f.t.Helper()
	text := fmt.Sprintf("providers: {simulator: {base_url: %q}}\n", url+"/v1")
	if settings == calm {
		f.writeCalm(text)
	} else {
		f.write("fleet.yaml", text+settings)
	}
}

// writeCalm writes fleet.yaml with calm.
func (f *testFleet) writeCalm(text string) {
	f.t.Helper()
	f.write("fleet.yaml", text+calm)
	if f.redis != nil {
		f.trustRedis()
	}
}

// trustRedis tells the limiter that Redis has forgotten no call. Without it, no call starts
// until Redis has been up for as long as a lease lasts.
func (f *testFleet) trustRedis() {
	f.t.Helper()
	limits := ratelimit.NewAdmin(f.redis.Client(), ratelimit.Config{})
	if err := limits.Begin(f.t.Context(), 365*24*time.Hour); err != nil {
		f.t.Fatal(err)
	}
}

// newFleetWith starts Redis and a simulator with flags; the fleet's file is still
// to be written.
func newFleetWith(t *testing.T, flags ...string) *testFleet {
	t.Helper()
	f := &testFleet{t: t, dir: t.TempDir(), redis: redistest.NewTCP(t)}
	f.simulate(flags...)
	return f
}

// simulate starts the provider, a simulator with flags.
func (f *testFleet) simulate(flags ...string) {
	f.t.Helper()
	f.simulator = launch(f.t, f.dir, append([]string{"simulate", "--listen", "127.0.0.1:0"}, flags...)...)
	f.provider = f.simulator.line()
}

// newGated is a fleet as of newFleet, with a turnstile that is closed and a
// provider that answers soon.
func newGated(t *testing.T, documents int) (*testFleet, *turnstile) {
	t.Helper()
	f := newFleetWith(t, "--max-in-flight", fmt.Sprint(fleetLimit), "--latency", "10ms")
	f.compare(documents)
	return f, f.gate()
}

// gate puts a turnstile, closed, between the workers that read fleet.yaml and the
// provider.
func (f *testFleet) gate() *turnstile {
	f.t.Helper()
	s := newTurnstile(f.t, f.provider)
	f.configure(s.URL, calm)
	return s
}

// untilHeld waits until so many calls wait at a turnstile.
func (f *testFleet) untilHeld(s *turnstile, calls int) {
	f.t.Helper()
	testrun.EventuallyGot(f.t, fmt.Sprint(calls, " calls are held"), func() (string, bool) {
		held := int(s.held.Load())
		return fmt.Sprint(held), held == calls
	})
}

// compare writes documents, and the evaluation of newFleet that compares them.
func (f *testFleet) compare(documents int) {
	f.t.Helper()
	f.documents(documents)
	f.runs = documents * (documents - 1) * 2
	f.file = f.evaluation("pairs", "simulator:careful, simulator:average", fleetLimit, 1000)
}

// documents writes documents that all differ.
func (f *testFleet) documents(n int) {
	f.t.Helper()
	if err := os.Mkdir(filepath.Join(f.dir, "docs"), 0o755); err != nil {
		f.t.Fatal(err)
	}
	for i := range n {
		f.write(fmt.Sprintf("docs/d%02d.md", i), fmt.Sprintf("Document %d says something that no other document says, %d times.\n", i, i*i))
	}
}

// evaluation writes an evaluation of the documents, with the account's limit and
// one of its own.
func (f *testFleet) evaluation(name, judges string, account, own int) (path string) {
	return f.write(name+".yaml", fmt.Sprintf(`name: %s
documents: ["docs/*.md"]
judges: [%s]
pairwise: {pairs: all, order: both}
concurrency: {max_concurrency: %d, per_provider: {simulator: {max_concurrency: %d}}}
`, name, judges, own, account))
}

func (f *testFleet) write(name, content string) string {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		f.t.Fatal(err)
	}
	return path
}

// add adds to a file of write.
func (f *testFleet) add(name, content string) {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(f.dir, name))
	if err != nil {
		f.t.Fatal(err)
	}
	f.write(name, string(text)+content)
}

func (f *testFleet) startWorkers(n int) {
	for range n {
		f.workers = append(f.workers, f.program("worker", "--config", "fleet.yaml"))
	}
}

func (f *testFleet) enqueueAndWait() *program {
	return f.program("enqueue", f.file, "--wait", "--out-dir", "out", "--config", "fleet.yaml")
}

// program starts evalfleet on the fleet's Redis.
func (f *testFleet) program(args ...string) *program {
	f.t.Helper()
	path, err := binary()
	if err != nil {
		f.t.Fatal(err)
	}
	return f.programBy(path, args...)
}

// programBy starts a build of evalfleet on the fleet's Redis.
func (f *testFleet) programBy(path string, args ...string) *program {
	f.t.Helper()
	access := f.access
	if access == nil {
		access = []string{"--redis", f.redis.URL()}
	}
	cmd := exec.Command(path, slices.Concat(args, access)...)
	if f.trusts != "" {
		cmd.Env = []string{"SSL_CERT_FILE=" + f.trusts}
	}
	return start(f.t, f.dir, cmd)
}

// seen is what the simulator counted.
type seen struct {
	At     time.Time           `json:"at"`
	All    arrivals            `json:"all"`
	Models map[string]arrivals `json:"models"`
}

type arrivals struct {
	Arrived         int            `json:"arrived"`
	Answered        int            `json:"answered"`
	Rejected        int            `json:"rejected"`
	RejectedBy      map[string]int `json:"rejected_by"`
	FirstArrival    time.Time      `json:"first_arrival"`
	LastArrival     time.Time      `json:"last_arrival"`
	InFlight        int            `json:"in_flight"`
	MaxInFlight     int            `json:"max_in_flight"`
	InFlightSeconds float64        `json:"in_flight_seconds"` // integrated over time
	Retaken         int            `json:"prompts_retaken"`   // prompts called more than once
	OutputTokens    int64          `json:"output_tokens"`
	ChargedUSD      float64        `json:"charged_usd"`
	Batches         struct {
		Submitted    int `json:"submitted"`
		Refused      int `json:"refused"`
		Requests     int `json:"requests"`
		Answered     int `json:"answered"`
		Failed       int `json:"failed"`
		Expired      int `json:"expired"`
		Cancelled    int `json:"cancelled"`
		Enqueued     int `json:"enqueued_tokens"`
		MostEnqueued int `json:"most_enqueued_tokens"`
	} `json:"batches"`
	Limits []struct {
		Limit   string `json:"limit"`
		Busiest int    `json:"busiest"` // most in one window
	} `json:"limits"`
}

// asked returns how many prompts have arrived, in calls and in batches.
func (a arrivals) asked() int { return a.Arrived + a.Batches.Requests }

// answered returns how many of them were answered.
func (a arrivals) answered() int { return a.Answered + a.Batches.Answered }

// taken returns how many answers a provider has given, or will give to a batch that it has.
func (a arrivals) taken() int { return a.Answered + a.Batches.Requests }

func (f *testFleet) stats() seen {
	f.t.Helper()
	var stats seen
	f.get("/stats", &stats)
	return stats
}

// callsBetween returns a function that compares how many calls have arrived since it was called last.
func (f *testFleet) callsBetween() (wantCalls func(what string, want int)) {
	arrived := 0
	return func(what string, want int) {
		f.t.Helper()
		all := f.stats().All.Arrived
		if all-arrived != want {
			f.t.Errorf("%s: %d calls arrived, want %d", what, all-arrived, want)
		}
		arrived = all
	}
}

// get asks the simulator.
func (f *testFleet) get(path string, into any) {
	f.t.Helper()
	if err := getJSONBy(testrun.Context(f.t), cmp.Or(f.client, http.DefaultClient), f.provider+path, into); err != nil {
		f.t.Fatal(err)
	}
}

// getJSON decodes what a server answers.
func getJSON(ctx context.Context, url string, into any) error {
	return getJSONBy(ctx, http.DefaultClient, url, into)
}

func getJSONBy(ctx context.Context, client *http.Client, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(into)
}

// until polls the simulator until a condition holds.
func (f *testFleet) until(what string, holds func(seen) bool) (s seen) {
	f.t.Helper()
	testrun.EventuallyGot(f.t, what, func() (string, bool) {
		s = f.stats()
		return fmt.Sprintf("%+v", s), holds(s)
	})
	return s
}

// wantRowsOnce wants a row of each run in the results store, all succeeded.
func (f *testFleet) wantRowsOnce() {
	f.t.Helper()
	if failed := f.wantRows("out", f.runs); failed != 0 {
		f.t.Errorf("%d of %d runs have not succeeded", failed, f.runs)
	}
}

// wantRows opens a folder's results store with a driver of its own and wants a row of each
// run, once, and a verdict of each that succeeded. It returns how many have not.
func (f *testFleet) wantRows(folder string, runs int) (failed int) {
	f.t.Helper()
	// A collector may just be storing the end.
	db, err := sql.Open("sqlite", "file:"+filepath.Join(f.dir, folder, "results.db")+"?_pragma=busy_timeout(60000)")
	if err != nil {
		f.t.Fatal(err)
	}
	defer db.Close()
	var rows, distinct, verdicts int
	err = db.QueryRowContext(f.t.Context(), `SELECT count(*), count(DISTINCT phase || '.' || index_),
		sum(state <> 'succeeded') FROM runs`).Scan(&rows, &distinct, &failed)
	if err != nil {
		f.t.Fatal(err)
	}
	if rows != runs || distinct != runs {
		f.t.Errorf("%d rows of %d runs in the results store; want %d once each", rows, distinct, runs)
	}
	if err := db.QueryRowContext(f.t.Context(), `SELECT count(*) FROM pairwise_results`).Scan(&verdicts); err != nil || verdicts != runs-failed {
		f.t.Errorf("%d verdicts in the results store, %v; want %d", verdicts, err, runs-failed)
	}
	return failed
}

// inUse returns the share of the fleet's slots that was in use between two looks.
func (f *testFleet) inUse(first, last seen) float64 {
	return (last.All.InFlightSeconds - first.All.InFlightSeconds) / last.At.Sub(first.At).Seconds() / fleetLimit
}

func (f *testFleet) wantNeverOver(s seen) {
	f.t.Helper()
	if s.All.MaxInFlight > fleetLimit || s.All.Rejected > 0 {
		f.t.Errorf("the simulator saw %d calls in flight and rejected %d; want at most %d and none", s.All.MaxInFlight, s.All.Rejected, fleetLimit)
	}
}

// TestFleetKeepsTheLimitAndUsesIt: several workers together keep the provider's
// limit, as the provider counts, and with -full-fleet leave none of it idle.
func TestFleetKeepsTheLimitAndUsesIt(t *testing.T) {
	t.Parallel()
	f := newFleet(t, sizedFleet(6, 32), calm) // 60 or 1,984 runs
	var calls *turnstile
	if !*fullFleet {
		calls = f.gate()
	}
	f.startWorkers(sizedFleet(2, 4))
	enqueue := f.enqueueAndWait()
	var first, last seen
	if calls != nil {
		f.untilHeld(calls, fleetLimit)
		calls.open()
	} else {
		first = f.until("all slots are in use", func(s seen) bool { return s.All.InFlight == fleetLimit })
		last = f.until("the last run was begun", func(s seen) bool { return s.All.Arrived >= f.runs })
	}
	if code := enqueue.wait(); code != 0 {
		t.Fatalf("enqueue --wait ended with %d", code)
	}
	f.wantRowsOnce()
	end := f.stats()
	f.wantNeverOver(end)
	if end.All.Arrived != f.runs {
		t.Errorf("the simulator saw %d calls for %d runs", end.All.Arrived, f.runs)
	}
	if *fullFleet {
		used := f.inUse(first, last)
		t.Logf("%.2f %% of %d slots in use over %s, at most %d in flight", 100*used, fleetLimit, last.At.Sub(first.At).Round(time.Millisecond), end.All.MaxInFlight)
		if used < 0.99 {
			t.Errorf("%.2f %% of the slots in use while work waited, want 99 %%", 100*used)
		}
	}
}

// TestFleetSurvivesKill9: one of four workers is killed in the middle. Its slots
// come back when its leases end, its runs when its heartbeat has lapsed.
func TestFleetSurvivesKill9(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	f := newFleet(t, sizedFleet(8, 32), lapses) // 112 or 1,984 runs
	calls := newTurnstile(t, f.provider)
	if !*fullFleet {
		f.configure(calls.URL, lapses)
	}
	f.startWorkers(4)
	enqueue := f.enqueueAndWait()

	if *fullFleet {
		f.until("a fifth has been begun", func(s seen) bool { return s.All.Arrived > f.runs/5 })
	} else {
		calls.allow(f.runs / 5)
		f.untilHeld(calls, fleetLimit)
	}
	f.workers[0].signal(syscall.SIGKILL)
	calls.open()
	if *fullFleet {
		killed := time.Now()
		f.until("the killed worker's calls are gone", func(s seen) bool { return s.All.InFlight < fleetLimit })
		full := f.until("all slots are in use again", func(s seen) bool { return s.All.InFlight == fleetLimit }).At.Sub(killed)
		again := f.until("the killed worker's runs were begun again", func(s seen) bool { return s.All.Retaken > 0 }).At.Sub(killed)
		t.Logf("all slots in use again after %s; its runs were begun again after %s", full.Round(time.Millisecond), again.Round(time.Millisecond))
		if full > 12*time.Second || again > 30*time.Second {
			t.Errorf("all slots in use again after %s, its runs begun again after %s; want at most 12 s and 30 s", full, again)
		}
	}
	if code := enqueue.wait(); code != 0 {
		t.Fatalf("enqueue --wait ended with %d", code)
	}
	f.wantRowsOnce()
	end := f.stats()
	f.wantNeverOver(end)
	t.Logf("%d calls for %d runs", end.All.Arrived, f.runs)
	if end.All.Arrived > f.runs+fleetLimit {
		t.Errorf("%d calls for %d runs: more than those in flight were made again", end.All.Arrived, f.runs)
	}
}

// TestFleetSurvivesFlush: Redis loses everything in the middle. A waiting command submits the
// evaluation again, and results in the results store are not asked again.
func TestFleetSurvivesFlush(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	f := newFleet(t, 8, lapses) // 112 runs
	f.startWorkers(2)
	enqueue := f.enqueueAndWait()
	before := f.until("half has been begun", func(s seen) bool { return s.All.Arrived > f.runs/2 })
	if err := f.redis.Client().FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if code := enqueue.wait(); code != 0 {
		t.Fatalf("enqueue --wait ended with %d", code)
	}
	f.wantRowsOnce()
	end := f.stats()
	// Those in flight: what was answered and not collected yet, the workers have.
	t.Logf("%d calls for %d runs, flushed after %d", end.All.Arrived, f.runs, before.All.Arrived)
	if end.All.Arrived > f.runs+fleetLimit {
		t.Errorf("%d calls for %d runs: recorded runs were made again", end.All.Arrived, f.runs)
	}
}
