//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// previousRelease is the commit of the release before this one. Until there is one, it
// is the commit before Redis's formats changed last.
const previousRelease = "464475b08f3c3a362bc88b08785e366e1da49f4e"

// previous returns the path of the previous release's program, built once, or skips
// the test where its commit is not in the clone.
func previous(t *testing.T) string {
	t.Helper()
	if err := exec.Command("git", "cat-file", "-e", previousRelease+"^{commit}").Run(); err != nil {
		t.Skipf("NOT TESTED beside the previous release: this is no git clone with its commit %s (%v)", previousRelease, err)
	}
	path, err := buildPrevious()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var buildPrevious = sync.OnceValues(func() (string, error) {
	current, err := binary()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(filepath.Dir(current), "previous")
	path := filepath.Join(dir, programName)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	archive := exec.Command("sh", "-ec", `git -C "$(git rev-parse --show-toplevel)" archive "$0" | tar -x -C "$1"`, previousRelease, dir)
	if out, err := archive.CombinedOutput(); err != nil {
		return "", &buildError{err, out}
	}
	// As the Dockerfile builds it: what check-deploy has compiled serves in this folder, too.
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", path, "./cmd/evalfleet")
	build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", &buildError{err, out}
	}
	return path, nil
})

// buildError is a build that failed, with what was printed.
type buildError struct {
	err error
	out []byte
}

func (e *buildError) Error() string { return e.err.Error() + ": " + string(e.out) }

// TestFleetOfTwoVersions: programs of this release and of the previous one work on one
// evaluation, at once or one after the other, submitted by either of them. Every run is
// recorded once, the limit is kept, and no call is made twice unless its worker was
// killed.
func TestFleetOfTwoVersions(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	before := previous(t)
	now, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name          string
		submitter     string
		first, second []string // workers; the second replace the first in the middle
		dies          bool     // the first of them is killed, not stopped
		queue         string   // of a model with a limit of its own, as its submitter calls it; empty: it has none; or byCriteria
		blind         bool     // which the old cannot work on, and leave to the new
	}{
		{"the old submits, both work", before, []string{before, now, before, now}, nil, false, "", false},
		{"the new submits, both work", now, []string{before, now, before, now}, nil, false, "", false},
		{"the old submits, the new work", before, []string{now, now}, nil, false, "", false},
		{"the new submits, the old work", now, []string{before, before}, nil, false, "", false},
		{"the old submits, workers are upgraded", before, []string{before, before}, []string{now, now}, false, "", false},
		{"the new submits, workers are downgraded", now, []string{now, now}, []string{before, before}, false, "", false},
		{"an old worker dies", now, []string{before, before}, []string{now, now}, true, "", false},
		{"a new worker dies", before, []string{now, now}, []string{before, before}, true, "", false},
		{"the old names the queues, workers are upgraded", before, []string{before, now}, []string{now, now}, false, "simulator-careful", false},
		{"the new names the queues, workers are downgraded", now, []string{now, before}, []string{before, before}, false, "simulator:careful", false},
		{"the new submits a blind one, both work", now, []string{before, now, before}, nil, false, "", true},
		{"the new asks for criteria, both work", now, []string{before, now, before}, nil, false, byCriteria, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			settings := calm
			if c.dies {
				settings = lapses
			}
			f := newFleet(t, 8, settings) // 112 runs
			if c.queue == byCriteria {
				f.askByCriteria()
			} else if c.queue != "" {
				f.file = f.limitModel("careful", fleetLimit/2)
			}
			if c.submitter == now && !c.blind {
				f.nameDocuments()
			}

			worker := func(path string) *program { return f.programBy(path, "worker", "--config", "fleet.yaml") }
			for _, path := range c.first {
				f.workers = append(f.workers, worker(path))
			}
			submitted := f.programBy(c.submitter, "enqueue", f.file, "--wait", "--out-dir", "out", "--config", "fleet.yaml")

			again := 0
			for i, path := range c.second {
				f.until("the next part has been begun", func(s seen) bool { return s.All.Arrived >= f.runs*(i+1)/4 })
				worker(path)
				if c.dies && i == 0 {
					f.workers[i].signal(syscall.SIGKILL)
					again = fleetLimit
					continue
				}
				f.workers[i].signal(syscall.SIGTERM)
				want := exitOK
				if c.first[i] == before {
					want = exitInterrupted
				}
				if code := exit(f.workers[i].wait()); code != want {
					t.Errorf("a worker that was stopped ended with %d, want %d", code, want)
				}
			}

			if queues := f.redis.Client().SMembers(t.Context(), "asynq:queues").Val(); c.queue != "" && c.queue != byCriteria && !slices.Contains(queues, c.queue) {
				t.Errorf("queues %v, want %s", queues, c.queue)
			}
			if code := submitted.wait(); code != int(exitOK) {
				t.Fatalf("enqueue --wait ended with %d", code)
			}
			f.wantRowsOnce()
			end := f.stats()
			f.wantNeverOver(end)
			if end.All.Arrived > f.runs+again {
				t.Errorf("%d calls for %d runs, want at most %d made again", end.All.Arrived, f.runs, again)
			}
		})
	}
}

// TestLimitsOfTheNextVersion: while a program of a later version has registered limits
// that this release does not know, no call begins; also beside the previous release, which
// passes over unknown fields, but not over unknown kinds. Once they are gone, the
// evaluation is completed.
func TestLimitsOfTheNextVersion(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	before := previous(t)
	now, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		limits  string
		workers []string
	}{
		"an unknown kind":  {`[{"kind":"watts","max":1000}]`, []string{before, now}},
		"an unknown field": {`[{"kind":"concurrency","max":1000,"region":"eu"}]`, []string{now, now}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 8, calm) // 112 runs
			f.nameDocuments()
			for _, path := range c.workers {
				f.programBy(path, "worker", "--config", "fleet.yaml")
			}
			submitted := f.programBy(now, "enqueue", f.file, "--wait", "--out-dir", "out", "--config", "fleet.yaml")
			f.until("a quarter has been begun", func(s seen) bool { return s.All.Arrived >= f.runs/4 })
			registry := func(change func(redis.Pipeliner)) {
				t.Helper()
				pipe := f.redis.Client().TxPipeline()
				change(pipe)
				pipe.HIncrBy(t.Context(), "{ef}:limits", "version", 1)
				if _, err := pipe.Exec(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			registry(func(pipe redis.Pipeliner) { pipe.HSet(t.Context(), "{ef}:limits", "ev-aaaaaaaaaaaa", c.limits) })
			pinned := f.stats().All.Arrived
			since, last := time.Now(), -1
			quiet := f.until("no call begins for two seconds", func(s seen) bool {
				if s.All.Arrived != last || s.All.InFlight > 0 {
					since, last = time.Now(), s.All.Arrived
				}
				return time.Since(since) > 2*time.Second
			})
			if begun := quiet.All.Arrived - pinned; begun > fleetLimit { // more than had been admitted
				t.Errorf("%d calls began beside the limits, want at most %d", begun, fleetLimit)
			}
			registry(func(pipe redis.Pipeliner) { pipe.HDel(t.Context(), "{ef}:limits", "ev-aaaaaaaaaaaa") })
			if code := submitted.wait(); code != int(exitOK) {
				t.Fatalf("enqueue --wait ended with %d", code)
			}
			f.wantRowsOnce()
			end := f.stats()
			f.wantNeverOver(end)
			if end.All.Arrived != f.runs {
				t.Errorf("%d calls for %d runs", end.All.Arrived, f.runs)
			}
		})
	}
}

// byCriteria marks an evaluation that asks by criterion and degree, which the old version does not know.
const byCriteria = "by criteria"

// askByCriteria makes judges compare by criterion, too.
func (f *testFleet) askByCriteria() {
	text, err := os.ReadFile(f.file)
	if err != nil || !strings.Contains(string(text), "pairwise: {") {
		f.t.Fatalf("%v, or no pairwise in %s", err, text)
	}
	f.write(filepath.Base(f.file), strings.Replace(string(text), "pairwise: {", "pairwise: {criteria: [accuracy], scale: 5, ", 1))
}

// nameDocuments has judges see the documents' ids, as they did before they were blind.
func (f *testFleet) nameDocuments() {
	text, err := os.ReadFile(f.file)
	if err != nil {
		f.t.Fatal(err)
	}
	f.write(filepath.Base(f.file), string(text)+"blind: false\n")
}

// limitModel writes the evaluation of compare anew, with a limit for one of its models.
func (f *testFleet) limitModel(model string, most int) (path string) {
	return f.write("limited.yaml", fmt.Sprintf(`name: limited
documents: ["docs/*.md"]
judges: [simulator:careful, simulator:average]
pairwise: {pairs: all, order: both}
concurrency: {max_concurrency: 1000, per_provider: {simulator: {max_concurrency: %d, models: {%s: {max_concurrency: %d}}}}}
`, fleetLimit, model, most))
}
