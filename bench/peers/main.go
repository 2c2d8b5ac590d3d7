package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/evalfleet/evalfleet/bench/peers/witness"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// run runs the comparison, or one of the processes that the comparison starts.
func run(ctx context.Context, args []string) error {
	if len(args) == 2 {
		switch args[0] {
		case "witness":
			return serveWitness(ctx, args[1])
		case "asynq-worker", "bound-worker":
			var j job
			if err := json.Unmarshal([]byte(args[1]), &j); err != nil {
				return err
			}
			if args[0] == "asynq-worker" {
				return runAsynqWorker(ctx, j)
			}
			return runBound(ctx, j)
		}
	}
	return compare(ctx, args)
}

// serveWitness prints its address and serves until ctx ends.
func serveWitness(ctx context.Context, arg string) error {
	var models []witness.Model
	if err := json.Unmarshal([]byte(arg), &models); err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: witness.New(models), ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	fmt.Printf("http://%s\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func compare(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	program := flags.String("evalfleet", "../../bin/evalfleet", "`PROGRAM` to compare")
	node := flags.String("bullmq", "bullmq", "`FOLDER` with the BullMQ worker, in which npm ci was run")
	only := flags.String("workload", "", "comma-separated `NAMES` of workloads (default all: slots, window, models, empty, kill)")
	who := flags.String("contender", "", "comma-separated `NAMES` of contenders (default all: bound, bullmq, asynq, evalfleet)")
	divide := flags.Int("divide", 1, "divide the number of runs by `N`")
	rounds := flags.Int("rounds", 1, "repeat everything `N` times")
	delay := flags.Duration("delay", 0, "delay each call on its way to the provider by a random time of up to `D`")
	write := flags.String("write", "", "`FILE` in which to replace the table between the peers markers")
	if err := flags.Parse(args); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	absolute, err := filepath.Abs(*program)
	if err != nil {
		return err
	}
	contenders := map[string]contender{
		"bound": bound{self}, "bullmq": bullMQ{*node}, "asynq": asynqPeer{self}, "evalfleet": evalfleet{absolute},
	}
	order := []string{"bound", "bullmq", "asynq", "evalfleet"}
	if order, err = choose(order, *who); err != nil {
		return err
	}
	var names []string
	for _, w := range workloads() {
		names = append(names, w.Name)
	}
	if names, err = choose(names, *only); err != nil {
		return err
	}

	var t table
	for _, id := range order {
		t.columns = append(t.columns, contenders[id].name())
	}
	for round := range *rounds {
		for _, w := range workloads() {
			if !slices.Contains(names, w.Name) {
				continue
			}
			for i := range w.Queues {
				w.Queues[i].Runs /= *divide
				w.Queues[i].Delay = *delay
			}
			for column, id := range order {
				if w.KillAfter > 0 {
					if id == "bound" {
						continue // no other process is left
					}
					w.Queues[0].Runs = killRuns[id] / *divide
				}
				fmt.Fprintf(os.Stderr, "round %d: %s: %s\n", round+1, w.Name, id)
				f, err := execute(ctx, contenders[id], w)
				if err != nil {
					return fmt.Errorf("%s: %s: %w", w.Name, id, err)
				}
				fmt.Fprintf(os.Stderr, "  %+v\n", f)
				t.add(w, column, f)
			}
		}
	}
	text := t.String() + "\n" + versions(ctx, absolute, *node) + "\n"
	fmt.Print(text)
	if *write != "" {
		return replaceBetweenMarkers(*write, text)
	}
	return nil
}

// killRuns is how many runs keep each contender busy until it has recovered from a kill.
var killRuns = map[string]int{"bullmq": 5000, "asynq": 11000, "evalfleet": 2500}

// choose returns the names in a comma-separated list; all names if the list is empty.
func choose(names []string, list string) ([]string, error) {
	if list == "" {
		return names, nil
	}
	chosen := strings.Split(list, ",")
	for _, name := range chosen {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("unknown name %q: want one of %s", name, strings.Join(names, ", "))
		}
	}
	return chosen, nil
}

const (
	beginMarker = "<!-- peers: begin -->\n"
	endMarker   = "<!-- peers: end -->"
)

// replaceBetweenMarkers writes text between the markers of a file.
func replaceBetweenMarkers(file, text string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(raw), beginMarker)
	_, after, closed := strings.Cut(rest, endMarker)
	if !ok || !closed {
		return fmt.Errorf("%s: no lines %q and %q", file, strings.TrimSpace(beginMarker), endMarker)
	}
	return os.WriteFile(file, []byte(before+beginMarker+text+endMarker+after), 0o644) // a public page
}

// versions describes the versions compared, and the machine.
func versions(ctx context.Context, evalfleet, node string) string {
	line := func(name string, args ...string) string {
		out, err := exec.CommandContext(ctx, name, args...).Output()
		if err != nil {
			return "unknown"
		}
		first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		return first
	}
	var manifest struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	if raw, err := os.ReadFile(filepath.Join(node, "package.json")); err == nil {
		_ = json.Unmarshal(raw, &manifest)
	}
	return fmt.Sprintf("%s; BullMQ %s on Node.js %s; asynq and redis_rate: %s; %s; %s.\n",
		line(evalfleet, "version"), manifest.Dependencies["bullmq"], line("node", "--version"), modules(),
		strings.Join(strings.Fields(line("redis-server", "--version"))[:3], " "), machine())
}
