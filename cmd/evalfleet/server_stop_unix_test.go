//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// A client that waits at a server is told why an evaluation stopped and gets the files so
// far, whether a key is refused or the budget is spent; submitted again after the cause is
// gone, the evaluation ends.
func TestWaitAtAServerEndsWhenTheFleetStops(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	server, err := simulator.Listen("127.0.0.1:0", simulator.Config{Keys: []string{"right"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	f := &testFleet{t: t, dir: t.TempDir(), provider: server.URL, redis: redistest.NewTCP(t)}
	f.write("fleet.yaml", fmt.Sprintf("providers: {locked: {base_url: %q, api_key_env: LOCKED_KEY}}\nprices: {\"locked:*\": {input: 1000, output: 1000}}\n", server.URL+"/v1"))
	f.documents(2)
	f.write("locked.yaml", "documents: [\"docs/*.md\"]\njudges: [\"locked:careful\"]\npairwise: {}\n")
	budget := func(usd float64) {
		f.write("budget.yaml", fmt.Sprintf("documents: [\"docs/*.md\"]\njudges: [\"locked:careful\"]\npairwise: {trials: 2}\nbudget: {usd: %v}\n", usd))
	}
	budget(2)
	controller := launch(t, f.dir, "controller", "--redis", f.redis.URL(), "--config", "fleet.yaml", "--listen", "127.0.0.1:0", "--allow-actions")
	url := controller.line()
	work := func(key string) *program {
		f.keys(key)
		return f.program("worker", "--config", "fleet.yaml")
	}
	wait := func(name string, code exit, says string) {
		t.Helper()
		p := f.do(code, "enqueue", name+".yaml", "--server", url, "--wait", "--out-dir", name)
		if said := p.stderr.String(); !strings.Contains(said, says) {
			t.Errorf("%s: enqueue --wait said\n%swant %q", name, said, says)
		}
		if _, err := os.Stat(filepath.Join(f.dir, name, "manifest.json")); err != nil {
			t.Errorf("%s: %v, want the files so far", name, err)
		}
	}
	wrong := work("wrong")
	wait("locked", exitRunsFailed, "the evaluation has stopped: provider locked is paused, auth: ")
	wrong.signal(syscall.SIGTERM)
	wrong.wait()
	work("right")
	wait("locked", exitOK, "2 of 2 runs ended")
	wait("budget", exitRunsFailed, "the evaluation has stopped: its budget of $2.00 leaves no room for another call")
	budget(1000)
	wait("budget", exitOK, "4 of 4 runs ended")
}
