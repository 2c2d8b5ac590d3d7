package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
)

// bullMQ is BullMQ with the limiter of its workers and the global concurrency of its queues.
type bullMQ struct{ dir string }

func (bullMQ) name() string { return "BullMQ" }

func (p bullMQ) node(ctx context.Context, script string, j job) (*exec.Cmd, error) {
	raw, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, "node", filepath.Join(p.dir, script), string(raw)), nil
}

func (p bullMQ) enqueue(ctx context.Context, e env) error {
	command, err := p.node(ctx, "enqueue.mjs", e.job)
	if err != nil {
		return err
	}
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("bullmq: enqueue: %w\n%s", err, out)
	}
	return nil
}

func (p bullMQ) worker(ctx context.Context, e env) (*exec.Cmd, error) {
	return p.node(ctx, "worker.mjs", e.job)
}
