package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// BenchmarkMemory is what a worker process holds: without work, and with calls in
// flight.
func BenchmarkMemory(b *testing.B) {
	inFlight := sized(100, 1000)
	program := build(b)
	provider, address := simulated(b, time.Minute)
	for b.Loop() {
		f := newFleet(b, program)
		f.askAt(address, "simulator")
		process := f.startWorker("--slots", strconv.Itoa(inFlight), "--grace", "1ms")
		time.Sleep(sized(time.Second, 5*time.Second))
		b.ReportMetric(resident(b, process.Process.Pid), "MB-idle")
		b.ReportMetric(memory(b, process.Process.Pid, "RssAnon:"), "MB-idle-own")
		e, texts := pairs(b, 150)
		e.Judges = []eval.Judge{{Name: "simulator:" + model, Provider: "simulator", Model: model}}
		e.Normalize()
		submit(b, f.client, enqueue.Submission{Evaluation: e, Texts: texts})
		testrun.EventuallyGot(b, fmt.Sprintf("%d calls in flight", inFlight), func() (string, bool) {
			now := provider.Stats().All.InFlight
			return fmt.Sprint(now), now >= inFlight
		})
		time.Sleep(sized(time.Second, 5*time.Second))
		b.ReportMetric(resident(b, process.Process.Pid), "MB-calling")
		_ = process.Process.Kill()
		_ = process.Wait()
	}
	b.Logf("%d calls in flight, over HTTP", inFlight)
}

// resident is a process's memory in MB, with the pages of the program's file that the kernel has
// mapped: how many depends on what is in its cache.
func resident(b *testing.B, pid int) float64 {
	b.Helper()
	return memory(b, pid, "VmRSS:")
}

// memory is a line of a process's status, in MB.
func memory(b *testing.B, pid int, of string) float64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); fields[0] == of {
			kB, err := strconv.ParseFloat(fields[1], 64)
			if err != nil {
				b.Fatal(err)
			}
			return kB / 1000
		}
	}
	b.Fatalf("no %s in the status of process %d", of, pid)
	return 0
}
