//go:build unix

package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/evalfleet/evalfleet/controller"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/internal/testrun"
)

// Two controllers of one fleet do no harm, and one does the other's work when it is
// gone: what is in Redis is asked for by /scale before any worker is there, what a
// killed worker held is done by another, and every result is drained once.
func TestControllersKeepAFleet(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	f := newFleet(t, 8) // 112 runs
	var controllers []*program
	var addresses []string
	for range 2 {
		address := freeAddress(t)
		addresses = append(addresses, address)
		controllers = append(controllers, launch(t, f.dir, "controller", "--redis", f.redis.URL(), "--listen", "127.0.0.1:0", "--metrics-addr", address))
	}
	id := strings.TrimSpace(f.onFleet(exitOK, "enqueue", f.file, "--config", "fleet.yaml").stdout.String())
	for _, address := range addresses {
		if got := f.scale(address); got.Desired != fleetLimit {
			t.Errorf("before any worker is up /scale says %d calls at once, want %d", got.Desired, fleetLimit)
		}
	}
	f.startWorkers(1)
	f.until("30 calls were made", func(s seen) bool { return s.All.Arrived > 30 })
	f.workers[0].signal(syscall.SIGKILL)
	controllers[0].signal(syscall.SIGKILL)
	f.startWorkers(1)
	f.until("all is done and drained", func(seen) bool {
		now := f.standing()
		return now.Status == record.StatusDone && now.Uncollected == 0
	})
	f.wantNeverOver(f.stats())
	if failed := f.wantRows(defaultFolder("pairs", eval.ID(id)), f.runs); failed != 0 {
		t.Errorf("%d runs failed", failed)
	}
	if got := f.scale(addresses[1]); got.Desired != 0 {
		t.Errorf("after the end /scale says %d calls at once, want 0", got.Desired)
	}
	if metrics := scrape(t, addresses[1]); !strings.Contains(metrics, "evalfleet_redis_up 1") || !strings.Contains(metrics, "evalfleet_results_undrained 0") {
		t.Errorf("metrics:\n%s", metrics)
	}
	eventuallySays(t, controllers[1], "/", "pairs")
	controllers[1].signal(syscall.SIGTERM)
	if code := controllers[1].wait(); code != int(exitOK) {
		t.Errorf("stopped, a controller ends with %d, want %d", code, exitOK)
	}
}

// scale is what a controller says, once it listens.
func (f *fleet) scale(address string) (said controller.Scale) {
	f.t.Helper()
	testrun.EventuallyGot(f.t, "the controller answers", func() (string, bool) {
		err := getJSON(f.t.Context(), "http://"+address+"/scale", &said)
		return fmt.Sprint(err), err == nil
	})
	return said
}
