//go:build unix

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
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
		if said := p.stdout.String(); args[0] == "limits" && !strings.Contains(said, "waiting for Redis, whose memory is full") {
			t.Errorf("limits in a full Redis do not say that it is:\n%s", said)
		}
	}
	if rows := rowsOf(t, filepath.Join(f.dir, "out"), "SELECT id FROM pairwise_results"); len(rows) != 12 {
		t.Errorf("%d results were collected, want 12", len(rows))
	}
	if got := f.stats().All.Answered; got != 24 {
		t.Errorf("%d calls answered, want 24", got)
	}
}

// enqueue --wait and limits name a queue that is paused in asynqmon, and --wait shows no pace.
func TestWaitingSaysThatAQueueIsPaused(t *testing.T) {
	t.Parallel()
	f := newFleetWith(t, "--latency", "10ms")
	f.write("fleet.yaml", "providers: {simulator: {base_url: \""+f.provider+"/v1\"}}\n")
	f.compare(4)
	file := f.evaluation("paused", "simulator:careful", fleetLimit, 1000)
	f.onFleet(exitOK, "enqueue", file, "--config", "fleet.yaml")
	client := f.redis.Client()
	queue := client.SMembers(t.Context(), "ef:queues").Val()[0]
	if err := client.Set(t.Context(), "asynq:{"+queue+"}:paused", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	f.startWorkers(1)

	said := "waiting for asynqmon, where queue " + queue + " is paused: resume it there"
	waits := launch(t, f.dir, "enqueue", file, "--config", "fleet.yaml", "--wait", "--redis", f.redis.URL())
	testrun.EventuallyGot(t, "enqueue --wait names the pause", func() (string, bool) {
		now := waits.stderr.String()
		return now, strings.Contains(now, "0/12 · "+said)
	})
	if limits := f.onFleet(exitOK, "limits").stdout.String(); !strings.Contains(strings.Join(strings.Fields(limits), " "), said) {
		t.Errorf("limits do not name the queue that is paused:\n%s", limits)
	}

	client.Del(t.Context(), "asynq:{"+queue+"}:paused")
	if code := waits.wait(); code != 0 {
		t.Errorf("exit code %d after the pause: %s", code, waits.stderr.String())
	}
}
