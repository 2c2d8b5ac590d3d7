package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shirou/gopsutil/v4/process"

	"github.com/evalfleet/evalfleet/bench/peers/witness"
	"github.com/evalfleet/evalfleet/internal/redisx/outage"
)

// contender is one way to execute a workload.
type contender interface {
	name() string
	enqueue(ctx context.Context, e env) error             // before the workers start
	worker(ctx context.Context, e env) (*exec.Cmd, error) // a process that works until SIGTERM
}

// env is the environment of a contender.
type env struct {
	dir string // for files of this run
	job job
}

func (e env) redisAddr() string { return "127.0.0.1:" + strconv.Itoa(e.job.RedisPort) }
func (e env) redisURL() string  { return "redis://" + e.redisAddr() }

// fleetSize is how many processes share a workload.
const fleetSize = 4

// longest bounds one workload of one contender.
const longest = 8 * time.Minute

// execute makes a contender execute a workload and returns what the witness counted.
func execute(ctx context.Context, c contender, w workload) (f figures, err error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	dir, err := os.MkdirTemp("", "peers-")
	if err != nil {
		return f, err
	}
	defer os.RemoveAll(dir)
	var all stack
	defer all.stop()
	processes := context.WithoutCancel(ctx) // all.stop ends them in order

	url, err := startWitness(processes, &all, w)
	if err != nil {
		return f, err
	}
	rdb, port, redisProcess, err := startRedis(ctx, &all, dir)
	if err != nil {
		return f, err
	}
	defer rdb.Close()
	e := env{dir: dir, job: w.job(url, port)}
	if err := c.enqueue(ctx, e); err != nil {
		return f, err
	}

	workers := fleetSize
	if _, alone := c.(bound); alone {
		workers = 1
	}
	var started []*exec.Cmd
	for range workers {
		command, err := c.worker(processes, e)
		if err != nil {
			return f, err
		}
		if err := all.start(command, filepath.Join(dir, "worker.log")); err != nil {
			return f, fmt.Errorf("%s: start a worker: %w", c.name(), err)
		}
		started = append(started, command)
	}

	if err := await(ctx, url, func(seen map[string]witness.Stats) bool { return total(seen) > 0 }); err != nil {
		return f, fmt.Errorf("%s: first call: %w\n%s", c.name(), err, logOf(dir))
	}
	before, err := cpu(started, redisProcess)
	if err != nil {
		return f, err
	}
	var killed time.Duration
	if w.KillAfter > 0 {
		if err := outage.Pause(ctx, w.KillAfter); err != nil {
			return f, err
		}
		if err := started[0].Process.Kill(); err != nil {
			return f, err
		}
		now, err := stats(ctx, url, true)
		if err != nil {
			return f, err
		}
		killed = now[w.Queues[0].Name].Now
	}
	main := w.Queues[0]
	err = await(ctx, url, func(seen map[string]witness.Stats) bool {
		for _, q := range w.Queues {
			if w.Done != "" && q.Name != w.Done {
				continue
			}
			if s := seen[q.Name]; s.Distinct < q.Runs || s.InFlight > 0 {
				return false
			}
		}
		return true
	})
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return f, err // runs that are still missing at the deadline are lost
	}
	ctx = context.WithoutCancel(ctx)
	after, err := cpu(started, redisProcess)
	if err != nil {
		return f, err
	}
	seen, err := stats(ctx, url, false)
	if err != nil {
		return f, err
	}
	f = measure(main, seen[main.Name], killed)
	for _, q := range w.Queues[1:] {
		f.Refused += seen[q.Name].Refused
	}
	if calls := total(seen); calls > 0 && killed == 0 {
		f.WorkerCPU = (after.workers - before.workers) / time.Duration(calls)
		f.RedisCPU = (after.redis - before.redis) / time.Duration(calls)
	}
	return f, nil
}

// startWitness starts the provider as a process of its own.
func startWitness(ctx context.Context, all *stack, w workload) (url string, err error) {
	models := make([]witness.Model, len(w.Queues))
	for i, q := range w.Queues {
		models[i] = q.Model
	}
	raw, err := json.Marshal(models)
	if err != nil {
		return "", err
	}

	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	command := exec.CommandContext(ctx, self, "witness", string(raw))
	out, err := command.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := all.start(command, ""); err != nil {
		return "", fmt.Errorf("start the witness: %w", err)
	}
	url, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("start the witness: %w", err)
	}
	return strings.TrimSpace(url), nil
}

// startRedis starts a redis-server without persistence.
func startRedis(ctx context.Context, all *stack, dir string) (rdb *redis.Client, port int, command *exec.Cmd, err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, 0, nil, err
	}
	port = listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		return nil, 0, nil, err
	}
	program := os.Getenv("REDIS_SERVER")
	if program == "" {
		program = "redis-server"
	}
	command = exec.CommandContext(
		context.WithoutCancel(ctx), program, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "",
		"--appendonly", "no", "--dir", dir, "--maxmemory-policy", "noeviction",
	)
	if err := all.start(command, ""); err != nil {
		return nil, 0, nil, fmt.Errorf("start redis-server: %w", err)
	}
	rdb = redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + strconv.Itoa(port)})
	for rdb.Ping(ctx).Err() != nil {
		if err := outage.Pause(ctx, 10*time.Millisecond); err != nil {
			return nil, 0, nil, fmt.Errorf("start redis-server: %w", err)
		}
	}

	return rdb, port, command, nil
}

// await polls the witness until is returns true for its statistics.
func await(ctx context.Context, url string, is func(map[string]witness.Stats) bool) error {
	for {
		seen, err := stats(ctx, url, true)
		if err != nil {
			return err
		}
		if is(seen) {
			return nil
		}
		if err := outage.Pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

func stats(ctx context.Context, url string, brief bool) (seen map[string]witness.Stats, err error) {
	if url += "/stats"; brief {
		url += "?brief=1"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the witness: %w", err)
	}
	defer response.Body.Close()
	return seen, json.NewDecoder(response.Body).Decode(&seen)
}

func total(seen map[string]witness.Stats) (calls int) {
	for _, s := range seen {
		calls += s.Accepted
	}
	return calls
}

// used is the CPU time that the parts of a contender have used.
type used struct{ workers, redis time.Duration }

func cpu(workers []*exec.Cmd, redis *exec.Cmd) (u used, err error) {
	for _, worker := range workers {
		if worker.ProcessState != nil {
			continue
		}
		spent, err := cpuOf(worker)
		if err != nil {
			continue // it was killed
		}
		u.workers += spent
	}
	u.redis, err = cpuOf(redis)
	return u, err
}

func cpuOf(command *exec.Cmd) (time.Duration, error) {
	p, err := process.NewProcess(int32(command.Process.Pid))
	if err != nil {
		return 0, err
	}
	times, err := p.Times()
	if err != nil {
		return 0, err
	}
	return time.Duration((times.User + times.System) * float64(time.Second)), nil
}

// stack holds the processes that were started, in order.
type stack struct{ commands []*exec.Cmd }

// start starts a process whose output is appended to a log, if one is named.
func (s *stack) start(command *exec.Cmd, log string) error {
	if log != "" {
		file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer file.Close()
		command.Stdout, command.Stderr = file, file
	}
	if err := command.Start(); err != nil {
		return err
	}
	s.commands = append(s.commands, command)
	return nil
}

// stop ends all processes, the last one first. Each has five seconds to exit by itself.
func (s *stack) stop() {
	for i := len(s.commands) - 1; i >= 0; i-- {
		command := s.commands[i]
		_ = command.Process.Signal(syscall.SIGTERM)
		timer := time.AfterFunc(5*time.Second, func() { _ = command.Process.Kill() })
		_ = command.Wait()
		timer.Stop()
	}
}

// logOf returns the end of the workers' log.
func logOf(dir string) string {
	raw, err := os.ReadFile(filepath.Join(dir, "worker.log"))
	if err != nil {
		return ""
	}
	return string(raw[max(0, len(raw)-2000):])
}
