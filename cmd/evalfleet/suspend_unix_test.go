//go:build unix

package main

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/internal/testing/testsleep"
)

// TestSuspendedWorkerSendsNothingLate: a worker's machine is suspended, and Go's clock with it,
// while its calls wait for their handshakes. Another worker takes over all slots meanwhile. The
// handshakes end as the machine continues, and no call of before is sent.
func TestSuspendedWorkerSendsNothingLate(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	f := newFleetOverHTTP2(t, "--latency", "6s")
	network := newWire(t, f.provider)
	settings := "providers: {simulator: {base_url: %q}}\nconcurrency: {lease: %s}\n"
	f.write("laptop.yaml", fmt.Sprintf(settings, "https://"+network.listener.Addr().String()+"/v1", "2s"))
	f.write("fleet.yaml", fmt.Sprintf(settings, f.provider+"/v1", "2m"))
	f.trustRedis()
	f.compare(4)
	network.cut()
	laptop := f.program("worker", "--config", "laptop.yaml")
	enqueue := f.enqueueAndWait()
	testrun.Eventually(t, "the calls wait for their handshakes", func() bool { return network.connections() >= fleetLimit })

	wake, err := testsleep.Suspend(laptop.cmd.Process.Pid)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("a process cannot be suspended here")
	}
	if err != nil {
		t.Fatal(err)
	}
	f.startWorkers(1)
	f.until("the other worker has every slot", func(s seen) bool { return s.All.MaxInFlight == fleetLimit })
	network.mend()
	if err := wake(); err != nil {
		t.Fatal(err)
	}
	outlast(t, time.Second)
	if code := enqueue.wait(); code != 0 {
		t.Fatalf("enqueue --wait ended with %d", code)
	}

	f.wantRowsOnce()
	end := f.stats()
	f.wantNeverOver(end)
	t.Logf("%d calls for %d runs, at most %d in flight", end.All.Arrived, f.runs, end.All.MaxInFlight)
}
