// Command evalfleet judges documents with language models: it plans, enqueues, executes, collects and reports, on one
// machine or with a fleet of workers.
//
// main parses and wires; each command has its own file and is listed in app.go.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
	_ "time/tzdata" // daily quotas end in time zones, and containers lack their files
)

func main() {
	ignoreFileSizeSignal()
	ctx, cancel := context.WithCancelCause(context.Background())
	atOnce := make(chan struct{})
	go stopOnSignals(stopSignals(), cancel, atOnce)
	os.Exit(Main(ctx, atOnce, os.Args[1:], os.LookupEnv, os.Stdin, os.Stdout, os.Stderr))
}

// stopSignals returns a channel of the signals that ask the program to stop. Under nohup, a closed terminal is not one
// of them.
func stopSignals() <-chan os.Signal {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	return signals
}

const (
	// lastMoment is how long a second signal leaves to write received answers.
	lastMoment = 3 * time.Second
	// lastWords is how long the message of a process that gives up may take.
	lastWords = 100 * time.Millisecond
)

// errTerminated is the cause of a stop by SIGTERM, with which Kubernetes, systemd and docker end a service. Its
// cancellation is still context.Canceled.
var errTerminated = fmt.Errorf("SIGTERM: %w", context.Canceled)

// stopOnSignals stops the command at the first signal, and makes it give up everything in flight at the second. A third
// signal, or a command that does not end after the second, ends the process. A closed terminal does not count as a
// second signal: it may hang up twice, once for the shell and once for the kernel.
func stopOnSignals(signals <-chan os.Signal, windUp context.CancelCauseFunc, atOnce chan<- struct{}) {
	if s := <-signals; s == syscall.SIGTERM {
		windUp(errTerminated)
	} else {
		windUp(nil)
	}

	for <-signals == syscall.SIGHUP {
	}
	close(atOnce)
	late := time.After(lastMoment)
	for patient := true; patient; {
		select {
		case s := <-signals:
			patient = s == syscall.SIGHUP
		case <-late:
			patient = false
		}
	}

	said := make(chan struct{})
	go func() { // because the command may be stuck at writing to standard error
		defer close(said)
		fmt.Fprintln(os.Stderr, "evalfleet: stopped: recorded results are kept; run the same command again to resume")
	}()
	select {
	case <-said:
	case <-time.After(lastWords):
	}
	os.Exit(int(exitInterrupted))
}

// outlivePipes makes a write to a pipe whose reader has ended return an error. Without a receiver of the signal, Go
// ends a process that then writes to standard output or error. Unlike signal.Ignore, this does not change the signal
// for programs that this process starts.
func outlivePipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
