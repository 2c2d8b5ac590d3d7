package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/controller"
	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/internal/store"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// fleet is a Redis, and the program that works with it as people start it.
type fleet struct {
	b       *testing.B
	client  *redis.Client
	program string
	dir     string
	redis   string
	took    map[string][]time.Duration
}

// build builds the program.
func build(b *testing.B) (path string) {
	b.Helper()
	path = filepath.Join(b.TempDir(), "evalfleet")
	build := exec.Command("go", "build", "-o", path, "./cmd/evalfleet")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

// submit enqueues an evaluation of documents·(documents−1) runs, of which one in every
// ended has ended; 0: none.
func (f *fleet) submit(name, provider string, documents int, sink string, ended int, limits ...ratelimit.Limit) eval.ID {
	f.b.Helper()
	e, texts := pairs(f.b, documents)
	e.Name = name
	if sink == "" {
		sink = "sqlite:" + filepath.Join(f.dir, name+".db")
	}
	e.Judges = []eval.Judge{{Name: provider + ":m", Provider: provider, Model: "m"}}
	e.Normalize()
	s := enqueue.Submission{
		Evaluation: e, Texts: texts, SinkURL: sink,
		Settings: record.Settings{Priority: 1, Retry: record.DefaultRetry, Limits: limits},
	}
	if ended > 0 {
		s.Recorded = func(yield func(enqueue.Recorded, error) bool) {
			for i := 0; i < documents*(documents-1); i += ended {
				if !yield(enqueue.Recorded{Index: i, State: eval.StateSucceeded}, nil) {
					return
				}
			}
		}
	}
	receipt, err := (&enqueue.Enqueuer{Store: store.New(f.client, ""), Limits: ratelimit.New(f.client, ratelimit.Config{}), Log: zerolog.Nop()}).
		Submit(f.b.Context(), s)
	if err != nil {
		f.b.Fatal(err)
	}
	return receipt.ID
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

func (f *fleet) standing(id eval.ID) store.Standing {
	f.b.Helper()
	standings, err := store.New(f.client, "").Standings(f.b.Context(), []eval.ID{id})
	if err != nil {
		f.b.Fatal(err)
	}
	return standings[id]
}

// command runs one of the program's commands and notes how long it takes.
func (f *fleet) command(name string, args ...string) {
	f.b.Helper()
	process := exec.Command(f.program, args...)
	process.Env = append(os.Environ(), "REDIS_URL="+f.redis)
	process.Dir = f.dir
	began := time.Now()
	if out, err := process.CombinedOutput(); err != nil {
		f.b.Fatalf("%v: %v\n%s", args, err, out)
	}
	f.took[name] = append(f.took[name], time.Since(began))
}

// drained is how many evaluations have a sink that takes their results.
func (f *fleet) drained() (n int) {
	f.b.Helper()
	of := store.New(f.client, "")
	ids, err := of.Active(f.b.Context())
	if err != nil {
		f.b.Fatal(err)
	}
	for _, id := range ids {
		if r, err := of.Evaluation(f.b.Context(), id); err == nil && r.Sink != "" {
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

// free is an address on which nobody listens.
func free(b *testing.B) string {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// processCPU is what a process has used of a CPU.
func processCPU(b *testing.B, pid int) time.Duration {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Skip("the CPU of a process is read from /proc, which this system does not have")
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
