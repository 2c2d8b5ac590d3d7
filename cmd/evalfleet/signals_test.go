//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The first signal lets calls in flight finish, the second does not wait for
// them.
func TestSecondSignalStopsAtOnce(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"docs/a.md": "Alpha.", "docs/b.md": "Beta.", "eval.yaml": goodFile})
	simulator := launch(t, dir, "simulate", "--listen", "127.0.0.1:0", "--hang-rate", "1")
	url := eventually(t, "the simulator's address", func() string {
		url, _, _ := strings.Cut(simulator.stdout.String(), "\n")
		return url
	})
	fleet := filepath.Join(dir, "fleet.yaml")
	if err := os.WriteFile(fleet, []byte("providers: {simulator: {base_url: \""+url+"/v1\"}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := launch(t, dir, "run", "eval.yaml", "--config", fleet, "--out-dir", "out", "--grace", "10m")
	eventually(t, "a call in flight", func() string {
		events, _ := os.ReadFile(filepath.Join(dir, "out", "events.jsonl"))
		_, acquired, _ := strings.Cut(string(events), `"acquired"`)
		return acquired
	})
	run.signal(syscall.SIGINT)
	select {
	case <-run.ended:
		t.Fatal("the first signal did not let the call in flight finish")
	case <-time.After(500 * time.Millisecond):
	}
	run.signal(syscall.SIGTERM)
	if code := run.wait(20 * time.Second); code != int(exitInterrupted) {
		t.Errorf("exit code: got %d, want %d", code, exitInterrupted)
	}
}

// eventually waits until find finds something.
func eventually(t *testing.T, what string, find func() string) string {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if found := find(); found != "" {
			return found
		}
	}
	t.Fatalf("waited 30s for %s", what)
	return ""
}
