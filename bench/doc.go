// Package bench holds the benchmarks: what the whole way of a run costs, how
// well limits are used, and what a fleet does to Redis while it has nothing to
// do. Each compares, in one run on one machine, with a rival or an ideal, and
// prints its settings beside the ratios. It is a module of its own, so that what
// only a comparison needs stays out of the program's.
//
// docs/benchmarks.md says how to run them and what was measured.
package bench
