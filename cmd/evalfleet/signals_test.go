//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// The first signal lets calls in flight finish, the second does not wait for
// them.
func TestSecondSignalStopsAtOnce(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"docs/a.md": "Alpha.", "docs/b.md": "Beta.", "eval.yaml": goodFile})
	simulator := launch(t, dir, "simulate", "--listen", "127.0.0.1:0", "--hang-rate", "1")
	url := simulator.line()
	fleet := filepath.Join(dir, "fleet.yaml")
	if err := os.WriteFile(fleet, []byte("providers: {simulator: {base_url: \""+url+"/v1\"}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := launch(t, dir, "run", "eval.yaml", "--config", fleet, "--out-dir", "out", "--grace", "10m")
	testrun.EventuallyGot(t, "a call is in flight", func() (string, bool) {
		events, _ := os.ReadFile(filepath.Join(dir, "out", "events.jsonl"))
		return string(events), strings.Contains(string(events), `"acquired"`)
	})
	run.signal(syscall.SIGINT)
	select {
	case <-run.ended:
		t.Fatal("the first signal did not let the call in flight finish")
	case <-time.After(500 * time.Millisecond):
	}
	run.signal(syscall.SIGTERM)
	if code := run.wait(); code != int(exitInterrupted) {
		t.Errorf("exit code: got %d, want %d", code, exitInterrupted)
	}
}
