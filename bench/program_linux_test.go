package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/controller"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// fleet is a Redis, and the program that works with it as people start it.
type fleet struct {
	b       *testing.B
	client  *redis.Client
	program string
	dir     string
	redis   string
	sinks   []string // that submissions name
	took    map[string][]time.Duration
}

// newFleet starts a Redis for a program that build has made.
func newFleet(b *testing.B, program string) *fleet {
	b.Helper()
	server := redistest.NewTCP(b)
	f := &fleet{b: b, client: server.Client(), program: program, dir: b.TempDir(), redis: server.URL(), took: map[string][]time.Duration{}}
	machine(b, f.client)
	return f
}

// simulated serves a provider of one model, m, whose calls take a time.
func simulated(b *testing.B, latency time.Duration) (provider *simulator.Simulator, address string) {
	b.Helper()
	provider = simulator.New(simulator.Config{
		Models:    map[string]simulator.Model{"m": {}, model: {}},
		Behaviour: simulator.Behaviour{Latency: simulator.Span{Min: latency, Max: latency}},
	})
	web := httptest.NewServer(provider)
	b.Cleanup(web.Close)
	return provider, web.URL + "/v1"
}

// askAt writes fleet.yaml, by which workers ask providers at an address.
func (f *fleet) askAt(address string, providers ...string) {
	f.b.Helper()
	text := "providers:\n"
	for _, provider := range providers {
		text += fmt.Sprintf("  %s: {base_url: %q}\n", provider, address)
	}
	if err := os.WriteFile(filepath.Join(f.dir, "fleet.yaml"), []byte(text), 0o600); err != nil {
		f.b.Fatal(err)
	}
}

// startWorker starts a worker that fleet.yaml configures.
func (f *fleet) startWorker(flags ...string) *exec.Cmd {
	f.b.Helper()
	return f.start(append([]string{"worker", "--redis", f.redis, "--config", "fleet.yaml", "--metrics-addr", "off"}, flags...)...)
}

// build builds the program.
func build(b *testing.B) (path string) {
	b.Helper()
	path = filepath.Join(b.TempDir(), "evalfleet")
	build := exec.Command("go", "build", "-trimpath", "-o", path, "./cmd/evalfleet")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

// submit enqueues an evaluation of documents·(documents−1) runs. One in every
// ended of them has ended; 0: none.
func (f *fleet) submit(name, provider string, documents int, sink string, ended int, limits ...ratelimit.Limit) eval.ID {
	f.b.Helper()
	e, texts := pairs(f.b, documents)
	e.Name = name
	if sink == "" {
		sink = "sqlite:" + filepath.Join(f.dir, name+".db")
	}
	if !slices.Contains(f.sinks, sink) {
		f.sinks = append(f.sinks, sink)
	}
	e.Judges = []eval.Judge{{Name: provider + ":m", Provider: provider, Model: "m"}}
	e.Normalize()
	s := enqueue.Submission{Evaluation: e, Texts: texts, ResultsURL: sink}
	if ended > 0 {
		s.Recorded = func(yield func(enqueue.Recorded, error) bool) {
			for i := 0; i < documents*(documents-1); i += ended {
				if !yield(enqueue.Recorded{Index: i, State: eval.StateSucceeded}, nil) {
					return
				}
			}
		}
	}
	return submit(f.b, f.client, s, limits...).ID
}

// fill stores every second run of an evaluation in its results store, as submit notes of it where
// ended is 2: each with one call, a thousand in a second.
func (f *fleet) fill(id eval.ID) {
	f.b.Helper()
	ctx, of := f.b.Context(), store.New(f.client, "")
	r, err := of.Evaluation(ctx, id)
	if err != nil {
		f.b.Fatal(err)
	}
	e, err := of.Questions(ctx, id)
	if err != nil {
		f.b.Fatal(err)
	}
	var hashes []string
	for _, document := range e.Documents {
		hashes = append(hashes, document.Hash)
	}
	texts, err := of.Documents(ctx, id, hashes...)
	if err != nil {
		f.b.Fatal(err)
	}
	sink, err := results.Open(ctx, r.ResultsURL)
	if err != nil {
		f.b.Fatal(err)
	}
	defer sink.Close()
	asked := results.Evaluation{ID: id, Plan: e, Settings: r.Settings, Phases: r.Phases, Created: r.Created}
	if err := sink.PutEvaluation(ctx, asked, maps.All(texts)); err != nil {
		f.b.Fatal(err)
	}
	var batch []record.Entry
	for i := 0; i < r.Phases[0].Runs; i += 2 {
		batch = append(batch, ended(i, r.Created.Add(time.Duration(i/2)*time.Millisecond)))
		if len(batch) == 500 || i+2 >= r.Phases[0].Runs {
			if err := sink.Append(ctx, id, batch); err != nil {
				f.b.Fatal(err)
			}
			batch = batch[:0]
		}
	}
}

// ended is what a worker records of a run that it called a model for once.
func ended(index int, at time.Time) record.Entry {
	cost := 0.00025
	usage := providers.Usage{Reported: true, Input: 900, Output: 40, CostUSD: &cost}
	return record.Entry{
		Run: &record.Run{
			Index: index, Kind: eval.KindPairwise, State: eval.StateSucceeded.String(), Queue: "p", Judge: "p:m", Model: "p:m", AnsweredBy: "p:m",
			Documents: []string{"a.md", "b.md"}, Candidates: []string{"a", "b"}, Trial: 1, Winner: "a.md", Reason: "Because.", Attempts: 1,
			Started: at, Ended: at.Add(time.Second), Worker: "before",
		},
		Calls: []record.Call{{
			ID: fmt.Sprintf("0.%d.0-before-1", index), Index: index, Stage: "verdict", Model: "p:m", Attempt: 1,
			Asked: at, Started: at, Ended: at.Add(time.Second), Status: 200, Usage: usage, Text: "a.md", Worker: "before",
		}},
	}
}

// calls is of how many calls `status` knows.
func (f *fleet) calls(id eval.ID) int {
	f.b.Helper()
	var list []struct {
		Used struct {
			Calls int `json:"calls"`
		} `json:"used"`
	}
	if err := json.Unmarshal(f.command("status-json", "status", "--json", string(id)), &list); err != nil || len(list) != 1 {
		f.b.Fatalf("status --json: %d evaluations, %v", len(list), err)
	}
	return list[0].Used.Calls
}

// start starts the program, which is killed at the benchmark's end.
func (f *fleet) start(args ...string) *exec.Cmd {
	f.b.Helper()
	var log bytes.Buffer
	process := exec.Command(f.program, args...)
	process.Dir, process.Stderr = f.dir, &log
	if err := process.Start(); err != nil {
		f.b.Fatal(err)
	}
	f.b.Cleanup(func() {
		_ = process.Process.Signal(syscall.SIGKILL)
		_ = process.Wait()
		if f.b.Failed() {
			f.b.Logf("%v:\n%s", args, log.String())
		}
	})
	return process
}

// startController starts a controller that may open the results stores of all submissions.
func (f *fleet) startController(metrics string) *exec.Cmd {
	f.b.Helper()
	return f.start(append([]string{"controller", "--redis", f.redis, "--listen", "off", "--metrics-addr", metrics}, f.allowStores()...)...)
}

// allowStores are flags that let a command open the results stores of all submissions.
func (f *fleet) allowStores() (flags []string) {
	for _, sink := range f.sinks {
		flags = append(flags, "--allow-sink", sink)
	}
	return flags
}

func (f *fleet) standing(id eval.ID) store.Standing {
	f.b.Helper()
	standings, err := store.New(f.client, "").Standings(f.b.Context(), []eval.ID{id})
	if err != nil {
		f.b.Fatal(err)
	}
	return standings[id]
}

// start names what any command of the program takes to start.
const start = "start"

// command runs one of the program's commands, notes how long it takes and returns what
// it prints.
func (f *fleet) command(name string, args ...string) (out []byte) {
	f.b.Helper()
	if name != start {
		args = append(args, f.allowStores()...)
	}
	process := exec.Command(f.program, args...)
	process.Env = append(os.Environ(), "REDIS_URL="+f.redis)
	process.Dir = f.dir
	var log bytes.Buffer
	process.Stderr = &log
	began := time.Now()
	out, err := process.Output()
	if err != nil {
		f.b.Fatalf("%v: %v\n%s", args, err, log.String())
	}
	f.took[name] = append(f.took[name], time.Since(began))
	return out
}

// drained is how many evaluations have a results store that takes their results.
func (f *fleet) drained() (n int) {
	f.b.Helper()
	of := store.New(f.client, "")
	ids, err := of.Active(f.b.Context())
	if err != nil {
		f.b.Fatal(err)
	}
	for _, id := range ids {
		if r, err := of.Evaluation(f.b.Context(), id); err == nil && r.ResultsID != "" {
			n++
		}
	}
	return n
}

// ask asks a controller for the scale.
func ask(address string, into *controller.Scale) error {
	response, err := http.Get("http://" + address + "/scale")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("/scale: %s", response.Status)
	}
	return json.NewDecoder(response.Body).Decode(into)
}

// processCPU is what a process has used of a CPU.
func processCPU(b *testing.B, pid int) time.Duration {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	var ticks int
	for _, field := range strings.Fields(rest)[11:13] { // utime and stime, in hundredths
		n, err := strconv.Atoi(field)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
