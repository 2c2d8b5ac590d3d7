// Command evalfleet judges documents with language models: it plans, enqueues,
// works, collects and reports, on one machine or with a fleet of workers.
//
// main parses and wires; what a command does stands in a file of its own and is
// listed in app.go.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel() // the command winds up
		<-signals
		os.Exit(int(exitInterrupted)) // now, please
	}()
	os.Exit(Main(ctx, os.Args[1:], os.LookupEnv, os.Stdin, os.Stdout, os.Stderr))
}
