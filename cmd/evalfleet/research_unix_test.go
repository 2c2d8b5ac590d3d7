//go:build unix

package main

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// TestDeepResearchOutlivesAKill: the worker that began a job is killed, another one continues
// the same job, and no run has been submitted twice.
func TestDeepResearchOutlivesAKill(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	const researcher = "o3-deep-research"
	f := &testFleet{t: t, dir: t.TempDir(), redis: redistest.NewTCP(t)}
	f.write("simulator.json", fmt.Sprintf(`{"models": {%q: {"behaviour": {"latency": "3s"}}, "gpt-4.1-mini": {}}}`, researcher))
	f.simulate("--settings", "simulator.json")
	f.documents(2)
	f.write(".env", "OPENAI_API_KEY=any\n")
	calls := newTurnstile(t, f.provider)
	calls.allow(1) // the job is begun, and nobody asks for its end
	f.write("fleet.yaml", fmt.Sprintf(`providers: {openaidp: {base_url: "%[1]s/v1"}, openai: {base_url: "%[1]s/v1"}}
`, calls.URL))
	f.write("evaluation.yaml", fmt.Sprintf(`documents: ["docs/*.md"]
judges: [openaidp:%s]
pairwise: {pairs: all, order: both}
jsonify: {provider: openai, model: gpt-4.1-mini}
concurrency: {per_provider: {openaidp: {max_concurrency: 1}}}
`, researcher))

	submission := launch(t, f.dir, "enqueue", "evaluation.yaml", "--wait", "--redis", f.redis.URL(), "--config", "fleet.yaml", "--out-dir", "out")
	f.startWorkers(1)
	client := f.redis.Client()
	f.until("a job was begun", func(seen) bool { return client.HLen(t.Context(), "{ef}:background").Val() > 0 })
	f.workers[0].signal(syscall.SIGKILL)
	f.workers[0].wait()
	calls.open()
	f.startWorkers(1)

	if code := submission.wait(); code != 0 {
		t.Errorf("it ended with %d, want 0", code)
	}
	if got := f.counts().Models[researcher]; got.Submitted != 2 || got.MaxInFlight != 1 || got.Answered != 2 {
		t.Errorf("%d jobs submitted, %d at once, %d answered; want 2 for 2 runs, one at a time", got.Submitted, got.MaxInFlight, got.Answered)
	}
}
