package bench

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// full makes the benchmarks as large as the published figures; `make bench` sets it. Without it
// each only checks that it works.
var full = flag.Bool("full", false, "run the benchmarks at their whole size")

// sized is one of two settings.
func sized[T any](quick, whole T) T {
	if *full {
		return whole
	}
	return quick
}

// TestMain is also where the processes begin that benchmarks start.
func TestMain(m *testing.M) {
	if role := os.Getenv("BENCH_ROLE"); role != "" {
		os.Exit(play(role))
	}
	os.Exit(m.Run())
}

// roles are what a benchmark's further processes do. Each works until ctx ends,
// with the words that the benchmark gave it.
var roles = map[string]func(ctx context.Context, words []string) error{}

// play works until standard input ends, with which a dead benchmark ends its
// processes too.
func play(name string) int {
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	if err := roles[name](ctx, strings.Split(os.Getenv("BENCH_WORDS"), "\n")); err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		return 1
	}
	return 0
}

// process is this program once more, in a role.
type process struct {
	cmd *exec.Cmd
	in  io.Closer
	end func()
}

// launch starts a process, which ends with the benchmark at the latest.
func launch(b *testing.B, role string, words ...string) *process {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	p := &process{cmd: exec.Command(self)}
	p.cmd.Env = append(os.Environ(), "BENCH_ROLE="+role, "BENCH_WORDS="+strings.Join(words, "\n"))
	p.cmd.Stdout, p.cmd.Stderr = os.Stdout, os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		b.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	p.end = sync.OnceFunc(func() {
		p.in.Close()
		kill := time.AfterFunc(20*time.Second, func() { _ = p.cmd.Process.Kill() })
		defer kill.Stop()
		if err := p.cmd.Wait(); err != nil {
			b.Errorf("process %s: %v", role, err)
		}
	})
	b.Cleanup(p.end)
	return p
}

var describe sync.Once

// machine says once on what the figures were measured.
func machine(b *testing.B, client *redis.Client) {
	describe.Do(func() {
		version := info(b, client, "server")["redis_version"]
		fmt.Printf("# %d CPUs, %s, Redis %s\n", runtime.NumCPU(), runtime.Version(), version)
	})
}
