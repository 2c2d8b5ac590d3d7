//go:build unix

package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/internal/view"
)

// faultSeed repeats the order of faults that a test has printed; their moments
// are the machine's.
var faultSeed = flag.Uint64("fault-seed", 0, "the order of faults in TestLimitsUnderFaults; 0: another each time")

// What the simulator of TestLimitsUnderFaults allows, and what the fleet is told about it. Calls outlast the window of
// tokens, so that it does not replace the limits on calls in flight. The reservation of a call is learned from earlier
// ones, and slightly too small for one in a hundred: hence 2 % less.
const (
	accountInFlight = 16
	carefulInFlight = 12
	averageInFlight = 4

	accountSimulator = `{
  "max_in_flight": 16, "tokens": "12240/500ms", "keep_arrivals": 10000, "latency": "200ms..2s",
  "models": {
    "careful": {"max_in_flight": 12},
    "average": {"max_in_flight": 4, "requests": "20/10s"},
    "careless": {"behaviour": {"latency": "4s"}}
  }
}`
	accountFleet = `providers: {simulator: {base_url: %q}}
concurrency:
  lease: %s
  per_provider:
    simulator:
      max_concurrency: 16
      tokens_per_minute: 1440000
      window: sliding:500ms
      jitter: %s
      models:
        careful: {max_concurrency: 12}
        average: {max_concurrency: 4, requests_per_minute: 120, window: sliding:10s}
`
)

// newAccount starts Redis, and a simulator that counts for itself.
func newAccount(t *testing.T, simulator, fleetFile string, values ...any) *testFleet {
	t.Helper()
	f := newFleetWith(t, "--settings", (&testFleet{t: t, dir: t.TempDir()}).write("simulator.json", simulator))
	f.write("fleet.yaml", fmt.Sprintf(fleetFile, append([]any{f.provider + "/v1"}, values...)...))
	return f
}

// ask writes an evaluation by one judge, and submits the first runs of it. With a
// folder it waits for the end.
func (f *testFleet) ask(judge string, runs int, folder string) *program {
	f.t.Helper()
	f.write(judge+folder+".yaml", fmt.Sprintf(`name: %s
documents: ["docs/*.md"]
judges: [{model: "simulator:%s", overrides: {max_completion_tokens: 200}}]
pairwise: {pairs: all, order: both}
concurrency: {max_concurrency: 1000}
`, judge+folder, judge))
	args := []string{"enqueue", judge + folder + ".yaml", "--limit", fmt.Sprint(runs), "--redis", f.redis.URL(), "--config", "fleet.yaml"}
	if folder != "" {
		args = append(args, "--wait", "--out-dir", folder)
	}
	return launch(f.t, f.dir, args...)
}

// wantKept wants that the simulator refused nothing, and saw no limit of its own
// passed by what arrived.
func (s seen) wantKept(t *testing.T) {
	t.Helper()
	if s.All.Rejected > 0 {
		t.Errorf("the simulator rejected %d calls, by %v; want none", s.All.Rejected, s.All.RejectedBy)
	}
	all := map[string]arrivals{"all models": s.All}
	maps.Copy(all, s.Models)
	for of, counts := range all {
		for _, limit := range counts.Limits {
			var most int
			_, rate, _ := strings.Cut(limit.Limit, " ")
			if _, err := fmt.Sscanf(rate, "%d/", &most); err != nil || limit.Busiest > most {
				t.Errorf("%s: %d in the busiest window of %s, %v; want at most %d", of, limit.Busiest, limit.Limit, err, most)
			}
			t.Logf("%s: %d in the busiest window of %s", of, limit.Busiest, limit.Limit)
		}
	}
}

// refused tells of each call that the simulator rejected, for which it must keep
// arrivals.
func (f *testFleet) refused() (told []string) {
	f.t.Helper()
	for _, a := range f.arrivals() {
		if a.RejectedBy != "" {
			told = append(told, fmt.Sprintf("%s %s by %s", a.At.Format("15:04:05.000"), a.Model, a.RejectedBy))
		}
	}
	return told
}

type arrival struct {
	At         time.Time `json:"at"`
	Model      string    `json:"model"`
	RejectedBy string    `json:"rejected_by"`
}

// arrivals are those that the simulator keeps, the oldest first.
func (f *testFleet) arrivals() (all []arrival) {
	f.t.Helper()
	f.get("/stats/arrivals", &all)
	return all
}

// wantAllFree waits until no lease and no waiter is left, as `evalfleet limits`
// tells.
func (f *testFleet) wantAllFree() {
	f.t.Helper()
	testrun.EventuallyGot(f.t, "no lease and no waiter is left", func() (string, bool) {
		code, out, stderr := evalfleet(f.t, nil, "limits", "--json", "--redis", f.redis.URL())
		var got view.Limits
		if err := json.Unmarshal([]byte(out), &got); code != 0 || err != nil || len(got.Limits) == 0 {
			return fmt.Sprintf("limits --json: %d, %q, %q, %v", code, out, stderr, err), false
		}
		var kept []string
		for _, limit := range got.Limits {
			if limit.Waiting > 0 || limit.Kind == "concurrency" && *limit.InUse > 0 {
				kept = append(kept, fmt.Sprintf("%s: %d waiting", limit.ID, limit.Waiting))
			}
		}
		return fmt.Sprintf("%v\n%s", kept, out), len(kept) == 0
	})
}

// storm is a fleet of four, two of them behind wires, that meets one fault after
// the other.
type storm struct {
	*testFleet
	*rand.Rand
	wires   []*wire // of the first workers
	mending sync.WaitGroup
	longest time.Duration // that a wire is cut
}

func (s *storm) startWorker(i int) {
	redis := s.redis.URL()
	if i < len(s.wires) {
		redis = s.wires[i].url()
	}
	s.workers[i] = launch(s.t, s.dir, "worker", "--redis", redis, "--config", "fleet.yaml")
}

// lostAnswers is how many answers all wires have lost.
func (s *storm) lostAnswers() (lost int) {
	for _, w := range s.wires {
		lost += w.lostAnswers()
	}
	return lost
}

// untilWork waits until there is something to lose.
func (s *storm) untilWork() {
	s.until("calls are in flight, or none is left", func(seen seen) bool {
		return seen.All.InFlight > accountInFlight/2 || seen.All.Answered >= s.runs
	})
}

// faults by name. They may overlap.
var faults = map[string]func(*storm){
	"kill -9 of a worker": func(s *storm) {
		i := s.IntN(len(s.workers))
		s.workers[i].signal(syscall.SIGKILL)
		s.startWorker(i)
	},
	"cut network": func(s *storm) {
		w := s.wires[s.IntN(len(s.wires))]
		long := time.Second + time.Duration(s.Int64N(int64(s.longest-time.Second)))
		s.mending.Wait() // one at a time: a wire that is cut cannot be cut
		w.cut()
		s.mending.Go(func() {
			outlast(s.t, long)
			w.mend()
		})
	},
	"lost answers": func(s *storm) {
		s.untilWork()
		before := s.lostAnswers()
		for _, w := range s.wires {
			w.lose(true)
		}
		outlast(s.t, 2*time.Second)
		s.until("an answer was lost, or no work is left", func(seen seen) bool {
			return s.lostAnswers() > before || seen.All.Answered >= s.runs
		})
		for _, w := range s.wires {
			w.lose(false)
		}
	},
	"FLUSHALL": func(s *storm) {
		s.untilWork()
		if err := s.redis.Client().FlushAll(s.t.Context()).Err(); err != nil {
			s.t.Fatal(err)
		}
	},
	"restart of Redis without its memory": func(s *storm) {
		s.untilWork()
		s.redis.Kill()
		outlast(s.t, time.Duration(s.Int64N(int64(time.Second))))
		s.redis.Start()
	},
}

// TestLimitsUnderFaults: whatever happens to workers, Redis and the network
// between, the simulator sees no limit passed, every run is recorded once, and
// in the end every slot is free.
func TestLimitsUnderFaults(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	lease, more, between, longest, careful, average := 5*time.Second, 0, time.Second, 6*time.Second, 150, 20
	if *fullFleet {
		lease, more, between, longest, careful, average = 10*time.Second, 10, 25*time.Second, 15*time.Second, 2450, 250
	}
	seed := cmp.Or(*faultSeed, uint64(time.Now().UnixNano()))
	t.Logf("-fault-seed %d", seed)
	// At the small size a call may arrive 3 s after it was granted, on a slow machine.
	jitter := sizedFleet(3*time.Second, 200*time.Millisecond)
	s := &storm{
		testFleet: newAccount(t, accountSimulator, accountFleet, lease, jitter),
		Rand:      rand.New(rand.NewPCG(seed, 0)),
		longest:   longest,
	}
	s.runs = careful + average
	s.documents(50) // more runs than either is asked
	for range 2 {
		s.wires = append(s.wires, newWire(t, s.redis.URL()))
	}
	s.workers = make([]*program, 4)
	for i := range s.workers {
		s.startWorker(i)
	}
	waiting := map[string]*program{"careful": s.ask("careful", careful, "c"), "average": s.ask("average", average, "a")}
	s.untilWork()

	names := slices.Sorted(maps.Keys(faults)) // so that the seed tells the order
	for range more {
		names = append(names, names[s.IntN(len(faults))])
	}
	s.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	names = append(names, "kill -9 of a worker") // whose leases nothing but their end frees
	began := time.Now()
	for _, name := range names {
		outlast(t, time.Duration(s.Int64N(int64(between))))
		at := s.stats()
		if *fullFleet && at.All.Arrived >= careful+average && at.All.InFlight == 0 {
			t.Errorf("all work was done when %s came: it shows nothing", name)
		}
		t.Logf("%s, after %d calls, %d in flight: %s", at.At.Format("15:04:05.000"), at.All.Arrived, at.All.InFlight, name)
		faults[name](s)
	}
	s.mending.Wait()

	// Nothing waits for ever.
	lost := 0
	for judge, runs := range map[string]int{"careful": careful, "average": average} {
		code := waiting[judge].wait()
		failed := s.wantRows(judge[:1], runs)
		if code != 0 && failed == 0 {
			t.Errorf("enqueue --wait of %s ended with %d", judge, code)
		}
		lost += failed
	}
	// A run that three workers died with is given up.
	t.Logf("%d runs lost; %s until the end", lost, time.Since(began).Round(time.Second))
	if lost > (careful+average)/20 {
		t.Errorf("%d of %d runs were lost", lost, careful+average)
	}
	s.wantAllFree()

	// No slot is lost: all of them can be used at once.
	s.ask("careless", 400, "")
	s.until("all slots are in use", func(seen seen) bool { return seen.All.InFlight == accountInFlight })
	end := s.stats()
	end.wantKept(t)
	for _, call := range s.refused() {
		t.Errorf("rejected: %s", call)
	}
	for model, most := range map[string]int{"careful": carefulInFlight, "average": averageInFlight} {
		if got := end.Models[model].MaxInFlight; got > most {
			t.Errorf("%d calls of %s in flight, want at most %d", got, model, most)
		}
	}
	if end.All.MaxInFlight > accountInFlight {
		t.Errorf("%d calls in flight, want at most %d", end.All.MaxInFlight, accountInFlight)
	}
	answers := s.lostAnswers()
	t.Logf("%d calls for %d runs; %d answers of the limiter were lost and asked for again", end.All.Arrived, careful+average, answers)
	if answers == 0 {
		t.Error("no answer of the limiter was lost: it shows nothing")
	}
}

// TestLostAnswersCostNothing: every script of the limiter is sent twice, because
// its first answer is lost. Yet each call is charged once, and what is released
// twice frees no other call's slot.
func TestLostAnswersCostNothing(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	const qps, paced, packed = 8, 32, 45
	f := newAccount(t, `{"latency": "100ms", "keep_arrivals": 1000, "models": {"average": {"max_in_flight": 3, "behaviour": {"latency": "300ms"}}}}`,
		`providers: {simulator: {base_url: %q}}
concurrency: {per_provider: {simulator: {models: {careful: {rate_limit: {qps: %d, burst: 1}}, average: {max_concurrency: 3}}}}}
`, qps)
	f.documents(12)
	lost := func() int { return 0 }
	for range 2 {
		w, others := newWire(t, f.redis.URL()), lost
		w.lose(true)
		lost = func() int { return w.lostAnswers() + others() }
		f.workers = append(f.workers, launch(t, f.dir, "worker", "--redis", w.url(), "--config", "fleet.yaml"))
	}
	f.ask("careful", paced, "")
	f.ask("average", packed, "")
	end := f.until("all were called", func(s seen) bool { return s.All.Arrived >= paced+packed })
	var gaps []time.Duration
	var last time.Time
	for _, a := range f.arrivals() {
		if a.Model == "careful" {
			gaps = append(gaps, a.At.Sub(last))
			last = a.At
		}
	}
	slices.Sort(gaps)
	apart := gaps[len(gaps)/2].Seconds() * qps
	t.Logf("%d calls, most of them %.2f times as far apart as the rate asks for; %d answers were lost", len(gaps), apart, lost())
	// Charged twice they would be twice as far apart.
	if *fullFleet && apart > 1.5 || lost() < paced {
		t.Errorf("calls are %.2f times as far apart as the rate asks for, with %d lost answers; want at most 1.5 with %d or more", apart, lost(), paced)
	}
	if counts := end.Models["average"]; counts.Rejected > 0 || counts.MaxInFlight > 3 {
		t.Errorf("%d calls rejected, at most %d in flight; want none and at most 3", counts.Rejected, counts.MaxInFlight)
	}
	f.wantAllFree()
}

// TestUnaffectedEvaluationGoesOn: of two evaluations on one account, each with a model of its
// own, one meets every trouble: a provider that refuses, fails and hangs, workers that die or
// are cut off, a pause. The other is unaffected.
func TestUnaffectedEvaluationGoesOn(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	measured := sizedFleet(2*time.Second, 20*time.Second)
	f := newAccount(t, `{
  "max_in_flight": 12, "latency": "400ms",
  "models": {
    "careful": {"max_in_flight": 8},
    "average": {"max_in_flight": 4, "behaviour": {"latency": "100ms..3s", "throttle_rate": 0.1, "fail_rate": 0.2, "hang_rate": 0.1}}
  }
}`, `providers: {simulator: {base_url: %q}}
concurrency:
  lease: %s
  per_provider:
    simulator:
      max_concurrency: 12
      models:
        careful: {max_concurrency: 8}
        average: {max_concurrency: 4, rate_limit: {qps: 3, burst: 1}, timeout_seconds: 2}
`, sizedFleet("1m", "3s"))
	if !*fullFleet {
		f.trustRedis()
	}
	f.documents(40)
	w := newWire(t, f.redis.URL())
	worker := func(queue, redis string) *program {
		return launch(t, f.dir, "worker", "--queues", "simulator:"+queue, "--redis", redis, "--config", "fleet.yaml")
	}
	for range 2 {
		worker("careful", f.redis.URL())
	}
	worker("average", w.url())
	dies := worker("average", f.redis.URL())
	f.ask("careful", 1500, "")
	inFlight := func(model string, from, to seen) float64 {
		return (to.Models[model].InFlightSeconds - from.Models[model].InFlightSeconds) / to.At.Sub(from.At).Seconds()
	}
	all := f.until("the steady one has begun", func(s seen) bool { return s.Models["careful"].Arrived >= 8 })
	outlast(t, measured)
	alone := f.stats()

	troubled := f.ask("average", 1500, "")
	f.until("the other has begun", func(s seen) bool { return s.Models["average"].Answered > 0 })
	troubled.wait()
	id := lastLine(troubled.stdout.String())
	began := f.stats()
	w.cut()
	dies.signal(syscall.SIGKILL)
	outlast(t, measured/3) // in which leases end or do not
	worker("average", f.redis.URL())
	w.lose(true)
	w.mend()
	outlast(t, measured/3)
	for _, command := range []string{"pause", "resume"} {
		if code, _, stderr := evalfleet(t, nil, command, id, "--redis", f.redis.URL()); code != 0 {
			t.Errorf("%s: %d, %s", command, code, stderr)
		}
		outlast(t, measured/6)
	}
	w.lose(false)
	end := f.stats()
	before, during := inFlight("careful", all, alone), inFlight("careful", began, end)
	t.Logf("%.2f of 8 in flight alone, %.2f beside the other's troubles (%.1f %% lost); the other had %.2f of 4",
		before, during, 100*(1-during/before), inFlight("average", began, end))
	if *fullFleet && during < 0.95*before {
		t.Errorf("%.2f calls in flight beside the other's troubles, %.2f without; want at most 5 %% less", during, before)
	}
	if got := end.Models["careful"]; got.MaxInFlight > 8 || got.Rejected > 0 || end.All.MaxInFlight > 12 {
		t.Errorf("limits passed: %+v", end)
	}
}
