package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/evalfleet/evalfleet/internal/redistest"
)

// fullFleet makes the fleet tests as large as the promises they stand for;
// `make fleet` sets it.
var fullFleet = flag.Bool("full-fleet", false, "run the fleet tests at their whole size")

// fleet is one test's Redis, simulated provider, workers and evaluation.
type fleet struct {
	t         *testing.T
	dir       string
	redis     *redistest.Server
	access    []string // flags by which programs come into another Redis than that
	provider  string   // URL of the simulator
	file      string   // the evaluation
	runs      int
	workers   []*program
	simulator *program
}

const fleetLimit = 16

// newFleet is a fleet whose evaluation compares documents in
// documents·(documents−1)·2 runs, under a provider that answers 429 above 16 in
// flight and takes 500 ms a call.
func newFleet(t *testing.T, documents int) *fleet {
	t.Helper()
	f := newFleetLimited(t, fleetLimit)
	f.compare(documents)
	return f
}

// newFleetLimited starts Redis and the provider.
func newFleetLimited(t *testing.T, limit int) *fleet {
	t.Helper()
	f := newFleetWith(t, "--max-in-flight", fmt.Sprint(limit), "--latency", "500ms")
	f.write("fleet.yaml", fmt.Sprintf("providers: {simulator: {base_url: %q}}\n", f.provider+"/v1"))
	return f
}

// newFleetWith starts Redis and a simulator with flags; the fleet's file is still
// to be written.
func newFleetWith(t *testing.T, flags ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, dir: t.TempDir(), redis: redistest.NewTCP(t)}
	f.simulate(flags...)
	return f
}

// simulate starts the provider, a simulator with flags.
func (f *fleet) simulate(flags ...string) {
	f.t.Helper()
	f.simulator = launch(f.t, f.dir, append([]string{"simulate", "--listen", "127.0.0.1:0"}, flags...)...)
	f.provider = f.address()
}

// compare writes documents, and the evaluation of newFleet that compares them.
func (f *fleet) compare(documents int) {
	f.t.Helper()
	f.documents(documents)
	f.runs = documents * (documents - 1) * 2
	f.file = f.evaluation("pairs", "simulator:careful, simulator:average", fleetLimit, 1000)
}

// documents writes documents that all differ.
func (f *fleet) documents(n int) {
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
func (f *fleet) evaluation(name, judges string, account, own int) (path string) {
	return f.write(name+".yaml", fmt.Sprintf(`name: %s
documents: ["docs/*.md"]
judges: [%s]
pairwise: {pairs: all, order: both}
concurrency: {max_concurrency: %d, per_provider: {simulator: {max_concurrency: %d}}}
`, name, judges, own, account))
}

func (f *fleet) write(name, content string) string {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		f.t.Fatal(err)
	}
	return path
}

// address waits for the simulator to say where it listens.
func (f *fleet) address() string {
	f.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		if line, _, ok := strings.Cut(f.simulator.stdout.String(), "\n"); ok {
			return strings.TrimSpace(line)
		}
		time.Sleep(5 * time.Millisecond)
	}
	f.t.Fatal("the simulator does not say where it listens")
	return ""
}

func (f *fleet) startWorkers(n int) {
	for range n {
		f.workers = append(f.workers, f.program("worker", "--config", "fleet.yaml"))
	}
}

func (f *fleet) enqueueAndWait() *program {
	return f.program("enqueue", f.file, "--wait", "--out-dir", "out", "--config", "fleet.yaml")
}

// program starts evalfleet on the fleet's Redis.
func (f *fleet) program(args ...string) *program {
	f.t.Helper()
	access := f.access
	if access == nil {
		access = []string{"--redis", f.redis.URL()}
	}
	return launch(f.t, f.dir, slices.Concat(args, access)...)
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
	Limits          []struct {
		Limit   string `json:"limit"`
		Busiest int    `json:"busiest"` // most in one window
	} `json:"limits"`
}

func (f *fleet) stats() seen {
	f.t.Helper()
	var stats seen
	f.get("/stats", &stats)
	return stats
}

// get asks the simulator.
func (f *fleet) get(path string, into any) {
	f.t.Helper()
	if err := getJSON(f.t.Context(), f.provider+path, into); err != nil {
		f.t.Fatal(err)
	}
}

// getJSON decodes what a server answers.
func getJSON(ctx context.Context, url string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
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
func (f *fleet) until(what string, limit time.Duration, holds func(seen) bool) seen {
	f.t.Helper()
	deadline := time.Now().Add(limit)
	for {
		s := f.stats()
		if holds(s) {
			return s
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("waited %s in vain until %s: %+v", limit, what, s)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// wantRowsOnce wants a row of each run in the sink, all succeeded.
func (f *fleet) wantRowsOnce() {
	f.t.Helper()
	if failed := f.wantRows("out", f.runs); failed != 0 {
		f.t.Errorf("%d of %d runs have not succeeded", failed, f.runs)
	}
}

// wantRows opens a folder's sink with a driver of its own and wants a row of each
// run, once, and a verdict of each that succeeded. It returns how many have not.
func (f *fleet) wantRows(folder string, runs int) (failed int) {
	f.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(f.dir, folder, "results.db"))
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
		f.t.Errorf("%d rows of %d runs in the sink; want %d once each", rows, distinct, runs)
	}
	if err := db.QueryRowContext(f.t.Context(), `SELECT count(*) FROM pairwise_results`).Scan(&verdicts); err != nil || verdicts != runs-failed {
		f.t.Errorf("%d verdicts in the sink, %v; want %d", verdicts, err, runs-failed)
	}
	return failed
}

func (f *fleet) wantNeverOver(s seen) {
	f.t.Helper()
	if s.All.MaxInFlight > fleetLimit || s.All.Rejected > 0 {
		f.t.Errorf("the simulator saw %d calls in flight and rejected %d; want at most %d and none", s.All.MaxInFlight, s.All.Rejected, fleetLimit)
	}
}

// TestFleetKeepsTheLimitAndUsesIt: four processes together keep the provider's
// limit, as the provider counts, and leave none of it idle.
func TestFleetKeepsTheLimitAndUsesIt(t *testing.T) {
	documents, least := 12, 0.95 // 264 runs: few enough that one hiccup of a shared machine shows
	if *fullFleet {
		documents, least = 32, 0.99 // 1,984 runs
	}
	f := newFleet(t, documents)
	f.startWorkers(4)
	enqueue := f.enqueueAndWait()
	first := f.until("all slots are in use", 30*time.Second, func(s seen) bool { return s.All.InFlight == fleetLimit })
	last := f.until("the last run was begun", 5*time.Minute, func(s seen) bool { return s.All.Arrived >= f.runs })
	if code := enqueue.wait(time.Minute); code != 0 {
		t.Fatalf("enqueue --wait ended with %d", code)
	}
	f.wantRowsOnce()
	end := f.stats()
	f.wantNeverOver(end)
	if end.All.Arrived != f.runs {
		t.Errorf("the simulator saw %d calls for %d runs", end.All.Arrived, f.runs)
	}
	used := (last.All.InFlightSeconds - first.All.InFlightSeconds) / last.At.Sub(first.At).Seconds() / fleetLimit
	t.Logf("%.2f %% of %d slots in use over %s, at most %d in flight", 100*used, fleetLimit, last.At.Sub(first.At).Round(time.Millisecond), end.All.MaxInFlight)
	if used < least {
		t.Errorf("%.2f %% of the slots in use while work waited, want %.0f %%", 100*used, 100*least)
	}
}

// TestFleetSurvivesKill9: one of four workers is killed in the middle. Its slots
// come back when its leases end, its runs when its heartbeat has lapsed.
func TestFleetSurvivesKill9(t *testing.T) {
	t.Parallel()
	documents := 16 // 480 runs: about 15 s of work, so that work waits while the slots come back
	if *fullFleet {
		documents = 32
	}
	f := newFleet(t, documents)
	f.startWorkers(4)
	enqueue := f.enqueueAndWait()
	f.until("a fifth has been begun", time.Minute, func(s seen) bool { return s.All.Arrived > f.runs/5 && s.All.InFlight == fleetLimit })
	f.workers[0].signal(syscall.SIGKILL)
	killed := time.Now()
	f.until("the killed worker's calls are gone", 5*time.Second, func(s seen) bool { return s.All.InFlight < fleetLimit })
	full := f.until("all slots are in use again", 12*time.Second, func(s seen) bool { return s.All.InFlight == fleetLimit })
	t.Logf("all slots in use again after %s", full.At.Sub(killed).Round(time.Millisecond))
	again := f.until("the killed worker's runs were begun again", 30*time.Second-time.Since(killed), func(s seen) bool { return s.All.Retaken > 0 })
	t.Logf("its runs were begun again after %s", again.At.Sub(killed).Round(time.Millisecond))
	f.until("every run was begun", 5*time.Minute, func(s seen) bool { return s.All.Arrived >= f.runs })
	if code := enqueue.wait(time.Minute); code != 0 {
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

// TestFleetSurvivesFlush: Redis forgets everything in the middle. Whoever waits
// submits the evaluation again, and what is in the sink is not asked again.
func TestFleetSurvivesFlush(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 12) // 264 runs
	f.startWorkers(2)
	enqueue := f.enqueueAndWait()
	before := f.until("half has been begun", time.Minute, func(s seen) bool { return s.All.Arrived > f.runs/2 })
	if err := f.redis.Client().FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if code := enqueue.wait(2 * time.Minute); code != 0 {
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
