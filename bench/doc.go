// Package bench holds the benchmarks: what a run costs from end to end, how well limits are used, and what a fleet does
// to Redis while it is idle. Each compares, in one run on one machine, with a rival or an ideal, and prints its
// settings beside the ratios. It is a separate module, so that the program does not depend on what only comparisons
// need.
//
// docs/benchmarks.md says how to run them and what was measured.
package bench
