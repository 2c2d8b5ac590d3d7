package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// evalfleet is the program as its documentation describes a fleet: workers that share the
// limits of a fleet file, and one evaluation of pairs for each model.
type evalfleet struct{ program string }

func (evalfleet) name() string { return "evalfleet" }

func (p evalfleet) enqueue(ctx context.Context, e env) error {
	if err := os.WriteFile(filepath.Join(e.dir, "fleet.yaml"), []byte(fleetFile(e)), 0o600); err != nil {
		return err
	}
	for _, q := range e.job.Queues {
		if err := p.submit(ctx, e, q); err != nil {
			return err
		}
	}
	return nil
}

// submit enqueues the pairs of as many small documents as the runs of q need.
func (p evalfleet) submit(ctx context.Context, e env, q contenderQueue) error {
	dir := filepath.Join(e.dir, q.Model)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	documents := 2 + int(math.Sqrt(float64(q.Runs)))
	for i := range documents {
		name := filepath.Join(dir, fmt.Sprintf("%03d.md", i))
		if err := os.WriteFile(name, []byte("Text "+strconv.Itoa(i)+"."), 0o600); err != nil {
			return err
		}
	}
	command := exec.CommandContext(ctx, p.program, "enqueue", dir, "--judge", "witness:"+q.Model, "--limit", strconv.Itoa(q.Runs),
		"--max-concurrency", "100000", "--redis", e.redisURL(), "--config", filepath.Join(e.dir, "fleet.yaml"))
	command.Dir = e.dir
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("evalfleet enqueue: %w\n%s", err, out)
	}
	return nil
}

func (p evalfleet) worker(ctx context.Context, e env) (*exec.Cmd, error) {
	command := exec.CommandContext(ctx, p.program, "worker", "--redis", e.redisURL(), "--config", filepath.Join(e.dir, "fleet.yaml"),
		"--slots", strconv.Itoa(e.job.Concurrency*len(e.job.Queues)), "--metrics-addr", "off")
	command.Dir = e.dir
	return command, nil
}

// fleetFile configures the witness and the limits of its models.
func fleetFile(e env) string {
	var b strings.Builder
	fmt.Fprintf(&b, "providers:\n  witness: {dialect: chat, base_url: %q}\n", e.job.URL+"/v1")
	b.WriteString("concurrency:\n  per_provider:\n    witness:\n      models:\n")
	for _, q := range e.job.Queues {
		var limits []string
		if q.InFlight > 0 {
			limits = append(limits, fmt.Sprintf("max_concurrency: %d", q.InFlight))
		}
		if q.Max > 0 {
			limits = append(limits, fmt.Sprintf("requests_per_minute: %d, window: \"sliding:%dms\"", int64(q.Max)*60_000/q.WindowMS, q.WindowMS))
		}
		if q.Burst > 0 {
			limits = append(limits, fmt.Sprintf("rate_limit: {qps: %g, burst: %d}, window: bucket", q.Rate, q.Burst))
		}
		fmt.Fprintf(&b, "        %s: {%s}\n", q.Model, strings.Join(limits, ", "))
	}
	return b.String()
}
