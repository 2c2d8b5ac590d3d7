//go:build unix

package main

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFrozenWorkerComesBack: a worker stands still for 20 s, in which others take
// its slots and runs over, and then goes on. Nothing is recorded twice, and only
// what was in flight is called again.
func TestFrozenWorkerComesBack(t *testing.T) {
	documents := 24 // 1,104 runs: about 35 s of work
	if *fullFleet {
		documents = 32
	}
	f := newFleet(t, documents)
	f.startWorkers(4)
	enqueue := f.enqueueAndWait()
	f.until("a tenth has been begun", time.Minute, func(s seen) bool { return s.All.Arrived > f.runs/10 && s.All.InFlight == fleetLimit })
	frozen := f.workers[0]
	frozen.signal(syscall.SIGSTOP)
	time.Sleep(20 * time.Second)
	frozen.signal(syscall.SIGCONT)
	if code := enqueue.wait(5 * time.Minute); code != 0 {
		t.Fatalf("enqueue --wait ended with %d", code)
	}
	f.wantRowsOnce()
	end := f.stats()
	t.Logf("%d calls for %d runs, at most %d in flight", end.All.Arrived, f.runs, end.All.MaxInFlight)
	f.wantNeverOver(end)
	if end.All.Arrived > f.runs+fleetLimit {
		t.Errorf("%d calls for %d runs: more than those in flight were made again", end.All.Arrived, f.runs)
	}
	for _, line := range strings.Split(frozen.stderr.String(), "\n") {
		if strings.Contains(line, `"queue"`) && strings.Contains(line, `"warn"`) && !strings.Contains(line, "returned the tasks") {
			t.Errorf("asynq warned: %s", line)
		}
	}
}
