//go:build unix

package main

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/testrun"
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
	zone := "UTC"
	if hour := time.Now().UTC().Hour(); hour < 6 || hour >= 18 {
		zone = "Etc/GMT+12" // whose midnight is far
	}
	f.write("evaluation.yaml", fmt.Sprintf(`documents: ["docs/*.md"]
judges: [local:careful]
pairwise: {pairs: all, order: both}
providers: {local: {base_url: "%s/v1"}}
concurrency: {per_provider: {local: {requests_per_day: %d, day_resets: %q}}}
`, f.provider, quota, zone))
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
