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
	{"Redis is full", onRedis(func(c *chaos) func() {
		limit := func(bytes string) {
			c.onRedis(func(ctx context.Context, r *redis.Client) error { return r.ConfigSet(ctx, "maxmemory", bytes).Err() })
		}
		limit("1")
		return func() { limit("0") }
	})},
	{"Redis's rules forbid writes", onRedis(forbid("@write"))},
	{"Redis's rules forbid scripts", onRedis(forbid("@scripting"))},
	{"Redis demands a password", onRedis(func(c *chaos) func() {
		const password = "secret"
		c.onRedis(func(ctx context.Context, r *redis.Client) error {
			if err := r.ConfigSet(ctx, "requirepass", password).Err(); err != nil {
				return err
			}
			return r.Do(ctx, "client", "kill", "type", "normal", "skipme", "yes").Err()
		})
		return func() {
			client := c.redis.Client(func(o *redis.Options) { o.Password = password })
			defer client.Close()
			if err := client.ConfigSet(c.t.Context(), "requirepass", "").Err(); err != nil {
				c.t.Fatal(err)
			}
		}
	})},
	{"a queue is paused in asynqmon", onRedis(func(c *chaos) func() {
		queues := func(change func(*asynq.Inspector) error) {
			c.onRedis(func(_ context.Context, r *redis.Client) error { return change(asynq.NewInspectorFromRedisClient(r)) })
		}
		queues(func(i *asynq.Inspector) error { return i.PauseQueue("simulator") })
		return func() { queues(func(i *asynq.Inspector) error { return i.UnpauseQueue("simulator") }) }
	})},
	{"a worker has few descriptors", onMember(isWorker, fewDescriptors)},
}

// forbid takes a category of commands from the user of all processes.
func forbid(category string) func(*chaos) (end func()) {
	return func(c *chaos) func() {
		rule := func(rule string) {
			c.onRedis(func(ctx context.Context, r *redis.Client) error {
				return r.Do(ctx, "acl", "setuser", "default", rule).Err()
			})
		}
		rule("-" + category)
		return func() { rule("+" + category) }
	}
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
