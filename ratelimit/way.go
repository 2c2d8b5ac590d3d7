package ratelimit

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// LeaseError means that a lease is too short for the network delay to Redis. Renewals would come too late, or most
// scripts would be refused: Redis cannot tell a script that took long to arrive from one that ran after its clock was
// set.
type LeaseError struct {
	Lease, Least     time.Duration // as configured, and the shortest that works
	Fastest, Slowest time.Duration // of nine round trips in ten
	Trips            int           // how many were measured
}

func (e *LeaseError) Error() string {
	return fmt.Sprintf("concurrency.lease: %s is too short for this Redis, to which %d round trips took %s to %s: set %s or more",
		e.Lease, e.Trips, e.Fastest.Round(time.Millisecond), e.Slowest.Round(time.Millisecond), e.Least)
}

const (
	// wayTrips is how many round trips CheckLease measures at a time. It measures fewer if they take longer than
	// wayTime in all.
	wayTrips = 30
	wayLeast = 8
	wayTime  = 3 * time.Second
	// wayRounds is how often it measures. It rests in between: a machine that is busy for a moment, as at the start of
	// a container, is no reason to refuse a lease.
	wayRounds = 4
	wayRest   = 2 * time.Second
)

// CheckLease measures round trips to Redis, and returns a *LeaseError if the lease cannot work with them. That takes up
// to 20 s. A few slow round trips among many, as on a busy machine, are no error. Neither is a Redis that does not
// answer, because that is temporary.
func (a *Admin) CheckLease(ctx context.Context) error {
	var trips []time.Duration
	for round := 1; ; round++ {
		more, ok := a.measureTrips(ctx)
		if !ok {
			return nil
		}
		trips = append(trips, more...)
		err := checkLease(a.cfg, slices.Clone(trips))
		if err == nil || round == wayRounds {
			return err
		}

		select {
		case <-time.After(wayRest):
		case <-ctx.Done():
			return nil
		}
	}
}

// measureTrips measures some round trips. ok is false if Redis does not answer.
func (a *Admin) measureTrips(ctx context.Context) (trips []time.Duration, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, 2*wayTime)
	defer cancel()
	for began := a.now(); len(trips) < wayTrips && (len(trips) < wayLeast || a.now().sub(began) < wayTime); {
		sent := a.now()
		if a.client.Exists(ctx, a.keys.registry()).Err() != nil {
			return nil, false
		}
		trips = append(trips, a.now().sub(sent))
	}
	return trips[1:], true // the first may open the connection
}

// checkLease compares a lease with round trips.
func checkLease(cfg Config, trips []time.Duration) error {
	slices.Sort(trips)
	n := len(trips)
	typical, slow := trips[n/2], trips[n*9/10]
	// Half of the round trips differ by more than a script may be late, which a longer lease allows.
	varies := cfg.tolerance() < mostTolerance && trips[n*3/4]-trips[n/4] > 2*cfg.tolerance()
	if !varies && typical <= cfg.margin() { // a renewal fits into the margin of the lease
		return nil
	}
	least := max(leasesPerTolerance*min(slow-trips[0], mostTolerance), 5*typical)
	least = max(least, cfg.Lease+time.Second) + time.Second - 1
	return &LeaseError{Lease: cfg.Lease, Least: least.Truncate(time.Second), Fastest: trips[0], Slowest: slow, Trips: n}
}
