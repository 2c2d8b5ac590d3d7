//go:build unix

package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/internal/view"
)

// Flags of TestChaos; `make chaos` sets the number of seeds.
var (
	chaosSeeds = flag.Int("chaos-seeds", 0, "run TestChaos with N seeds")
	chaosFirst = flag.Uint64("chaos-first", 1, "with -chaos-seeds: run TestChaos with N seeds from this one on")
	chaosSeed  = flag.Uint64("chaos-seed", 0, "run TestChaos with this seed alone, to replay a schedule that failed")
	chaosOnly  = flag.String("chaos-only", "", "strike TestChaos only with faults whose names match this regular expression")
)

const (
	chaosLimit  = 8               // calls in flight that the account allows
	chaosMeter  = 2               // calls in flight that the account with a quota allows
	chaosFaults = 18              // in one schedule
	chaosApart  = 120             // calls at most, between the beginnings of two faults
	chaosQuiet  = 5 * time.Second // after which the next fault begins even if no calls arrive
	chaosLasts  = 6 * time.Second // at most, from the beginning of a fault to its end
	chaosLook   = 50 * time.Millisecond
	chaosStuck  = 3 * time.Minute // without any progress after everything was healed

	chaosSimulator = `{"max_in_flight": 8, "latency": "100ms..700ms", "answer_tokens": "100", "models": {"dear": {}}, "keys": [%q]}`
	chaosMetered   = `{"max_in_flight": 2, "latency": "50ms..400ms"}`
	chaosFleet     = `providers:
  simulator: {base_url: "http://%s/v1", api_key_env: %s}
  metered: {base_url: "%s/v1"}
prices: {"simulator:dear": {input: 0, output: 10}}
concurrency:
  lease: %s
  abandoned_calls: hold
  timeout_seconds: 10
  per_provider:
    simulator: {max_concurrency: 8}
    metered: {max_concurrency: 2, requests_per_day: %d, day_resets: %q}
`
)

// chaosSize is how much work a fleet has.
type chaosSize struct {
	runs   map[string]int // of each evaluation, by folder
	budget int            // what so many calls of evaluation d cost, which has more runs
	quota  int            // calls a day of evaluation m, which has more runs
	lease  time.Duration
	// batched: what has no quota is asked in batches, at all forms of batch endpoints.
	batched bool
}

var chaosWhole = chaosSize{
	runs:   map[string]int{"a": 500, "b": 400, "c": 300, "d": 400, "m": 300},
	budget: 300, quota: 60, lease: 3 * time.Second,
}

// TestChaos runs a fleet through schedules of random faults, each drawn from a
// seed: processes are killed, frozen, suspended, replaced and added; Redis is killed,
// stalled, flushed, restored from an older copy and replaced by a replica that
// lacks writes; its clock jumps, it refuses what it allowed, and its password changes; requests
// to Redis arrive late; connections to Redis and to the provider are cut; workers join that are
// sick; disks are full; evaluations are paused and cancelled. In every second schedule the evaluations are asked in batches, and
// submissions of batches are lost or come late, too. After each schedule everything is healed, and the outcome is judged
// from outside: by the rows of the results stores, the providers' own counts, exit
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
			seeds = append(seeds, *chaosFirst+seed)
		}
	}
	var tally chaosTally
	t.Cleanup(func() { tally.report(t) })
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			c := newChaos(t, seed, chaosOf(seed))
			defer func() { tally.add(c, time.Since(begun)) }()
			defer func() {
				if t.Failed() {
					t.Logf("replay with: go test -run '^TestChaos$' ./cmd/evalfleet -chaos-seed %d", seed)
				}
			}()
			c.play(c.drawSchedule())
			c.heal()
			c.judge()
			for invariant, breaches := range c.broken {
				t.Errorf("%s: %s", invariant, strings.Join(breaches, "\n"))
			}
		})
	}
}

// chaosTally counts what schedules did.
type chaosTally struct {
	mu        sync.Mutex // guards all below
	schedules int
	shortest  time.Duration
	faults    map[string]int // by kind
	broken    map[string]int // schedules, by invariant
}

func (a *chaosTally) add(c *chaos, took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.faults == nil {
		a.faults, a.broken = map[string]int{}, map[string]int{}
	}
	if a.schedules == 0 || took < a.shortest {
		a.shortest = took
	}
	a.schedules++
	for kind, n := range c.begun {
		a.faults[kind] += n
	}
	for invariant := range c.broken {
		a.broken[invariant]++
	}
}

// report logs how many faults of each kind struck, and how many schedules broke each invariant.
func (a *chaosTally) report(t *testing.T) {
	a.mu.Lock()
	defer a.mu.Unlock()
	total := 0
	for _, n := range a.faults {
		total += n
	}
	t.Logf("%d schedules of at least %s, %d faults:", a.schedules, a.shortest.Round(time.Second), total)
	for _, kind := range slices.Sorted(maps.Keys(a.faults)) {
		t.Logf("%5d %s", a.faults[kind], kind)
	}
	for _, invariant := range slices.Sorted(maps.Keys(a.broken)) {
		t.Logf("BROKEN in %d schedules: %s", a.broken[invariant], invariant)
	}
}

// step is one fault of a schedule.
type step struct {
	after  int // calls that arrive since the step before began
	kind   chaosFault
	target uint64 // chooses among what the fault can strike
	lasts  time.Duration
}

func (c *chaos) drawSchedule() (steps []step) {
	chosen := regexp.MustCompile(*chaosOnly)
	kinds := slices.Clone(chaosFaultKinds)
	if c.size.batched {
		kinds = append(kinds, batchFaults...)
	}
	kinds = slices.DeleteFunc(kinds, func(f chaosFault) bool { return !chosen.MatchString(f.name) })
	for range chaosFaults {
		steps = append(steps, step{
			after:  c.IntN(chaosApart),
			kind:   kinds[c.IntN(len(kinds))],
			target: c.Uint64(),
			lasts:  time.Second + time.Duration(c.Int64N(int64(chaosLasts-time.Second))),
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
	size        chaosSize
	appendOnly  bool     // Redis keeps what it has when it is killed
	options     []string // of every redis-server
	login       *login   // of the fleet's processes on it
	redisPID    int
	redisStruck bool
	// providerStruck: a fault strikes what workers say to the provider about batches.
	providerStruck bool
	wires          []*wire // between processes and Redis
	provider       *wire   // between workers and provider
	meter          string  // URL of the provider with a quota
	zone           *time.Location

	members  []*member  // workers, the controller, submitters
	replaced []*program // workers that were told to stop

	files     map[string]string // evaluation files by folder
	ids       map[string]string // evaluation ids by folder
	paused    map[string]int    // evaluations by folder, and how many of their calls had arrived by then
	cancelled bool              // the third was

	ahead  time.Duration   // of Redis's clock
	days   map[string]bool // that Redis's clock has shown
	copies []chaosCopy     // of Redis's memory, oldest first
	copied int             // answers that the provider had given when Redis last wrote a copy of its memory
	listed time.Time       // since when Redis has known the first two evaluations; zero: it does not

	rejected int // calls, by the provider with a limit

	repeats int // answers that faults may have lost, so that they are asked for again
	again   int // of these, the ones that may be in a batch again
	forgot  bool
	orphans int // answers that no results store had when the workers that knew them were struck
	deaths  int // of workers, which may have taken runs with them

	begun    map[string]int      // faults by kind
	stuck    time.Duration       // without progress, after which the fleet is given up
	patience time.Duration       // how long what is left in Redis at the end may stay the same
	broken   map[string][]string // what the judge found, by invariant

	sabotage func(*chaos) // of TestChaosJudge, when every evaluation has ended
}

func newChaos(t *testing.T, seed uint64, size chaosSize) *chaos {
	t.Helper()
	c := &chaos{
		Rand: rand.New(rand.NewPCG(seed, 1)), size: size, stuck: chaosStuck, patience: chaosStuck, zone: farMidnight(t),
		files: map[string]string{}, ids: map[string]string{}, paused: map[string]int{},
		days: map[string]bool{}, begun: map[string]int{}, broken: map[string][]string{},
	}
	if size.batched {
		c.stuck, c.patience = chaosBatchStuck, chaosBatchStuck
	}
	// Others are told after 200 ms that a script takes long, and a replica begins at once.
	c.options = []string{"--busy-reply-threshold", "200", "--repl-diskless-sync-delay", "0", "--auto-aof-rewrite-percentage", "0"}
	c.appendOnly = c.IntN(2) == 0
	if c.appendOnly {
		c.options = append(c.options, "--appendonly", "yes", "--appendfsync", "always")
	}
	dir := t.TempDir()
	c.login = newLogin(t, dir)
	c.options = append(c.options, "--aclfile", c.login.rules)
	f := &testFleet{t: t, dir: dir, redis: c.newRedis(t, nil)}
	c.scene = &scene{testFleet: f}
	c.redisPID = c.redisPid()
	c.setClock(0)

	f.simulate("--settings", f.write("metered.json", chaosMetered))
	c.meter = f.provider
	f.simulate("--settings", f.write("simulator.json", c.simulatorSettings()))
	c.provider = newWire(t, f.provider)
	f.write(".env", chaosKeyVariable+"="+chaosKey+"\n")
	for name, address := range map[string]string{"fleet.yaml": c.provider.listener.Addr().String(), "by-name.yaml": "provider.invalid"} {
		f.write(name, c.fleetFile(address))
	}

	f.documents(24)
	for folder := range chaosJudges {
		c.writeEvaluation(folder, c.budgetOf(size.budget))
	}
	for i := range 3 {
		c.member(fmt.Sprintf("worker %d", i), "worker")
	}
	c.member("controller", "controller", "--listen", "127.0.0.1:0")
	for _, folder := range []string{"a", "b", "d", "m"} {
		c.member("submitter "+folder, c.submission(folder, "--wait", "--out-dir", folder)...)
	}
	f.onFleet(exitOK, append(c.submission("c"), "--config", "fleet.yaml")...)
	f.until("calls of every evaluation were answered", func(s seen) bool {
		return s.Models["careful"].answered() > 0 && s.Models["average"].answered() > 0 && s.Models["careless"].answered() > 0 &&
			s.Models["dear"].answered() > 0 && c.metered().All.Answered > 0
	})
	for _, e := range c.evaluations() {
		c.ids[e.Name[len("chaos-"):]] = string(e.ID)
	}
	return c
}

// farMidnight returns a zone in which no day begins during the test.
func farMidnight(t *testing.T) *time.Location {
	t.Helper()
	name := "UTC"
	if hour := time.Now().UTC().Hour(); hour < 6 || hour >= 18 {
		name = "Etc/GMT+12"
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// newRedis starts a server, with the clock of another one or of its own.
func (c *chaos) newRedis(t *testing.T, clock *redistest.Server) *redistest.Server {
	t.Helper()
	if !redistest.CanSetClock() {
		return redistest.NewTCP(t, c.options...)
	}
	return redistest.NewClocked(t, clock, c.options...)
}

// metered returns what the provider with a quota counted.
func (c *chaos) metered() (s seen) {
	c.t.Helper()
	if err := getJSON(testrun.Context(c.t), c.meter+"/stats", &s); err != nil {
		c.t.Fatal(err)
	}
	return s
}

// chaosJudges by folder. Each evaluation has a model of its own, by which the providers' counts
// tell them apart; that of d has a price, and that of m a quota.
var chaosJudges = map[string]string{
	"a": "simulator:careful", "b": "simulator:average", "c": "simulator:careless", "d": "simulator:dear", "m": "metered:average",
}

// writeEvaluation writes the file of an evaluation, that of d with a budget in nano-USD.
func (c *chaos) writeEvaluation(folder string, budget int64) {
	c.t.Helper()
	text := fmt.Sprintf(`name: chaos-%s
documents: ["docs/*.md"]
judges: [{model: %q, overrides: {max_completion_tokens: 150}}]
pairwise: {pairs: all, order: both}
retry: {max_attempts: 12, initial_delay: 100ms, max_delay: 1s, jitter: 100ms}
concurrency: {max_concurrency: 100}
`, folder, c.judgeOf(folder))
	if folder == "d" {
		text += fmt.Sprintf("budget: {usd: %v}\n", view.USD(budget))
	}
	if c.size.batched && folder != "m" {
		text += chaosBatch
	}
	c.files[folder] = c.write(folder+".yaml", text)
}

func (c *chaos) submission(folder string, more ...string) []string {
	return append([]string{"enqueue", c.files[folder], "--limit", fmt.Sprint(c.size.runs[folder])}, more...)
}

// member starts a process that reaches Redis over a wire of its own.
func (c *chaos) member(name string, args ...string) {
	m := &member{name: name, wire: newWire(c.t, c.redis.URL())}
	c.wires = append(c.wires, m.wire)
	m.args = append(args, c.connection(m.wire)...)
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
		next, latest := now.All.asked()+s.after, now.At.Add(chaosQuiet)
		for now.All.asked() < next && now.At.Before(latest) {
			time.Sleep(chaosLook)
			for len(endings) > 0 && time.Now().After(endings[0].at) {
				endings[0].end()
				endings = endings[1:]
			}
			now = c.stats()
			c.look(now)
		}
		what, end := s.kind.begin(c, s.target)
		if end == nil {
			c.t.Logf("left out: %s", s.kind.name)
			continue
		}
		c.begun[s.kind.name]++
		c.t.Logf("%s, after %d calls, %d in flight: %s: %s, for %s", now.At.Format("15:04:05.000"), now.All.asked(), now.All.InFlight,
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
		if code == int(exitRunsFailed) && isSubmitter(m) && c.rows(m.folder()).failed > 0 {
			continue // it has finished, and judgeRows judges what failed
		}
		if m.overBudget() {
			c.start(m) // Redis may have gone back to a time before it was
			continue
		}
		if !m.killed && (code != int(exitUnreachable) || !m.starting()) {
			c.breach("exit codes", "%s ended by itself with %d: %s", m.name, code, lastLine(m.stderr.String()))
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

// starting reports whether a submitter has not submitted its evaluation yet, or a worker or a
// controller does not serve yet. One that meets no Redis says so and ends; only later does it
// wait for Redis.
func (m *member) starting() bool {
	begun := map[string]string{"enqueue": "runs in queues", "worker": "serving redis://", "controller": "serving the fleet of"}
	return !strings.Contains(m.stderr.String(), begun[m.args[0]])
}

// overBudget reports whether a submitter has ended because its budget leaves no room for a call.
func (m *member) overBudget() bool {
	return m.cmd.ProcessState.ExitCode() == int(exitRunsFailed) && strings.Contains(m.stderr.String(), "leaves no room for another call")
}

// breach notes that an invariant does not hold.
func (c *chaos) breach(invariant, format string, args ...any) {
	c.broken[invariant] = append(c.broken[invariant], fmt.Sprintf(format, args...))
}

// folder is a submitter's.
func (m *member) folder() string { return m.name[len(m.name)-1:] }

// is reports whether a member runs a command.
func (m *member) is(command string) bool { return m.args[0] == command }

// kill ends a member at once.
func (c *chaos) kill(m *member) {
	if c.running(m) {
		m.killed = true
		m.send(syscall.SIGKILL)
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
