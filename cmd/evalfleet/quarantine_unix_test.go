//go:build unix

package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/internal/view"
)

// A worker and a controller meet one record of a newer version, one that lists a panel
// that its evaluation does not have, and a task of a newer version. They stay alive,
// finish another evaluation that is submitted afterwards, and say what they leave alone.
func TestFleetLeavesUnreadableEvaluationsAlone(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	f := newFleetWith(t, "--latency", "20ms")
	f.configure(f.provider, calm)
	f.documents(5)
	address, err := redis.ParseURL(f.redis.URL())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(redistest.Patient(address))
	defer client.Close()
	keys := record.Keys{Namespace: record.DefaultNamespace}
	enqueue := func(name string) eval.ID {
		t.Helper()
		file := f.evaluation(name, "simulator:careful", 8, 1000)
		return eval.ID(strings.TrimSpace(f.onFleet(exitOK, "enqueue", file, "--config", "fleet.yaml").stdout.String()))
	}
	newer, panel := enqueue("newer"), enqueue("panel")
	const phases = `[{"kind":"panel","runs":20,"queues":{"simulator":20},"judge_queues":["simulator"]}]`
	if err := client.HSet(t.Context(), keys.Record(newer), "v", "9").Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.HSet(t.Context(), keys.Record(panel), "phases", phases).Err(); err != nil {
		t.Fatal(err)
	}
	future := asynq.NewTask("pairwise", []byte(`{"v":2,"evaluation":"`+string(newer)+`","phase":"final"}`))
	if _, err := asynq.NewClientFromRedisClient(client).Enqueue(future, asynq.Queue("simulator"), asynq.TaskID("future")); err != nil {
		t.Fatal(err)
	}

	metrics := testrun.FreeAddress(t)
	controller := launch(t, f.dir, "controller", "--redis", f.redis.URL(), "--listen", "127.0.0.1:0", "--metrics-addr", metrics)
	f.startWorkers(1)
	other := enqueue("other")

	testrun.Eventually(t, "the other evaluation is done and drained", func() bool {
		now := f.statuses()[other]
		return now.Status == record.StatusDone && now.Uncollected == 0
	})
	// A controller that leaves the queues to the worker reads all evaluations only for its
	// metrics.
	testrun.EventuallyGot(t, "metrics count two unreadable evaluations", func() (string, bool) {
		said := scrape(t, metrics)
		return said, strings.Contains(said, "evalfleet_evaluations_unreadable 2")
	})
	for _, id := range []eval.ID{newer, panel} {
		if line := f.statuses()[id]; line.Status != view.StatusUnreadable || line.Unreadable == "" {
			t.Errorf("status says of %s: %s %q, want that it is unreadable and why", id, line.Status, line.Unreadable)
		}
		for name, p := range map[string]*program{"worker": f.workers[0], "controller": controller} {
			testrun.EventuallyGot(t, "the "+name+"'s log to name "+string(id), func() (string, bool) {
				return p.stderr.String(), strings.Contains(p.stderr.String(), string(id))
			})
		}
	}
	if text := f.onFleet(exitOK, "status").stdout.String(); strings.Count(text, "unreadable") < 2 {
		t.Errorf("status says:\n%s", text)
	}
	task, err := asynq.NewInspectorFromRedisClient(client).GetTaskInfo("simulator", "future")
	if err != nil || task.State == asynq.TaskStateArchived {
		t.Errorf("the task of a newer version is %+v, %v; want it kept in its queue", task, err)
	}
	for _, p := range []*program{f.workers[0], controller} {
		p.signal(syscall.SIGTERM)
		if code := p.wait(); code != int(exitOK) {
			t.Errorf("stopped, it ends with %d, want %d", code, exitOK)
		}
	}
}
