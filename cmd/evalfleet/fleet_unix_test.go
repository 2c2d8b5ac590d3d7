//go:build unix

package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// counter is a proxy between workers and the simulator that counts callers.
type counter struct {
	*httptest.Server
	t *testing.T

	mu       sync.Mutex // guards all below
	arrived  map[string]int
	inFlight int
}

func newCounter(t *testing.T, provider string) *counter {
	t.Helper()
	upstream, err := url.Parse(provider)
	if err != nil {
		t.Fatal(err)
	}
	c := &counter{t: t, arrived: map[string]int{}}
	proxy := httputil.NewSingleHostReverseProxy(upstream)
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) } // the worker left
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.note(r.Header.Get("X-Client-Request-Id"), 1)
		defer c.note("", -1)
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(c.Close)
	return c
}

// note counts a call that arrives or ends. A call's id names the worker's
// session: another begins when leases could not be renewed in time.
func (c *counter) note(call string, inFlight int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inFlight += inFlight
	if call == "" {
		return
	}
	parts := strings.Split(call, "-")
	if len(parts) != 3 {
		c.t.Errorf("call id %q does not name a worker", call)
		return
	}
	c.arrived[parts[1]]++
}

// now is how many calls of each session have arrived and how many are in flight.
func (c *counter) now() (sessions map[string]int, inFlight int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sessions = map[string]int{}
	for session, n := range c.arrived {
		sessions[session] = n
	}
	return sessions, c.inFlight
}

// sentBy is how many calls the sessions of before have sent since.
func (c *counter) sentBy(before map[string]int) (sent int) {
	now, _ := c.now()
	for session, n := range before {
		sent += now[session] - n
	}
	return sent
}

// TestFrozenWorkerComesBack: a worker is frozen or is cut off, others take over its runs and its slots, and it
// continues. Nothing is recorded twice, only what was in flight is called again, and nothing is sent on a lease that
// has ended.
//
// Calls that end before the leases, calls that are held, and calls of a worker that can end them itself never exceed
// the limit. Otherwise it is exceeded by at most the calls that the frozen worker has in flight, and its leases are
// counted as lost.
func TestFrozenWorkerComesBack(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	for _, c := range []struct {
		name      string
		abandoned string
		call      [2]time.Duration // in part, at the whole size
		documents [2]int
		cut       bool // off from Redis, not frozen
		exact     bool
	}{
		{"calls shorter than a lease", "free", [2]time.Duration{time.Second, 5 * time.Second}, [2]int{8, 12}, false, true},
		{"longer calls that are held", "hold", [2]time.Duration{8 * time.Second, 30 * time.Second}, [2]int{4, 7}, false, true},
		{"longer calls that are free", "free", [2]time.Duration{8 * time.Second, 30 * time.Second}, [2]int{4, 7}, false, false},
		{"longer calls of one cut off", "free", [2]time.Duration{8 * time.Second, 30 * time.Second}, [2]int{4, 7}, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			lease, call, frozen, documents := 3*time.Second, c.call[0], 5*time.Second, c.documents[0]
			if *fullFleet {
				lease, call, frozen, documents = 10*time.Second, c.call[1], 20*time.Second, c.documents[1]
			}
			flags := []string{"--latency", call.String()}
			if c.exact {
				flags = append(flags, "--max-in-flight", strconv.Itoa(fleetLimit))
			}
			f := newFleetWith(t, flags...)
			f.documents(documents)
			f.runs = documents * (documents - 1) * 2
			f.file = f.evaluation("pairs", "simulator:careful, simulator:average", fleetLimit, 1000)
			settings := "providers: {simulator: {base_url: %q}}\nconcurrency: {lease: %s, abandoned_calls: %s, timeout_seconds: %d}\n"
			counter := newCounter(t, f.provider)
			timeout := int((call + 3*time.Second).Seconds())
			f.write("frozen.yaml", fmt.Sprintf(settings, counter.URL+"/v1", lease, c.abandoned, timeout))
			f.write("fleet.yaml", fmt.Sprintf(settings, f.provider+"/v1", time.Minute, c.abandoned, timeout))
			f.trustRedis()
			metrics := testrun.FreeAddress(t)
			wire := newWire(t, f.redis.URL())
			worker := launch(t, f.dir, "worker", "--redis", wire.url(), "--config", "frozen.yaml", "--metrics-addr", metrics, "--slots", "4")
			enqueue := f.enqueueAndWait()
			f.until("it has its share", func(s seen) bool { return s.All.InFlight == 4 })
			f.startWorkers(3)
			f.until("all slots are in use", func(s seen) bool { return s.All.InFlight == fleetLimit })

			if c.cut {
				wire.cut()
			} else {
				worker.signal(syscall.SIGSTOP)
			}
			_, own := counter.now()
			outlast(t, frozen)
			before, _ := counter.now()
			if c.cut {
				wire.mend()
			} else {
				worker.signal(syscall.SIGCONT)
			}
			if code := enqueue.wait(); code != 0 {
				t.Fatalf("enqueue --wait ended with %d", code)
			}

			f.wantRowsOnce()
			end := f.stats()
			lost := metric(t, metrics, "evalfleet_leases_lost_total")
			if metric(t, metrics, "evalfleet_worker_session_restarts_total") == 0 {
				t.Error("the worker does not count that it could not renew in time")
			}
			t.Logf("%d calls for %d runs, at most %d in flight; the frozen worker had %d, and lost %d leases",
				end.All.Arrived, f.runs, end.All.MaxInFlight, own, lost)
			if sent := counter.sentBy(before); sent > 0 {
				t.Errorf("the worker sent %d calls on leases of before", sent)
			}
			if end.All.Arrived > f.runs+fleetLimit {
				t.Errorf("%d calls for %d runs: more than those in flight were made again", end.All.Arrived, f.runs)
			}
			if c.exact {
				f.wantNeverOver(end)
			}
			if excess := end.All.MaxInFlight - fleetLimit; excess > own || *fullFleet && excess > lost {
				t.Errorf("%d calls above the limit, want at most the %d of the frozen worker, of which %d leases are counted as lost", excess, own, lost)
			}
			for _, line := range strings.Split(worker.stderr.String(), "\n") {
				if strings.Contains(line, `"queue"`) && strings.Contains(line, `"warn"`) && !strings.Contains(line, "returned the tasks") {
					t.Errorf("asynq warned: %s", line)
				}
			}
		})
	}
}

// TestHeldCallsOfAProviderThatIsLate: a provider works on four calls for much longer than their
// timeout, and the worker that made them is frozen. With abandoned_calls: hold they count until their
// timeout has passed; afterwards no more calls exceed the limit than these four.
func TestHeldCallsOfAProviderThatIsLate(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	const own, timeout = 4, 20 * time.Second
	simulator := filepath.Join(t.TempDir(), "simulator.json")
	text := `{"latency": "300ms", "models": {"careful": {"behaviour": {"latency": "45s"}}}}`
	if err := os.WriteFile(simulator, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFleetWith(t, "--settings", simulator)
	f.documents(40)
	f.write("fleet.yaml", fmt.Sprintf("providers: {simulator: {base_url: %q}}\nconcurrency: {lease: 3s, abandoned_calls: hold, timeout_seconds: %d}\n",
		f.provider+"/v1", int(timeout.Seconds())))
	late, quick := f.evaluation("late", "simulator:careful", fleetLimit, 1000), f.evaluation("quick", "simulator:average", fleetLimit, 1000)
	f.onFleet(exitOK, "enqueue", late, "--limit", fmt.Sprint(own), "--config", "fleet.yaml")
	began := time.Now()
	worker := f.program("worker", "--config", "fleet.yaml", "--slots", fmt.Sprint(own))
	f.until("the worker has its calls", func(s seen) bool { return s.Models["careful"].InFlight == own })
	worker.signal(syscall.SIGSTOP)

	f.onFleet(exitOK, "enqueue", quick, "--config", "fleet.yaml")
	f.startWorkers(2)
	held := f.until("its heartbeat has lapsed, and its calls have not timed out", func(seen) bool { return time.Since(began) > timeout-4*time.Second })
	if time.Since(began) < timeout-time.Second && held.All.MaxInFlight > fleetLimit {
		t.Errorf("%d calls in flight before the timeout of those of the frozen worker, want %d", held.All.MaxInFlight, fleetLimit)
	}
	end := f.until("the provider has ended the calls of the frozen worker", func(s seen) bool { return s.Models["careful"].Answered > 0 })
	t.Logf("at most %d in flight before the timeout, %d after it", held.All.MaxInFlight, end.All.MaxInFlight)
	if end.All.MaxInFlight > fleetLimit+own {
		t.Errorf("%d calls in flight, want at most the limit of %d and the %d of the frozen worker", end.All.MaxInFlight, fleetLimit, own)
	}
	worker.signal(syscall.SIGCONT)
}

// TestFrozenWorkersSendNothingLate: workers are stopped at any moment, also
// between a grant and its request, for longer than a lease. What was granted
// before is not sent afterwards.
func TestFrozenWorkersSendNothingLate(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	rounds := sizedFleet(3, 30)
	f := newFleetWith(t)
	counter := newCounter(t, f.provider)
	// Each call is granted up to 50 ms before its start.
	f.write("fleet.yaml", fmt.Sprintf(`providers: {simulator: {base_url: %q}}
concurrency: {lease: 5s, per_provider: {simulator: {rate_limit: {qps: 60, burst: 1}}}}
`, counter.URL+"/v1"))
	f.documents(72) // more runs than the test waits for
	f.file = f.evaluation("pairs", "simulator:careful, simulator:average", 1000, 1000)
	f.startWorkers(3)
	if code := launch(t, f.dir, "enqueue", f.file, "--redis", f.redis.URL(), "--config", "fleet.yaml").wait(); code != 0 {
		t.Fatalf("enqueue ended with %d", code)
	}
	late := 0
	for range rounds {
		begun := f.stats().All.Arrived
		f.until("work goes on", func(s seen) bool { return s.All.Arrived > begun+60 })
		outlast(t, time.Duration(rand.Int64N(int64(50*time.Millisecond))))
		for _, w := range f.workers {
			w.signal(syscall.SIGSTOP)
		}
		outlast(t, 5300*time.Millisecond) // and what was sent before arrives
		before, _ := counter.now()
		for _, w := range f.workers {
			w.signal(syscall.SIGCONT)
		}
		outlast(t, 500*time.Millisecond)
		late += counter.sentBy(before)
	}
	t.Logf("%d calls sent late, of %d workers frozen %d times", late, len(f.workers), rounds)
	// The instant between the check and the request may be the one of the stop.
	if late > 1+rounds/10 {
		t.Errorf("%d calls were sent on leases that had ended", late)
	}
}

// metric reads a counter without labels.
func metric(t *testing.T, address, name string) int {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + name + ` (\d+)$`).FindStringSubmatch(scrape(t, address))
	if found == nil {
		t.Fatalf("no metric %s", name)
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
