//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// refusingFaults let Redis, or a worker's machine, refuse what was allowed before.
var refusingFaults = []chaosFault{
	{"Redis is full", onRedis(fillUp)},
	{"Redis is full while nobody collects", onRedis(func(c *chaos) func() {
		wake := c.stop(freeze, func(m *member) bool { return !isWorker(m) })
		if wake == nil {
			return nil
		}
		empty := fillUp(c)
		return func() {
			empty()
			wake()
		}
	})},
	{"Redis's rules forbid writes", onRedis(forbid("@write"))},
	{"Redis's rules forbid scripts", onRedis(forbid("@scripting"))},
	{"Redis's password is changed", onRedis(changePassword)},
	{"a queue is paused in asynqmon", onRedis(func(c *chaos) func() {
		queues := func(change func(*asynq.Inspector) error) {
			c.onRedis(func(_ context.Context, r *redis.Client) error { return change(asynq.NewInspectorFromRedisClient(r)) })
		}
		queues(func(i *asynq.Inspector) error { return i.PauseQueue("simulator") })
		return func() { queues(func(i *asynq.Inspector) error { return i.UnpauseQueue("simulator") }) }
	})},
	{"a worker has few descriptors", onMember(isWorker, fewDescriptors)},
}

// fillUp lets Redis take no more than it has.
func fillUp(c *chaos) func() {
	limit := func(bytes string) {
		c.onRedis(func(ctx context.Context, r *redis.Client) error { return r.ConfigSet(ctx, "maxmemory", bytes).Err() })
	}
	limit("1")
	return func() { limit("0") }
}

// fewDescriptors lets a worker open no more files and connections than it has open. The end is nil
// where that cannot be done.
func fewDescriptors(c *chaos, m *member) (end func()) {
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", m.cmd.Process.Pid))
	prlimit, missing := exec.LookPath("prlimit")
	if err != nil || missing != nil {
		return nil
	}
	limit := func(files int) {
		of := []string{fmt.Sprintf("--pid=%d", m.cmd.Process.Pid), fmt.Sprintf("--nofile=%d:", files)}
		if out, err := exec.CommandContext(c.t.Context(), prlimit, of...).CombinedOutput(); err != nil && c.running(m) {
			c.t.Fatalf("prlimit: %v: %s", err, out)
		}
	}
	limit(len(open))
	return func() { limit(1024) }
}
