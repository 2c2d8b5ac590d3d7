package main

import (
	"time"

	"github.com/evalfleet/evalfleet/bench/peers/witness"
)

// workload is what every contender has to execute.
type workload struct {
	Name   string
	Title  string // of the table's rows
	Queues []queue

	// Concurrency is how many calls each process may have in flight.
	Concurrency int

	// KillAfter, if not 0, is how long after the first call one of the processes is killed.
	KillAfter time.Duration

	// Done, if set, is the queue whose end ends the measurement.
	Done string
}

// queue is one model with its runs.
type queue struct {
	witness.Model
	Runs int
}

// contenderQueue is a queue as contenders read it.
type contenderQueue struct {
	Model    string  `json:"model"`
	Runs     int     `json:"runs"`
	InFlight int     `json:"in_flight,omitempty"`
	Max      int     `json:"window_max,omitempty"`
	WindowMS int64   `json:"window_ms,omitempty"`
	Rate     float64 `json:"rate,omitempty"`
	Burst    int     `json:"burst,omitempty"`
}

// job is the input of a contender's process.
type job struct {
	URL         string           `json:"url"`
	RedisPort   int              `json:"redis_port"`
	Concurrency int              `json:"concurrency"`
	Queues      []contenderQueue `json:"queues"`
}

func (w workload) job(url string, redisPort int) job {
	j := job{URL: url, RedisPort: redisPort, Concurrency: w.Concurrency}
	for _, q := range w.Queues {
		j.Queues = append(j.Queues, contenderQueue{
			Model: q.Name, Runs: q.Runs, InFlight: q.MaxInFlight, Max: q.WindowMax, WindowMS: q.Window.Milliseconds(), Rate: q.Rate, Burst: q.Burst,
		})
	}
	return j
}

const (
	nameSlots  = "slots"
	nameWindow = "window"
	nameModels = "models"
	nameEmpty  = "empty"
	nameKill   = "kill"
)

// workloads returns the workloads of the comparison, at their full size. The number of runs of the last one depends on
// the contender: see killRuns.
func workloads() []workload {
	slots := witness.Model{Name: "slots", Latency: 500 * time.Millisecond, MaxInFlight: 32}

	return []workload{
		{
			Name: nameSlots, Title: "32 in flight, calls of 0.5 s",
			Queues: []queue{{slots, 1920}}, Concurrency: 32,
		},
		{
			Name: nameWindow, Title: "600 in any 10 s (strict sliding window)",
			Queues:      []queue{{witness.Model{Name: "window", Latency: 50 * time.Millisecond, WindowMax: 600, Window: 10 * time.Second}, 3000}},
			Concurrency: 64,
		},
		{
			Name: nameModels, Title: "a fast model (bucket of 50, 50/s) beside a slow one (2/s)",
			Queues: []queue{
				{witness.Model{Name: "fast", Latency: 100 * time.Millisecond, Rate: 50, Burst: 50}, 500},
				{witness.Model{Name: "slow", Latency: 2 * time.Second, Rate: 2, Burst: 2}, 60},
			},
			Concurrency: 32, Done: "fast",
		},
		{
			Name: nameEmpty, Title: "no limits, calls that take no time",
			Queues: []queue{{witness.Model{Name: "empty"}, 20000}}, Concurrency: 64,
		},
		{
			Name: nameKill, Title: "kill -9 of one of four processes, 32 in flight, calls of 0.5 s",
			Queues: []queue{{slots, 0}}, Concurrency: 32, KillAfter: 8 * time.Second,
		},
	}
}
