package ratelimit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// Leases, rates, windows and cooldowns are kept on Redis's clock, which may be set while it is
// in use. Each worker predicts Redis's clock from its own clock (ownClock): its scripts pass the
// expected time and do nothing if the clock disagrees. The first worker to notice moves
// everything stored along with the clock and begins an epoch, in which every worker reports its
// leases before anything is admitted.

// clock relates Redis's clock, as it was seen last, to our own. The zero clock expects nothing.
type clock struct {
	from instant // 0 on our clock
	at   instant // when it was seen
	// Redis's clock is ahead of ours by at least least and at most most.
	least, most time.Duration
	set         string // how often Redis's clock had been set by then
	// moved is the sum of the steps by which Redis's clock was set since the limiter started.
	moved time.Duration
	// ended means that no heartbeat follows Redis's clock any more.
	ended bool
}

// clockEpoch begins the names of epochs that began because the clock was set. Such a name ends with
// "@" and the name of the epoch that began with Redis's memory: see lua/epoch.lua.
const clockEpoch = "clock-"

// tolerance returns how far Redis's clock may be ahead of or behind its expected time, for example because it is being
// slewed. A script that takes longer to reach Redis than the one before, by more than this, is refused. Redis cannot
// tell it from a script that arrives on time after the clock was set.
func (c Config) tolerance() time.Duration { return min(c.Lease/leasesPerTolerance, mostTolerance) }

const (
	leasesPerTolerance = 20
	mostTolerance      = 500 * time.Millisecond
)

// delays counts the scripts that were refused because they took long to reach Redis.
type delays struct {
	since   instant
	scripts int
	longest time.Duration // by how much longer than the script before
	told    bool
}

// A lease is too short for the network delay when this many scripts are refused within so many
// leases.
const (
	manyDelays   = 3
	delaysLeases = 10
)

// noteDelay records that a script reached Redis later than expected. was is the clock as it was known at sent; reached
// is when the script arrived, in Unix µs on Redis's clock. The caller holds the Limiter's lock.
func (l *Limiter) noteDelay(was clock, sent instant, reached int64) {
	tolerance := l.cfg.tolerance()
	_, latest := was.expects(sent, 0)
	longer := time.Duration(reached-latest) * time.Microsecond
	if tolerance == mostTolerance || longer <= tolerance {
		return
	}
	d := &l.delays
	if d.scripts == 0 || sent.sub(d.since) > delaysLeases*l.cfg.Lease {
		*d = delays{since: sent, told: d.told}
	}
	d.scripts, d.longest = d.scripts+1, max(d.longest, longer)
	if d.scripts >= manyDelays {
		l.tellDelay(sent)
	}
}

// tellDelay warns once if several scripts were refused lately because they took long to reach Redis: the lease is too
// short for the network delay. The caller holds the Limiter's lock.
func (l *Limiter) tellDelay(now instant) {
	d := &l.delays
	if d.scripts == 0 || d.told || now.sub(d.since) > delaysLeases*l.cfg.Lease {
		return
	}
	d.told = true
	least := min(leasesPerTolerance*d.longest, leasesPerTolerance*mostTolerance) + time.Second - 1
	l.cfg.Log.Warn().Stringer("lease", l.cfg.Lease).Stringer("delay_varies_by", d.longest.Round(time.Millisecond)).
		Stringer("least_lease", least.Truncate(time.Second)).
		Msg("the network delay to redis varies by more than a twentieth of the lease: few calls start, or none; set " +
			"concurrency.lease to least_lease or more")
}

// expects returns the earliest and the latest time on Redis's clock, in Unix µs, at which a script sent at sent may
// run. The bounds are 0 and 2^52-1 while Redis's clock is unknown or no longer followed.
func (k clock) expects(sent instant, tolerance time.Duration) (earliest, latest int64) {
	if k.from.isZero() || k.ended {
		return 0, math.MaxInt64 >> 11 // Lua counts exactly up to 2^53
	}
	ours := sent.sub(k.from)
	return (ours + k.least - tolerance).Microseconds(), (ours + k.most + tolerance).Microseconds()
}

// shows returns the time that Redis's clock is expected to show at now on our clock. If Redis's clock was never seen,
// it returns our own wall clock's time.
func (k clock) shows(now instant) time.Time {
	if k.from.isZero() {
		return time.Unix(0, now.wall.Nanoseconds())
	}
	return time.UnixMicro((now.sub(k.from) + (k.least+k.most)/2).Microseconds())
}

// see notes that Redis's clock showed a time (Unix µs) at some instant between two.
func (k *clock) see(before, after instant, redis int64) {
	if k.from.isZero() {
		k.from = before
	}
	k.at = after
	shown := time.Duration(redis) * time.Microsecond
	k.least, k.most = shown-after.sub(k.from), shown-before.sub(k.from)
}

// leapt returns by how much Redis's clock was set, at least and at most. redis is the time (Unix µs) that Redis's clock
// showed between the instants before and after. It returns 0, 0 if the clock was not set.
func (k clock) leapt(before, after instant, redis int64, tolerance time.Duration) (least, most time.Duration) {
	if k.from.isZero() {
		return 0, 0
	}
	tolerance += after.sub(k.at) / 2000 // clocks drift apart
	now := k
	now.see(before, after, redis)
	least, most = now.least-k.most, now.most-k.least
	if least <= tolerance && most >= -tolerance {
		return 0, 0
	}
	return least, most
}

// ErrClock means that Redis's clock did not show the expected time, so the command did nothing. The clock was set, or
// the command took long to reach Redis. The error is temporary.
var ErrClock = errors.New("redis's clock shows an unexpected time")

// disagree finds out why Redis's clock showed an unexpected time between two instants. It returns ErrFenced if our own
// clock stopped.
func (l *Limiter) disagree(ctx context.Context, before, after instant, shown int64) error {
	l.disagreeing.Lock()
	defer l.disagreeing.Unlock()
	l.mu.Lock()
	was, epoch := l.clock, l.epoch
	l.mu.Unlock()
	if !before.reached(was.at) { // seen since
		return nil
	}
	least, most := was.leapt(before, after, shown, l.cfg.tolerance())
	if least == 0 && most == 0 { // the script was long on its way
		l.mu.Lock()
		l.noteDelay(was, before, shown)
		l.clock.see(before, after, shown)
		l.mu.Unlock()
		return nil
	}

	outcome, err := l.moveClock(ctx, was.set, epoch, least, most, time.UnixMicro(shown))
	if err != nil {
		return err
	}

	if outcome < 0 {
		l.cfg.Log.Warn().Dur("for", most).Msg("this process was suspended: other workers saw redis's clock advance")
		l.mu.Lock()
		l.until = l.now()
		l.mu.Unlock()
		return ErrFenced
	}

	if outcome > 0 {
		l.cfg.Log.Warn().Dur("by", most).Dur("wait", l.cfg.Lease).Msg("redis's clock was set; no call starts until every " +
			"worker has reported its leases")
	}
	l.mu.Lock()
	l.clock.see(before, after, shown)
	l.clock.moved += most
	l.mu.Unlock()
	return nil
}

func (l *Limiter) moveClock(ctx context.Context, set, epoch string, least, most time.Duration, now time.Time) (outcome int, err error) {
	registry, err := l.load(ctx)
	if err != nil {
		return 0, err
	}
	_, workers, err := l.heartbeats(ctx)
	if err != nil {
		return 0, fmt.Errorf("read heartbeats: %w", err)
	}

	ledgers := []string{backgroundCalls}
	for worker := range workers {
		ledgers = append(ledgers, worker)
	}

	return l.moveStored(ctx, l.client, registry, ledgers, now,
		set, most.Microseconds(), least.Microseconds(), l.cfg.Lease.Microseconds(),
		clockEpoch+rand.Text(), epoch, l.cfg.Worker, l.keys.wake(""))
}

// clocked is Redis as moveStored uses it.
type clocked interface {
	redis.Scripter
	ZRange(ctx context.Context, key string, start, stop int64) *redis.StringSliceCmd
}

// moveStored runs the clock script: for the ledgers of workers, and for the limits in force and those that were taken
// out of force lately. Redis may still have calls in flight under the latter, and when the next could start: times that
// would hold back calls if the limits came back after the clock was set back. move begins the script's arguments.
func (a access) moveStored(
	ctx context.Context, c clocked, inForce *registry, ledgers []string, now time.Time, move ...any,
) (outcome int, err error) {
	former, err := c.ZRange(ctx, a.keys.former(), 0, -1).Result()
	if err != nil {
		return 0, fmt.Errorf("read former limits: %w", err)
	}
	rules := slices.Concat(inForce.rules, a.keys.rulesIn(former, func(id string, _ Limit) bool { return inForce.byID[id] == nil }))

	keys, args := a.keys.clock(ledgers, rules, now)
	if outcome, err = clockScript.Run(ctx, c, keys, append(move, args...)...).Int(); err != nil {
		return 0, fmt.Errorf("move limits with the clock: %w", err)
	}
	return outcome, nil
}

// clock builds the keys and arguments of the clock script. now is what Redis's clock shows.
func (k keys) clock(ledgers []string, rules []*rule, now time.Time) (keys []string, args []any) {
	keys, args = []string{k.registry(), k.alive(), k.cooldowns()}, []any{len(ledgers), len(rules)}
	for _, worker := range ledgers {
		keys = append(keys, k.ledger(worker))
	}
	for _, r := range rules {
		slot := r.slot
		if r.way == byQuota {
			_, next, _ := resets(now, r.zone)
			slot = next.UnixMicro()
		}
		keys, args = append(keys, r.state, r.waiters), append(args, string(r.way), slot)
	}
	for _, r := range rules {
		if r.Adaptive {
			keys = append(keys, r.cut)
		}
	}
	return keys, args
}

// trusts returns an error while heartbeats may be times of a clock that has been set since. Redis's clock showed the
// time shown (Unix µs) between the instants before and after.
func (a *Admin) trusts(before, after instant, shown int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	least, most := a.clock.leapt(before, after, shown, a.cfg.tolerance())
	if least != 0 || most != 0 {
		a.unsure = after.add(a.cfg.Lease)
	}
	a.clock.see(before, after, shown)
	if !after.reached(a.unsure) {
		return ErrClock
	}
	return nil
}
