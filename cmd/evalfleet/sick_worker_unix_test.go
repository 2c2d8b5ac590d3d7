//go:build unix

package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/testing/testproxy"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// TestSickWorkerJoinsAHealthyOne: a worker that cannot call the provider for a reason of its own joins one that can. It
// says so, no run fails, and nothing is paused.
func TestSickWorkerJoinsAHealthyOne(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	const dead = "http://127.0.0.1:1"
	for name, c := range map[string]struct {
		byName  bool     // the provider has a name that only a proxy knows
		command []string // in front of the program
		env     []string
	}{
		"few descriptors": {command: []string{"sh", "-c", `ulimit -n 32; exec "$0" "$@"`}},
		"dead proxy":      {byName: true, env: []string{"HTTP_PROXY=" + dead, "http_proxy=" + dead}},
		"broken names":    {byName: true, env: []string{"HTTP_PROXY=", "http_proxy="}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleetWith(t, "--latency", "300ms")
			f.compare(14) // 364 runs
			f.file = f.evaluation("pairs", "simulator:careful, simulator:average", 60, 1000)
			calls := f.gate()
			calls.allow(21)
			var proxy []string
			if c.byName {
				proxy = f.behindProxy(calls.URL)
			}
			path, err := binary()
			if err != nil {
				t.Fatal(err)
			}
			worker := func(slots string, env []string, command ...string) *program {
				args := []string{path, "worker", "--config", "fleet.yaml", "--slots", slots, "--redis", f.redis.URL()}
				args = slices.Concat(command, args)
				cmd := exec.Command(args[0], args[1:]...)
				cmd.Env = env
				return start(t, f.dir, cmd)
			}

			worker("8", proxy)
			enqueue := f.enqueueAndWait()
			f.until("the healthy worker has answers", func(s seen) bool { return s.All.Answered > 20 })
			sick := worker("40", c.env, c.command...)
			testrun.EventuallyGot(t, "the sick worker says that it cannot call the provider", func() (string, bool) {
				said := sick.stderr.String()
				return said, strings.Contains(said, "this worker cannot call provider simulator")
			})
			calls.open()
			if code := enqueue.wait(); code != 0 {
				t.Errorf("enqueue --wait ended with %d", code)
			}
			f.wantRowsOnce()
			if calls := f.stats().All.Arrived; calls > f.runs+40 { // the sick one may be cut off in the middle of its own
				t.Errorf("%d calls for %d runs", calls, f.runs)
			}
		})
	}
}

// behindProxy gives a provider a name that resolves nowhere, and returns the environment of a
// process that reaches it through a proxy.
func (f *testFleet) behindProxy(provider string) (env []string) {
	f.t.Helper()
	address := strings.TrimPrefix(provider, "http://")
	proxy := testproxy.New(f.t, testproxy.Config{Route: func(string) string { return address }})
	f.writeCalm(`providers: {simulator: {base_url: "http://provider.invalid/v1"}}` + "\n")
	return []string{"HTTP_PROXY=" + proxy.URL, "http_proxy=" + proxy.URL}
}
