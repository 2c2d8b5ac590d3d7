//go:build unix

package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/redistest"
	"github.com/evalfleet/evalfleet/view"
)

// Flags of TestChaos; `make chaos` sets the number of seeds.
var (
	chaosSeeds = flag.Int("chaos-seeds", 0, "run TestChaos with the seeds 1 to N")
	chaosSeed  = flag.Uint64("chaos-seed", 0, "run TestChaos with this seed alone, to replay a schedule that failed")
)

const (
	chaosLimit  = 8               // calls in flight that the account allows
	chaosFaults = 8               // in one schedule
	chaosApart  = 100             // calls at most, between the beginnings of two faults
	chaosQuiet  = 8 * time.Second // after which the next fault begins even if no calls arrive
	chaosLasts  = 6 * time.Second // at most, from the beginning of a fault to its end
	chaosStuck  = 3 * time.Minute // without any progress after everything was healed

	chaosSimulator = `{"max_in_flight": 8, "keep_arrivals": 20000, "latency": "50ms..400ms"}`
	chaosFleet     = `providers: {simulator: {base_url: "http://%s/v1"}}
concurrency:
  lease: 3s
  abandoned_calls: hold
  timeout_seconds: 10
  per_provider: {simulator: {max_concurrency: 8}}
`
)

// TestChaos runs a fleet through schedules of random faults, each drawn from a
// seed: processes are killed, frozen, replaced and added; Redis is killed,
// stalled, flushed and restored from an older copy; connections to Redis and to
// the provider are cut; disks are full; evaluations are paused and cancelled.
// After each schedule everything is healed, and the outcome is judged from
// outside: by the rows of the results stores, the provider's own counts, exit
// codes, and what is left in Redis. See chaosFaultKinds and chaos.judge. Only
// `make chaos` runs it.
func TestChaos(t *testing.T) {
	if *chaosSeeds == 0 && *chaosSeed == 0 {
		t.Skip("make chaos runs it")
	}
	t.Parallel()
	seeds := []uint64{*chaosSeed}
	if *chaosSeed == 0 {
		seeds = nil
		for seed := range uint64(*chaosSeeds) {
			seeds = append(seeds, seed+1)
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			c := newChaos(t, seed)
			c.play(drawSchedule(c.Rand))
			c.heal()
			c.judge()
			if t.Failed() {
				t.Logf("replay with: go test -run '^TestChaos$' ./cmd/evalfleet -chaos-seed %d", seed)
			}
		})
	}
}

// step is one fault of a schedule.
type step struct {
	after  int // calls that arrive since the step before began
	kind   chaosFault
	target uint64 // chooses among what the fault can strike
	lasts  time.Duration
}

func drawSchedule(random *rand.Rand) (steps []step) {
	for range chaosFaults {
		steps = append(steps, step{
			after:  random.IntN(chaosApart),
			kind:   chaosFaultKinds[random.IntN(len(chaosFaultKinds))],
			target: random.Uint64(),
			lasts:  time.Second + time.Duration(random.Int64N(int64(chaosLasts-time.Second))),
		})
	}
	return steps
}

// member is a process of the fleet, with a network of its own to Redis.
type member struct {
	name   string
	args   []string
	wire   *wire
	blocks int // the largest file that it may write; 0: any
	*program
	killed bool // so its exit code says nothing
	struck bool // a fault strikes it now
}

// chaos is a fleet under a schedule of faults.
type chaos struct {
	*scene
	*rand.Rand
	appendOnly  bool // Redis keeps what it has when it is killed
	redisPID    int
	redisStruck bool
	provider    *wire // between workers and provider

	members  []*member  // workers, the controller, submitters
	replaced []*program // workers that were told to stop

	runs      map[string]int    // of each evaluation, by folder
	files     map[string]string // evaluation files by folder
	ids       map[string]string // evaluation ids by folder
	paused    map[string]int    // evaluations by folder, and how many of their calls had arrived by then
	cancelled bool              // the third was

	copied  int  // answers that the provider had given when Redis last wrote a copy of its memory
	repeats int  // answers that faults may have lost, so that they are asked for again
	forgot  bool // Redis has lost its memory before
	orphans int  // answers that no results store had when the workers that knew them were struck
	deaths  int  // of workers, which may have taken runs with them
}

func newChaos(t *testing.T, seed uint64) *chaos {
	t.Helper()
	c := &chaos{
		Rand: rand.New(rand.NewPCG(seed, 1)),
		runs: map[string]int{"a": 400, "b": 300, "c": 240}, files: map[string]string{}, ids: map[string]string{}, paused: map[string]int{},
	}
	c.appendOnly = c.IntN(2) == 0
	var options []string
	if c.appendOnly {
		options = []string{"--appendonly", "yes", "--appendfsync", "always"}
	}
	f := &testFleet{t: t, dir: t.TempDir(), redis: redistest.NewTCP(t, options...)}
	c.scene = &scene{testFleet: f}
	c.redisPID = c.redisPid()
	f.simulate("--settings", f.write("simulator.json", chaosSimulator))
	c.provider = newWire(t, f.provider)
	f.write("fleet.yaml", fmt.Sprintf(chaosFleet, c.provider.listener.Addr()))
	f.documents(24)
	for folder, judge := range chaosModels {
		// Each evaluation has a model of its own, by which the provider's counts tell them apart.
		c.files[folder] = f.write(folder+".yaml", fmt.Sprintf(`name: chaos-%s
documents: ["docs/*.md"]
judges: ["simulator:%s"]
pairwise: {pairs: all, order: both}
retry: {max_attempts: 12, initial_delay: 100ms, max_delay: 1s, jitter: 100ms}
concurrency: {max_concurrency: 100}
`, folder, judge))
	}
	for i := range 3 {
		c.member(fmt.Sprintf("worker %d", i), "worker")
	}
	c.member("controller", "controller", "--listen", "127.0.0.1:0")
	for _, folder := range []string{"a", "b"} {
		c.member("submitter "+folder, c.submission(folder, "--wait", "--out-dir", folder)...)
	}
	f.onFleet(exitOK, append(c.submission("c"), "--config", "fleet.yaml")...)
	f.until("calls of every evaluation were answered", func(s seen) bool {
		return s.Models["careful"].Answered > 0 && s.Models["average"].Answered > 0 && s.Models["careless"].Answered > 0
	})
	for _, e := range c.evaluations() {
		c.ids[e.Name[len("chaos-"):]] = string(e.ID)
	}
	return c
}

func (c *chaos) submission(folder string, more ...string) []string {
	return append([]string{"enqueue", c.files[folder], "--limit", fmt.Sprint(c.runs[folder])}, more...)
}

// member starts a process that reaches Redis over a wire of its own.
func (c *chaos) member(name string, args ...string) {
	m := &member{name: name, wire: newWire(c.t, c.redis.URL())}
	m.args = append(args, "--redis", m.wire.url())
	if args[0] != "controller" {
		m.args = append(m.args, "--config", "fleet.yaml")
	}
	c.members = append(c.members, m)
	c.start(m)
}

func (c *chaos) start(m *member) {
	if isSubmitter(m) {
		c.endPauses(m.folder())
	}
	m.program = c.limited(m.blocks, m.args...)
	m.killed = false
}

// running reports whether a member's process has not ended.
func (c *chaos) running(m *member) bool {
	select {
	case <-m.ended:
		return false
	default:
		return true
	}
}

// play begins each fault of a schedule at its moment, which is counted in calls so
// that a slow machine meets it too, and ends it when it has lasted long enough. A
// fault that strikes what is struck already is left out.
func (c *chaos) play(steps []step) {
	type ending struct {
		at  time.Time
		end func()
	}
	var endings []ending
	for _, s := range steps {
		now := c.stats()
		next, latest := now.All.Arrived+s.after, now.At.Add(chaosQuiet)
		for now.All.Arrived < next && now.At.Before(latest) {
			time.Sleep(20 * time.Millisecond)
			for len(endings) > 0 && time.Now().After(endings[0].at) {
				endings[0].end()
				endings = endings[1:]
			}
			now = c.stats()
		}
		what, end := s.kind.begin(c, s.target)
		if end == nil {
			c.t.Logf("left out: %s", s.kind.name)
			continue
		}
		c.t.Logf("%s, after %d calls, %d in flight: %s: %s, for %s", now.At.Format("15:04:05.000"), now.All.Arrived, now.All.InFlight,
			s.kind.name, what, s.lasts.Round(time.Millisecond))
		endings = append(endings, ending{time.Now().Add(s.lasts), end})
		slices.SortFunc(endings, func(a, b ending) int { return a.at.Compare(b.at) })
	}
	for _, e := range endings {
		time.Sleep(time.Until(e.at))
		e.end()
	}
}

// heal brings back every process that is gone, and does what a person would:
// resume what is paused, and cancel the third evaluation.
func (c *chaos) heal() {
	for _, m := range c.members {
		if c.running(m) {
			continue
		}
		code := m.cmd.ProcessState.ExitCode()
		if code == 0 && m.is("enqueue") {
			continue // it has finished
		}
		if !m.killed && (code != int(exitUnreachable) || !m.starting()) {
			c.t.Errorf("%s ended by itself with %d: %s", m.name, code, lastLine(m.stderr.String()))
		}
		c.start(m)
	}
	for _, folder := range []string{"a", "b"} { // where it is over, or not paused, this changes nothing
		c.command("resume", c.ids[folder])
	}
	if !c.cancelled {
		c.command("cancel", c.ids["c"])
	}
}

// command runs a command on the fleet and returns its exit code. During faults it
// may fail: Redis is away, or has forgotten the evaluation.
func (c *chaos) command(args ...string) exit {
	return exit(launch(c.t, c.dir, append(args, "--redis", c.redis.URL())...).wait())
}

// starting reports whether a submitter has not submitted its evaluation yet, or a worker does
// not serve yet. One that meets no Redis says so and ends; only later does it wait for Redis.
func (m *member) starting() bool {
	begun := "serving redis://"
	if isSubmitter(m) {
		begun = "runs in queues"
	}
	return (isSubmitter(m) || m.is("worker")) && !strings.Contains(m.stderr.String(), begun)
}

// folder is a submitter's.
func (m *member) folder() string { return m.name[len(m.name)-1:] }

// is reports whether a member runs a command.
func (m *member) is(command string) bool { return m.args[0] == command }

// kill ends a member at once.
func (c *chaos) kill(m *member) {
	if c.running(m) {
		m.killed = true
		m.signal(syscall.SIGKILL)
		<-m.ended
	}
}

// evaluations returns what `status --json` prints.
func (c *chaos) evaluations() (all []view.Evaluation) {
	c.t.Helper()
	p := c.onFleet(exitOK, "status", "--json")
	if err := json.Unmarshal([]byte(p.stdout.String()), &all); err != nil {
		c.t.Fatalf("status --json: %v in %q", err, p.stdout.String())
	}
	return all
}
