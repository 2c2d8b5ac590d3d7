package main

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/redisx/dial"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// TestFleetWorkerIsSmall: one worker with 1,000 calls in flight holds at most
// 150 MB, and of the calls nothing is left afterwards: no goroutine, and no
// connection or other descriptor once idle ones have had their minute.
func TestFleetWorkerIsSmall(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	inFlight, call, documents, while := 100, 2*time.Second, 20, 2*time.Second
	if *fullFleet {
		inFlight, call, documents, while = 1000, 20*time.Second, 72, time.Minute
	}
	f := newFleetWith(t, "--latency", call.String())
	f.configure(f.provider, calm)
	var calls *turnstile
	if !*fullFleet {
		calls = f.gate()
	}
	f.documents(documents)
	f.runs = documents * (documents - 1)
	f.file = f.evaluation("pairs", "simulator:careful", inFlight, inFlight)
	metrics := testrun.FreeAddress(t)
	launch(t, f.dir, "worker", "--redis", f.redis.URL(), "--config", "fleet.yaml", "--metrics-addr", metrics, "--slots", strconv.Itoa(inFlight))
	enqueue := f.enqueueAndWait()

	var first seen
	if calls != nil {
		f.untilHeld(calls, inFlight)
	} else {
		first = f.until("all slots are in use", func(s seen) bool { return s.All.InFlight == inFlight })
	}
	calling := worn(t, metrics)
	for end := time.Now().Add(while); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		calling = calling.most(worn(t, metrics))
	}
	last := f.stats()
	busy := (last.All.InFlightSeconds - first.All.InFlightSeconds) / last.At.Sub(first.At).Seconds()
	if calls != nil {
		calls.open()
	}
	if code := enqueue.wait(); code != 0 {
		t.Fatalf("enqueue --wait ended with %d", code)
	}
	f.wantRowsOnce()
	if calls != nil {
		calls.CloseClientConnections() // idle ones would stay a minute
	}
	after := worn(t, metrics)
	testrun.EventuallyGot(t, "the worker holds no more than before", func() (string, bool) {
		after = worn(t, metrics)
		return fmt.Sprintf("%+v", after), !after.left()
	})
	t.Logf("%.0f of %d calls in flight for %s: at most %+v; afterwards %+v", busy, inFlight, while, calling, after)
	if *fullFleet && busy < float64(inFlight)*9/10 {
		t.Errorf("%.0f calls in flight on average, want about %d: the worker was not busy all the while", busy, inFlight)
	}
	if calling.descriptors < inFlight || calling.goroutines < inFlight {
		t.Errorf("%+v with %d calls in flight: that cannot be", calling, inFlight)
	}
	if calling.megabytes > 150 {
		t.Errorf("%.0f MB resident, want at most 150", calling.megabytes)
	}
}

// wear is what a process holds.
type wear struct {
	megabytes               float64
	goroutines, descriptors int
}

// left reports whether more is held than a worker with nothing to do has: its
// connections to Redis, on a busy machine as many as its pool has, and what
// serves a queue.
func (w wear) left() bool { return w.goroutines > 80 || w.descriptors > dial.PoolSize+20 }

func (w wear) most(other wear) wear {
	return wear{max(w.megabytes, other.megabytes), max(w.goroutines, other.goroutines), max(w.descriptors, other.descriptors)}
}

// worn asks a worker's metrics.
func worn(t *testing.T, address string) wear {
	t.Helper()
	said := scrape(t, address)
	gauge := func(name string) float64 {
		found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(said)
		if found == nil {
			t.Fatalf("no metric %s", name)
		}
		n, err := strconv.ParseFloat(found[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return wear{gauge("process_resident_memory_bytes") / 1e6, int(gauge("go_goroutines")), int(gauge("process_open_fds"))}
}
