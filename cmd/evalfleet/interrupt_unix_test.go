//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

const (
	interruptedLimit = 8 // calls in flight
	interruptedLease = 10 * time.Second
	killed           = -1 // the exit code of a command that was killed
	goesOn           = -2 // the exit code of a command that is not ended by the event

	// Blocks of 512 bytes that a file may have: too few for any file of a run, and
	// enough for the results of some runs.
	roomForNothing = 8
	roomForSome    = 600
)

// interruption is one thing that happens to one command in the middle of its
// work.
type interruption struct {
	name    string
	command string   // run, worker, enqueue or collect
	redis   []string // options of a Redis; nil: the run brings its own
	blocks  int      // of 512 bytes, that a file of the command may have; 0: any number
	strike  func(*scene)
	code    int // with which the command then ends
	again   int // how many calls may be made twice
}

// TestInterruptions: whatever happens in the middle of an evaluation, the same
// command resumes it, every run is recorded once, and nothing that was recorded
// is called again.
func TestInterruptions(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	plain, lasting := []string{}, []string{"--appendonly", "yes"}
	for _, c := range []interruption{
		{"Ctrl-C", "run", nil, 0, signals(syscall.SIGINT), 130, interruptedLimit},
		{"Ctrl-C twice", "run", nil, 0, signals(syscall.SIGINT, syscall.SIGINT), 130, interruptedLimit},
		{"SIGTERM", "run", nil, 0, signals(syscall.SIGTERM), 130, interruptedLimit},
		{"closed terminal", "run", nil, 0, signals(syscall.SIGHUP, syscall.SIGHUP), 130, interruptedLimit},
		{"kill -9", "run", nil, 0, signals(syscall.SIGKILL), killed, interruptedLimit},
		{"sleep", "run", nil, 0, (*scene).sleep, goesOn, interruptedLimit},
		{"full disk", "run", nil, roomForSome, nil, 3, 0},
		{"Redis away", "run", lasting, 0, (*scene).restartRedis, goesOn, interruptedLimit},
		{"flushed Redis", "run", plain, 0, (*scene).flushRedis, goesOn, interruptedLimit},
		{"Redis back without its memory", "run", plain, 0, (*scene).restartRedis, goesOn, interruptedLimit},

		{"SIGTERM", "worker", plain, 0, signals(syscall.SIGTERM), 0, interruptedLimit},
		{"Ctrl-C twice", "worker", plain, 0, signals(syscall.SIGINT, syscall.SIGINT), 130, interruptedLimit},
		{"closed terminal", "worker", plain, 0, signals(syscall.SIGHUP, syscall.SIGHUP), 130, interruptedLimit},
		{"kill -9", "worker", plain, 0, signals(syscall.SIGKILL), killed, interruptedLimit},
		{"sleep", "worker", plain, 0, (*scene).sleep, goesOn, interruptedLimit},
		{"full disk", "worker", plain, roomForNothing, nil, goesOn, 0},
		{"Redis away", "worker", lasting, 0, (*scene).restartRedis, goesOn, interruptedLimit},
		{"flushed Redis", "worker", plain, 0, (*scene).flushRedis, goesOn, interruptedLimit},

		{"Ctrl-C", "enqueue", plain, 0, signals(syscall.SIGINT), 130, 0},
		{"SIGTERM", "enqueue", plain, 0, signals(syscall.SIGTERM), 130, 0},
		{"closed terminal", "enqueue", plain, 0, signals(syscall.SIGHUP, syscall.SIGHUP), 130, 0},
		{"kill -9", "enqueue", plain, 0, signals(syscall.SIGKILL), killed, 0},
		{"full disk", "enqueue", plain, roomForSome, (*scene).stopWithoutRoom, 130, 0},
		{"Redis back without its memory", "enqueue", plain, 0, (*scene).restartRedis, goesOn, interruptedLimit},

		{"Ctrl-C", "collect", plain, 0, signals(syscall.SIGINT), 130, 0},
		{"closed terminal", "collect", plain, 0, signals(syscall.SIGHUP, syscall.SIGHUP), 130, 0},
		{"SIGTERM", "collect", plain, 0, signals(syscall.SIGTERM), 130, 0},
		{"kill -9", "collect", plain, 0, signals(syscall.SIGKILL), killed, 0},
		{"full disk", "collect", plain, roomForSome, (*scene).stopWithoutRoom, 130, 0},
		{"Redis away", "collect", lasting, 0, (*scene).restartRedis, goesOn, interruptedLimit},
		{"Redis back without its memory", "collect", plain, 0, (*scene).restartRedis, 3, interruptedLimit},
	} {
		t.Run(c.command+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t)
		})
	}
}

func (c interruption) test(t *testing.T) {
	s := newScene(t, c)
	args := s.begin(c.command)
	s.victim = s.limited(c.blocks, args...)
	if c.strike == nil {
		s.turnstile.open()
	} else {
		s.turnstile.allow(s.runs / 4)
		s.untilHeld(s.turnstile, interruptedLimit)
		if c.command == "collect" { // other commands are up before a call is held
			testrun.Eventually(t, "collect has its output folder", func() bool {
				_, err := os.Stat(filepath.Join(s.dir, "out"))
				return err == nil
			})
		}
		c.strike(s)
		s.turnstile.open()
	}
	if c.code != goesOn {
		if code := s.victim.wait(); code != c.code {
			t.Fatalf("interrupted %s ended with %d, want %d", c.command, code, c.code)
		}
		if c.command == "run" && c.code == killed { // its Redis saves a moment later
			c.again += s.stats().All.Answered - s.recorded()
		}
		said := args
		switch {
		case c.command == "run":
			args = s.resume()
			said = args
		case c.command == "collect" && c.code == 3 && c.blocks == 0: // Redis has lost what it collects
			args = s.with("enqueue", s.file, "--wait", "--out-dir", "out")
			said = []string{"enqueue", "FILE", "--wait", "--out-dir", "out"}
		}
		if c.code != killed {
			wantWayOn(t, lastLine(s.victim.stderr.String()), said)
		}
		s.victim = launch(t, s.dir, args...)
	}
	waited := s.victim
	if c.command == "worker" {
		waited = s.enqueue
	}
	if code := waited.wait(); code != 0 {
		t.Fatalf("%s ended with %d when it went on, want 0", waited.cmd.Args[1], code)
	}
	s.wantRowsOnce()
	if c.command == "run" && c.code == goesOn { // nothing is left to be done
		if code := launch(t, s.dir, s.resume()...).wait(); code != 0 {
			t.Errorf("resume of a run that has ended: exit code %d, want 0", code)
		}
	}
	end := s.stats()
	t.Logf("%s: %d calls for %d runs, at most %d in flight", t.Name(), end.All.Arrived, s.runs, end.All.MaxInFlight)
	if end.All.Answered > s.runs+c.again {
		t.Errorf("%d calls answered for %d runs: want at most %d made again", end.All.Answered, s.runs, c.again)
	}
	arrived := s.runs + c.again
	if c.code == killed || c.name == "sleep" { // its message is not withdrawn
		arrived += interruptedLimit
	}
	if end.All.Arrived > arrived {
		t.Errorf("%d calls for %d runs: want at most %d", end.All.Arrived, s.runs, arrived)
	}
}

// wantWayOn checks that the last line says how to resume: with its words, or with the same
// command after a stop at once.
func wantWayOn(t *testing.T, last string, args []string) {
	t.Helper()
	if strings.Contains(last, "run the same command again") {
		return
	}
	_, again, _ := strings.Cut(last, ": evalfleet ")
	for _, word := range args {
		if !strings.Contains(again, word) {
			t.Errorf("last line of stderr: got %q, want the command that goes on, with %s", last, word)
		}
	}
}

// scene is a fleet with one interrupted command.
type scene struct {
	*testFleet
	turnstile *turnstile
	victim    *program
	enqueue   *program // that waits, where the victim is a worker
}

func newScene(t *testing.T, c interruption) *scene {
	t.Helper()
	documents := 7 // 84 runs: both orders, two judges
	if c.blocks > roomForNothing {
		documents = 14 // 364 runs, whose results do not fit
	}
	s := &scene{testFleet: &testFleet{t: t, dir: t.TempDir(), runs: documents * (documents - 1) * 2}}
	if c.redis != nil {
		s.redis = redistest.NewTCP(t, c.redis...)
	}
	s.simulate("--latency", "10ms")
	s.turnstile = newTurnstile(t, s.provider)
	if c.again == 0 {
		s.configure(s.turnstile.URL, calm)
	} else {
		s.configure(s.turnstile.URL, fmt.Sprintf("concurrency: {lease: %s}\n", interruptedLease))
	}
	s.documents(documents)
	s.file = s.evaluation("pairs", "simulator:careful, simulator:average", interruptedLimit, 1000)
	return s
}

// recorded counts the runs in the results store.
func (s *scene) recorded() int {
	s.t.Helper()
	rows := rowsOf(s.t, filepath.Join(s.dir, "out"), "SELECT id FROM pairwise_results")
	return len(rows)
}

// resume is the command line that resumes an interrupted run.
func (s *scene) resume() []string {
	args := []string{"resume", "out"}
	if s.redis != nil {
		args = append(args, "--redis", s.redis.URL())
	}
	return args
}

// with adds the fleet's settings and its Redis to a command line.
func (s *scene) with(args ...string) []string {
	args = append(args, "--config", "fleet.yaml")
	if s.redis != nil {
		args = append(args, "--redis", s.redis.URL())
	}
	return args
}

// begin starts what the command needs beside it, and returns its command line.
func (s *scene) begin(command string) []string {
	s.t.Helper()
	worker := s.with("worker", "--events", "events.jsonl")
	enqueue := s.with("enqueue", s.file, "--wait", "--out-dir", "out")
	switch command {
	case "worker":
		s.enqueue = launch(s.t, s.dir, enqueue...)
		return worker
	case "enqueue":
		s.workers = append(s.workers, launch(s.t, s.dir, worker...))
		return enqueue
	case "collect":
		s.workers = append(s.workers, launch(s.t, s.dir, worker...))
		submitted := launch(s.t, s.dir, s.with("enqueue", s.file)...)
		if code := submitted.wait(); code != 0 {
			s.t.Fatalf("enqueue ended with %d", code)
		}
		return s.with("collect", lastLine(submitted.stdout.String()), "--follow", "--out-dir", "out")
	default:
		// Few slots, for the results of whose calls room is kept on the disk.
		return s.with("run", s.file, "--out-dir", "out", "--slots", strconv.Itoa(2*interruptedLimit))
	}
}

// limited starts evalfleet where no file may have more than so many blocks.
func (s *scene) limited(blocks int, args ...string) *program {
	s.t.Helper()
	if blocks == 0 {
		return launch(s.t, s.dir, args...)
	}
	path, err := binary()
	if err != nil {
		s.t.Fatal(err)
	}
	shell := exec.Command("sh", append([]string{"-c", `ulimit -f "$0" && exec "$@"`, strconv.Itoa(blocks), path}, args...)...)
	return start(s.t, s.dir, shell)
}

func signals(all ...syscall.Signal) func(*scene) {
	return func(s *scene) {
		for i, signal := range all {
			if i > 0 { // one that is not delivered yet would swallow its like
				outlast(s.t, 30*time.Millisecond)
			}
			if err := s.victim.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
				s.t.Fatal(err)
			}
		}
	}
}

// stopWithoutRoom stops a command that waits for room on its disk, when every run has
// been answered: what does not fit stays in Redis.
func (s *scene) stopWithoutRoom() {
	s.t.Helper()
	s.turnstile.open()
	testrun.Eventually(s.t, "every run is answered and the disk is full", func() bool {
		return s.stats().All.Answered >= s.runs && strings.Contains(s.victim.stderr.String(), "no space left")
	})
	if code := s.victim.cmd.ProcessState; code != nil {
		s.t.Fatalf("%s ended on a full disk: %v", s.victim.cmd.Args, code)
	}
	signals(syscall.SIGTERM)(s)
}

// sleep stops everything for longer than a lease, as a closed lid does.
func (s *scene) sleep() {
	s.t.Helper()
	pids := []int{s.victim.cmd.Process.Pid, s.simulator.cmd.Process.Pid}
	if s.enqueue != nil {
		pids = append(pids, s.enqueue.cmd.Process.Pid)
	}
	if s.redis != nil {
		pids = append(pids, s.redisPid())
	}
	for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		for _, pid := range pids {
			if err := syscall.Kill(pid, signal); err != nil {
				s.t.Fatal(err)
			}
		}
		if signal == syscall.SIGSTOP {
			outlast(s.t, interruptedLease+time.Second)
		}
	}
}

func (s *scene) redisPid() int {
	s.t.Helper()
	info, err := s.redis.Client().InfoMap(s.t.Context(), "server").Result()
	if err != nil {
		s.t.Fatal(err)
	}
	pid, err := strconv.Atoi(info["Server"]["process_id"])
	if err != nil {
		s.t.Fatal(err)
	}
	return pid
}

// restartRedis takes Redis away for a second.
func (s *scene) restartRedis() {
	s.redis.Kill()
	outlast(s.t, time.Second)
	s.redis.Start()
}

func (s *scene) flushRedis() {
	s.t.Helper()
	if err := s.redis.Client().FlushAll(s.t.Context()).Err(); err != nil {
		s.t.Fatal(err)
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
