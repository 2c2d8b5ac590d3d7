// Command peers compares evalfleet with other ways to share a limit among processes: BullMQ, asynq with redis_rate and
// with its semaphore, and one Go process that needs no Redis and so shows what the machine can do.
//
// Each contender executes the same workloads with four processes, a private redis-server and its own provider (package
// witness). They run one after another, so that their ratios can be compared although the machine is shared. `make
// peers` writes the table to docs/benchmarks.md. It needs redis-server, Node.js 20 and npm.
package main
