package ratelimit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// unknownEpoch is an epoch in which no lease was granted. Under it, Redis renews only the leases that it holds and
// accepts no others.
const unknownEpoch = "?"

// leasesPerRenewal bounds how long one renewal may keep Redis busy.
const leasesPerRenewal = 200

// renewals renews the heartbeat and the leases at intervals until ctx ends.
func (l *Limiter) renewals(ctx context.Context) error {
	for {
		began := time.Now()
		wait := l.cfg.Lease / 3
		if err := l.renew(ctx); err != nil {
			l.outage(ctx, err)
			wait = min(l.cfg.Lease/20, pauses.Longest)
		} else {
			l.answered()
		}
		if !l.restUntilDoubt(ctx, wait-time.Since(began)) {
			return nil
		}
	}
}

// restUntilDoubt waits for d, or less if watch doubts the leases, and reports whether ctx is still alive.
func (l *Limiter) restUntilDoubt(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.doubts:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// renew renews the heartbeat and every lease. It loses the leases that Redis does not hold and those past their
// LatestEnd. Leases in doubt (see watch) are renewed only if Redis holds them.
func (l *Limiter) renew(ctx context.Context) error {
	if err := l.lookAtClock(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	newcomer := l.until.isZero()
	l.mu.Unlock()
	if newcomer {
		if err := l.awaitLapsed(ctx); err != nil {
			return err
		}
	}

	began := l.now()
	var leases []*Lease
	l.mu.Lock()
	if !l.until.isZero() && began.reached(l.until) {
		// Too late: others may have noticed the lapse. watch fences the worker.
		l.mu.Unlock()
		return ErrFenced
	}
	doubtful := !l.until.isZero() && began.mayHaveReached(l.until)
	for _, e := range l.leases {
		if !e.latestEnd.isZero() && began.reached(e.latestEnd) {
			l.lose(e, fmt.Errorf("%w: its call should have ended", ErrLost))
			continue
		}
		doubtful = doubtful || began.mayHaveReached(e.until)
		leases = append(leases, e)
	}

	epoch := l.epoch
	told := l.cfg.Notes.tell(l.clock.shows(began))
	l.mu.Unlock()
	for {
		some := leases[:min(len(leases), leasesPerRenewal)]
		inForce, err := l.renewSome(ctx, epoch, doubtful, some, told)
		if err != nil {
			return err
		}
		told = nil
		if leases = leases[len(some):]; len(leases) == 0 {
			epoch = inForce
			break
		}
	}

	l.mu.Lock()
	l.epoch = epoch
	l.until = began.add(l.cfg.Lease - l.cfg.margin())
	l.mu.Unlock()
	if newcomer {
		close(l.beating)
	}
	return nil
}

// Memory returns the name of what Redis remembered, as Admin.Memory does, at the last renewal of all leases. It returns
// "" before the first renewal, and while nothing has been admitted yet.
func (l *Limiter) Memory() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epoch
}

// lookAtClock reads Redis's clock unless it was seen before.
func (l *Limiter) lookAtClock(ctx context.Context) error {
	l.mu.Lock()
	seen := !l.clock.from.isZero()
	l.mu.Unlock()
	if seen {
		return nil
	}

	before := l.now()
	shown, err := l.client.Time(ctx).Result()
	if err != nil {
		return fmt.Errorf("read redis's clock: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clock.see(before, l.now(), shown.UnixMicro())
	return nil
}

// renewSome runs the renew script for the heartbeat and some leases granted in an epoch. It also reports the usage of
// quotas and budgets that Redis may have forgotten. It returns the epoch in force. If doubtful, Redis renews only the
// leases that it holds.
func (l *Limiter) renewSome(ctx context.Context, epoch string, doubtful bool, leases []*Lease, uses []useNow) (inForce string, err error) {
	keys := []string{l.keys.registry(), l.keys.alive(), l.keys.ledger(l.cfg.Worker)}
	var renewed renewalArgs
	// Taken before the script runs: Redis counts from later.
	began := l.now()
	for _, e := range leases {
		var counts time.Duration
		if e.counts > 0 {
			counts = max(0, e.latestEnd.sub(began))
		}
		renewed.add(e.id, counts, e.rules, e.reserved)
	}
	renewed.addUses(uses)
	keys = append(append(keys, renewed.sets...), renewed.counts...)
	granted := epoch
	if doubtful {
		granted = unknownEpoch
	}
	inForce, indexes, err := l.runRenew(ctx, keys, renewed, granted, len(leases))
	if err != nil {
		return "", fmt.Errorf("renew leases: %w", err)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	lost := map[int64]bool{}
	for _, i := range indexes {
		lost[i] = true
	}
	for i, e := range leases {
		switch {
		case l.leases[e.id] != e: // released or lost meanwhile
			if e.release != nil && inForce != epoch && !lost[int64(i+1)] {
				l.endAgain(e)
			}
		case lost[int64(i+1)]:
			l.lose(e, fmt.Errorf("%w: redis does not hold it", ErrLost))
		default:
			e.until = began.add(l.cfg.Lease - l.cfg.margin())
			e.epoch = cmp.Or(inForce, e.epoch)
		}
	}
	return inForce, nil
}

// endAgain ends a lease again if it was released while a script that renewed it was on its way: the script may have
// arrived later, and budgets then reserve for the lease again. The caller holds the Limiter's lock.
func (l *Limiter) endAgain(e *Lease) {
	r := &release{id: e.id, rules: e.rules, keep: e.release.keep, reserved: e.reserved, written: make(chan struct{})}
	if r.keep == 0 {
		r.more = Used{Cost: -e.reserved.Cost}
	}
	l.mail.releases = append(l.mail.releases, r)
	l.wakePump()
}

// runRenew runs the renew script until Redis's clock shows the expected time. It returns the
// epoch in force and the indices, from 1, of the leases that are lost.
func (l *Limiter) runRenew(ctx context.Context, keys []string, renewed renewalArgs, epoch string, leases int) (string, []int64, error) {
	for {
		before := l.now()
		l.mu.Lock()
		earliest, latest := l.clock.expects(before, l.cfg.tolerance())
		l.mu.Unlock()
		args := append([]any{l.cfg.Worker, l.cfg.Lease.Microseconds(), epoch, leases, len(renewed.sets), earliest, latest}, renewed.args()...)
		reply, err := renewScript.Run(ctx, l.client, keys, args...).Slice()
		after := l.now()
		if err != nil {
			return "", nil, err
		}
		if len(reply) < 3 {
			return "", nil, fmt.Errorf("unexpected reply %v", reply)
		}
		inForce, ok := reply[0].(string)
		numbers, err := integers(reply[1:], nil)
		if err != nil || !ok {
			return "", nil, fmt.Errorf("unexpected reply %v: %w", reply, err)
		}

		shown, set := numbers[0], numbers[1]
		if shown < earliest || shown > latest {
			if err := l.disagree(ctx, before, after, shown); err != nil {
				return "", nil, err
			}
			continue
		}
		l.mu.Lock()
		l.clock.see(before, after, shown)
		l.clock.set = strconv.FormatInt(set, 10)
		l.mu.Unlock()
		return inForce, numbers[2:], nil
	}
}

// renewalArgs encodes leases for the renew script.
type renewalArgs struct {
	sets, counts []string // keys: of the leases' limits; of the state of budgets and quotas
	leases       []any    // arguments
	uses         []any    // arguments, five for each quota or budget
}

// args returns the arguments that describe leases and uses.
func (r *renewalArgs) args() []any {
	return append(append(slices.Clone(r.leases), len(r.uses)/5), r.uses...)
}

// addUses adds the usage of quotas and budgets that this process was told of.
func (r *renewalArgs) addUses(uses []useNow) {
	for _, u := range uses {
		r.uses = append(r.uses, indexIn(&r.counts, u.key), u.epoch, u.used, u.began, u.reset)
	}
}

// add adds a lease that ends after counts unless it is renewed (0: after the limiter's lease time), with what it
// reserves.
func (r *renewalArgs) add(id string, counts time.Duration, rules []*rule, reserved Used) {
	var sets, moneys, quotas []any
	for _, rule := range rules {
		if rule.leased() {
			sets = append(sets, indexIn(&r.sets, rule.state), rule.ending(reserved))
		}
		switch rule.way {
		case byBudget:
			moneys = append(moneys, indexIn(&r.sets, rule.state), indexIn(&r.counts, rule.money))
		case byQuota:
			quotas = append(quotas, indexIn(&r.counts, rule.state))
		}
	}
	r.leases = append(append(r.leases, id, counts.Microseconds(), len(sets)/2), sets...)
	r.leases = append(append(append(r.leases, len(moneys)/2), moneys...), reserved.Cost)
	r.leases = append(append(r.leases, len(quotas)), quotas...)
}

// indexIn returns the index of a key in a list, counted from 1. It appends the key if the list lacks it.
func indexIn(keys *[]string, key string) int {
	i := slices.Index(*keys, key)
	if i < 0 {
		i = len(*keys)
		*keys = append(*keys, key)
	}
	return i + 1
}

// watch fences the worker if its heartbeat has lapsed, and loses leases that have lapsed. It does not ask Redis, so
// nothing can delay it.
//
// A lease that has lapsed by the wall clock alone is in doubt: either the machine was paused, or its wall clock was
// set. Then nothing is sent (Lease.Check) until a renewal finds out. Redis's clock shows whether time has passed, and
// Redis renews only the leases that it still holds.
func (l *Limiter) watch(ctx context.Context) error {
	select {
	case <-l.beating:
	case <-ctx.Done():
		return nil
	}

	for {
		now := l.now()
		next := now.add(l.cfg.Lease / 10)
		l.mu.Lock()
		if now.reached(l.until) {
			l.loseAll(ErrFenced)
			l.tellDelay(now)
			close(l.fenced)
			l.mu.Unlock()
			return ErrFenced
		}
		doubtful := now.mayHaveReached(l.until)
		next = earlier(next, l.until)
		for _, e := range l.leases {
			if now.reached(e.until) {
				l.lose(e, fmt.Errorf("%w: not renewed in time", ErrLost))
				continue
			}
			doubtful = doubtful || now.mayHaveReached(e.until)
			next = earlier(next, e.until)
		}
		l.mu.Unlock()
		if doubtful {
			select {
			case l.doubts <- struct{}{}:
			default:
			}
		}
		if !sleep(ctx, next.sub(now)) {
			return nil
		}
	}
}

// sleep waits and reports whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
