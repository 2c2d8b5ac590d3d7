//go:build unix

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testrun"
)

// In a Redis that is full of results that no command has collected, everything works that stops
// an evaluation or makes room, and every result is still there to be collected.
func TestFullRedisLetsPeopleOut(t *testing.T) {
	t.Parallel()
	f := newFleetWith(t, "--latency", "10ms")
	f.write("fleet.yaml", "providers: {simulator: {base_url: \""+f.provider+"/v1\"}}\n")
	f.compare(4)
	kept := f.evaluation("kept", "simulator:careful", fleetLimit, 1000)
	deleted := f.evaluation("deleted", "simulator:average", fleetLimit, 1000)
	steered := f.evaluation("steered", "simulator:careful, simulator:average", fleetLimit, 900)
	dropped := f.evaluation("dropped", "simulator:average", fleetLimit, 800)
	enqueue := func(file string) string {
		return lastLine(f.onFleet(exitOK, "enqueue", file, "--config", "fleet.yaml").stdout.String())
	}
	f.startWorkers(1)
	first, second := enqueue(kept), enqueue(deleted)
	for _, id := range []string{first, second} {
		testrun.EventuallyGot(t, "every result waits to be collected", func() (string, bool) {
			now := f.statuses()[eval.ID(id)]
			return fmt.Sprintf("%+v", now), now.Uncollected == 12
		})
	}
	f.workers[0].signal(syscall.SIGTERM)
	f.workers[0].wait()
	third, fourth := enqueue(steered), enqueue(dropped)

	if err := f.redis.Client().ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"status"}, {"limits"},
		{"pause", third}, {"resume", third}, {"pause", third}, {"cancel", third, "--force"},
		{"cancel", fourth, "--force"}, {"delete", fourth, "--force"}, {"delete", second, "--force"},
		{"collect", first, "--out-dir", "out"},
	} {
		p := launch(t, f.dir, append(args, "--redis", f.redis.URL())...)
		if code := p.wait(); code != 0 {
			t.Errorf("evalfleet %s in a full Redis: exit code %d, %s", strings.Join(args, " "), code, p.stderr.String())
		}
	}
	if rows := rowsOf(t, filepath.Join(f.dir, "out"), "SELECT id FROM pairwise_results"); len(rows) != 12 {
		t.Errorf("%d results were collected, want 12", len(rows))
	}
	if got := f.stats().All.Answered; got != 24 {
		t.Errorf("%d calls answered, want 24", got)
	}
}
