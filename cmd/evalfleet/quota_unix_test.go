//go:build unix

package main

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// TestDailyQuotaOutlivesTheRun: what a run called today counts for the next one
// in its folder, although each brings a Redis of its own.
func TestDailyQuotaOutlivesTheRun(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	const quota = 5
	f := &testFleet{t: t, dir: t.TempDir()}
	f.simulate()
	f.documents(6) // 30 runs
	f.write("evaluation.yaml", fmt.Sprintf(`documents: ["docs/*.md"]
judges: [local:careful]
pairwise: {pairs: all, order: both}
providers: {local: {base_url: "%s/v1"}}
concurrency: {per_provider: {local: {requests_per_day: %d, day_resets: %q}}}
`, f.provider, quota, farFromMidnight()))
	run := func() {
		p := launch(t, f.dir, "run", "evaluation.yaml", "--out-dir", filepath.Join(f.dir, "out"))
		f.until("the quota is used", func(s seen) bool { return s.All.Arrived >= quota })
		outlast(t, time.Second) // in which more would come
		p.signal(syscall.SIGINT)
		if code := p.wait(); code != 130 {
			t.Fatalf("interrupted run ended with %d, want 130", code)
		}
	}
	run()
	run()
	if got := f.stats().All.Arrived; got != quota {
		t.Errorf("the simulator saw %d calls in a day, want %d", got, quota)
	}
}

// farFromMidnight returns a zone whose midnight is hours away.
func farFromMidnight() string {
	if hour := time.Now().UTC().Hour(); hour < 6 || hour >= 18 {
		return "Etc/GMT+12"
	}
	return "UTC"
}

// daily writes an evaluation of 90 runs under a daily quota; providers is a line of the file.
func (f *testFleet) daily(judge string, quota int, providers string) {
	f.t.Helper()
	f.documents(10)
	f.write("evaluation.yaml", fmt.Sprintf(`documents: ["docs/*.md"]
judges: ["%s:careful"]
pairwise: {pairs: all, order: both}
concurrency: {max_concurrency: 20, per_provider: {%s: {requests_per_day: %d, day_resets: %q}}}
%s
`, judge, judge, quota, farFromMidnight(), providers))
}

// Calls that were in flight when a run was killed count for the next one in its folder: they are
// in no results store.
func TestDailyQuotaOutlivesAKill(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	const quota = 10
	f := &testFleet{t: t, dir: t.TempDir()}
	f.simulate("--latency", "2s")
	f.daily("local", quota, fmt.Sprintf(`providers: {local: {base_url: "%s/v1"}}`, f.provider))
	for range 3 {
		p := launch(t, f.dir, "run", "evaluation.yaml", "--out-dir", filepath.Join(f.dir, "out"))
		f.until("the quota is used", func(s seen) bool { return s.All.Arrived >= quota })
		outlast(t, 1500*time.Millisecond) // in which more would come, and none has an answer of the first
		p.signal(syscall.SIGKILL)
		p.wait()
	}
	if got := f.stats().All.Arrived; got != quota {
		t.Errorf("the simulator saw %d calls in a day, want %d", got, quota)
	}
}

// Redis is flushed when a daily quota is used up. Submissions that name no results store, or a new
// one, do not open it again, whether the workers are the same or new.
func TestDailyQuotaOutlivesAFlush(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	const quota = 10
	f := newFleetWith(t, "--latency", "20ms")
	f.priced(f.provider, lapses)
	f.daily("simulator", quota, "")
	f.startWorkers(2)
	f.onFleet(0, "enqueue", "evaluation.yaml", "--out-dir", "out")
	f.until("the quota is used", func(s seen) bool { return s.All.Arrived >= quota })

	client := f.redis.Client()
	limits := ratelimit.NewAdmin(client, ratelimit.Config{})
	for i, workers := range []string{"the same", "new"} {
		if workers == "new" {
			for _, p := range f.workers {
				p.signal(syscall.SIGKILL)
				p.wait()
			}
			f.startWorkers(2)
		}
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("again-%d", i)
		f.onFleet(0, "enqueue", "evaluation.yaml", "--again", name, "--out-dir", name)
		testrun.EventuallyGot(t, "the grace period has ended", func() (string, bool) {
			memory, grace, err := limits.Memory(t.Context())
			return fmt.Sprint(memory, grace, err), memory != "" && grace <= 0
		})
		waiting := f.program("enqueue", "evaluation.yaml", "--again", name+"-waiting", "--wait", "--out-dir", name+"-waiting")
		outlast(t, 3*time.Second) // in which more would come
		if got := f.stats().All.Arrived; got != quota {
			t.Errorf("with workers that are %s, the simulator saw %d calls in a day, want %d", workers, got, quota)
		}
		waiting.signal(syscall.SIGINT)
		waiting.wait()
	}
}
