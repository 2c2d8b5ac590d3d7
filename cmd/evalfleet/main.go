// Command evalfleet judges documents with language models: it plans, enqueues,
// works, collects and reports, on one machine or with a fleet of workers.
//
// main parses and wires; what a command does stands in a file of its own and is
// listed in app.go.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ignoreFileSizeSignal()
	ctx, cancel := context.WithCancel(context.Background())
	go stopOnSignals(stopSignals(), cancel)
	os.Exit(Main(ctx, os.Args[1:], os.LookupEnv, os.Stdin, os.Stdout, os.Stderr))
}

// stopSignals delivers what asks the program to stop. What its parent had it
// ignore (nohup, a job in the background) stays ignored.
func stopSignals() <-chan os.Signal {
	signals := make(chan os.Signal, 2)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	return signals
}

// stopOnSignals winds the command up at the first signal and ends the process at
// the second. A closed terminal is no impatience: it may hang up twice, once for
// the shell and once for the kernel.
func stopOnSignals(signals <-chan os.Signal, windUp context.CancelFunc) {
	<-signals
	windUp()
	for s := range signals {
		if s != syscall.SIGHUP {
			fmt.Fprintln(os.Stderr, "evalfleet: stopped at once: what is recorded is kept, and the same command goes on")
			os.Exit(int(exitInterrupted))
		}
	}
}
