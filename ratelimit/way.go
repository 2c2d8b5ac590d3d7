package ratelimit

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// LeaseError means that a lease is too short for the network delay to Redis: renewals would come too
// late, or most scripts would be refused, because Redis cannot tell one that was long on its way from one
// that ran after its clock was set.
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
	// Round trips that CheckLease measures: fewer if they take longer than wayTime in all.
	wayTrips = 30
	wayLeast = 8
	wayTime  = 3 * time.Second
)

// CheckLease measures round trips to Redis, and returns a *LeaseError if the lease cannot work with
// them. A few slow ones among many, as a busy machine has, are no reason. A Redis that does not
// answer is none either: it passes.
func (a *Admin) CheckLease(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*wayTime)
	defer cancel()
	var trips []time.Duration
	for began := a.now(); len(trips) < wayTrips && (len(trips) < wayLeast || a.now().sub(began) < wayTime); {
		sent := a.now()
		if a.client.Exists(ctx, a.keys.registry()).Err() != nil {
			return nil
		}
		trips = append(trips, a.now().sub(sent))
	}
	return checkLease(a.cfg, trips[1:]) // the first opens the connection
}

// checkLease compares a lease with round trips.
func checkLease(cfg Config, trips []time.Duration) error {
	slices.Sort(trips)
	n := len(trips)
	typical, slow := trips[n/2], trips[n*9/10]
	// Half of the round trips differ by more than a script may be late, which a longer lease allows.
	varies := cfg.tolerance() < mostTolerance && trips[n*3/4]-trips[n/4] > 2*cfg.tolerance()
	if !varies && typical <= cfg.margin() { // a renewal takes no longer than a lease outlives it
		return nil
	}
	least := max(leasesPerTolerance*min(slow-trips[0], mostTolerance), 5*typical)
	least = max(least, cfg.Lease+time.Second) + time.Second - 1
	return &LeaseError{Lease: cfg.Lease, Least: least.Truncate(time.Second), Fastest: trips[0], Slowest: slow, Trips: n}
}
