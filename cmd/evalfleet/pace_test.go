package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// TestCallsStartEvenly: workers share a rate without a burst, and calls arrive
// one by one.
func TestCallsStartEvenly(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	apart, runs, qps := 100*time.Millisecond, 11, "10"
	if *fullFleet {
		apart, runs, qps = 5*time.Second, 13, "0.2"
	}
	f := newFleetWith(t, "--keep-arrivals", "100", "--latency", sizedFleet("100ms", "1s"))
	f.write("fleet.yaml", fmt.Sprintf(`providers: {simulator: {base_url: %q}}
concurrency: {per_provider: {simulator: {rate_limit: {qps: %s, burst: 1}}}}
`, f.provider+"/v1", qps))
	f.documents(6)
	f.file = f.evaluation("pairs", "simulator:careful", 1000, 1000)
	f.startWorkers(3)
	if code := launch(t, f.dir, "enqueue", f.file, "--redis", f.redis.URL(), "--config", "fleet.yaml").wait(); code != 0 {
		t.Fatalf("enqueue ended with %d", code)
	}
	f.until("they have arrived", func(s seen) bool { return s.All.Arrived >= runs })
	var arrivals []struct {
		At time.Time `json:"at"`
	}
	f.get("/stats/arrivals", &arrivals)
	least := time.Hour
	for i, a := range arrivals[1:] {
		least = min(least, a.At.Sub(arrivals[i].At))
	}
	mean := arrivals[len(arrivals)-1].At.Sub(arrivals[0].At) / time.Duration(len(arrivals)-1)
	t.Logf("%d calls, on average %s apart, at least %s", len(arrivals), mean, least)
	// A request is late by what its machine keeps it, which is little of 5 s.
	late, most := apart/4, apart+apart/10
	if gaps := time.Duration(len(arrivals) - 1); *fullFleet && (least < apart-late || mean < apart-late/gaps || mean > most) {
		t.Errorf("calls arrive %s apart on average and at least %s, want %s", mean, least, apart)
	}
}

// TestDurationFollowsTheLimit: the same number of runs takes as many times as
// long as its limit is lower, beside each other on one account.
func TestDurationFollowsTheLimit(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	const latency = 200 * time.Millisecond
	documents := sizedFleet(5, 23) // 20 or 506 runs each
	f := newFleetWith(t, "--latency", latency.String())
	f.write("fleet.yaml", fmt.Sprintf(`providers: {simulator: {base_url: %q}}
concurrency: {per_provider: {simulator: {models: {careless: {max_concurrency: 1}, average: {max_concurrency: 5}, careful: {max_concurrency: 25}}}}}
`, f.provider+"/v1"))
	f.documents(documents)
	f.startWorkers(2)
	runs := documents * (documents - 1)
	limits := map[string]int{"careless": 1, "average": 5, "careful": 25}
	for model := range limits {
		f.evaluation(model, "simulator:"+model, 1000, 1000)
		launch(t, f.dir, "enqueue", model+".yaml", "--redis", f.redis.URL(), "--config", "fleet.yaml")
	}
	end := f.until("all were called", func(s seen) bool { return s.All.Arrived >= len(limits)*runs })
	for model, limit := range limits {
		counts := end.Models[model]
		// From the first to the last are all turns but one.
		ideal := time.Duration((runs+limit-1)/limit-1) * latency
		took := counts.LastArrival.Sub(counts.FirstArrival)
		t.Logf("limit %d: %d calls in %s, %.2f times the least", limit, counts.Arrived, took.Round(time.Millisecond), took.Seconds()/ideal.Seconds())
		if counts.MaxInFlight > limit || *fullFleet && (counts.MaxInFlight != limit || took < ideal-latency/10 || took > ideal+ideal/10) {
			t.Errorf("limit %d: %d in flight, and %s for %d runs; want at most %d, and %s or little more", limit, counts.MaxInFlight, took, runs, limit, ideal)
		}
	}
}

// TestDefaultLimitHolds: without a configured limit, 200 runs are called five at a time, by any
// number of workers.
func TestDefaultLimitHolds(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	f := newFleetWith(t, "--latency", "20ms")
	calls := f.gate()
	f.documents(20)
	f.runs = 200
	file := f.write("scores.yaml", `documents: ["docs/*.md"]
judges: ["simulator:careful"]
single: {criteria: [clarity], trials: 10}
`)
	f.startWorkers(4)
	enqueue := launch(t, f.dir, "enqueue", file, "--wait", "--redis", f.redis.URL(), "--out-dir", "out", "--config", "fleet.yaml")
	f.untilHeld(calls, 5)
	calls.open()
	if code := enqueue.wait(); code != 0 {
		t.Fatalf("enqueue --wait ended with %d", code)
	}
	if end := f.stats(); end.All.Arrived != f.runs || end.All.MaxInFlight > 5 {
		t.Errorf("%d calls, at most %d in flight; want %d and at most 5", end.All.Arrived, end.All.MaxInFlight, f.runs)
	}
}
