package main

import (
	"time"

	"github.com/evalfleet/evalfleet/bench/peers/witness"
)

// figures are the results of one contender in one workload.
type figures struct {
	Refused int
	Peak    int
	Lost    int // runs without an answer
	Repeats int // answered calls beyond one for each run

	SlotsUsed float64       // share of the slots in use, of a limit in flight
	RateUsed  float64       // share of the rate, of a window
	Done      time.Duration // from the first call of the workload's main queue to its last answer
	PerSecond float64       // calls a second

	WorkerCPU, RedisCPU time.Duration // for each call

	SlotsBack time.Duration // after the kill; 0 if they were not all used again
}

// settling is how long a fleet may take to fill its slots before they count.
const settling = 2 * time.Second

// measure reads figures from what the witness saw of the queue q.
func measure(q queue, seen witness.Stats, killed time.Duration) (f figures) {
	n := len(seen.Arrivals)
	if n == 0 || len(seen.Ends) == 0 {
		return figures{Lost: q.Runs}
	}
	first, last := seen.Arrivals[0], seen.Arrivals[n-1]
	f = figures{
		Refused: seen.Refused, Peak: seen.Peak, Lost: q.Runs - seen.Distinct, Repeats: seen.Answered - seen.Distinct,
		Done: seen.Ends[len(seen.Ends)-1] - first,
	}
	f.PerSecond = float64(seen.Answered) / f.Done.Seconds()
	if q.MaxInFlight > 0 {
		// Up to the last arrival there was work for every slot.
		f.SlotsUsed = mean(seen, first+settling, last) / float64(q.MaxInFlight)
	}

	if q.WindowMax > 0 && n > q.WindowMax {
		// The first windowful may come at once; all others need their share of the period.
		ideal := q.Window.Seconds() * float64(n-q.WindowMax) / float64(q.WindowMax)
		f.RateUsed = ideal / (last - seen.Arrivals[q.WindowMax-1]).Seconds()
	}

	if killed > 0 {
		f.SlotsBack = slotsBack(seen, q.MaxInFlight, killed, last)
	}
	return f
}

// mean returns the mean number of calls in flight from one time to another.
func mean(seen witness.Stats, from, to time.Duration) float64 {
	if to <= from {
		return 0
	}
	within := func(times []time.Duration) (sum time.Duration) {
		for _, at := range times {
			sum += to - min(max(at, from), to)
		}
		return sum
	}
	// Each arrival adds a call for the rest of the interval, each end takes it away.
	return float64(within(seen.Arrivals)-within(seen.Ends)) / float64(to-from)
}

// slotsBack returns how long after the kill all slots were in use again for a second.
func slotsBack(seen witness.Stats, slots int, killed, end time.Duration) time.Duration {
	const step = 100 * time.Millisecond
	for at := killed; at+time.Second <= end; at += step {
		if mean(seen, at, at+time.Second) >= float64(slots)-0.5 {
			return at - killed
		}
	}
	return 0
}
