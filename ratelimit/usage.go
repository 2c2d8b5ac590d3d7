package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Alive reports for every worker known to Redis whether its heartbeat is valid, by Redis's clock. A worker that is not
// in the map is not alive.
func (a *Admin) Alive(ctx context.Context) (map[string]bool, error) {
	beats, err := a.Beats(ctx)
	if err != nil {
		return nil, err
	}
	alive := make(map[string]bool, len(beats))
	for worker, left := range beats {
		alive[worker] = left > 0
	}
	return alive, nil
}

// Beats returns how long the heartbeat of every worker known to Redis remains valid, by Redis's clock: 0 or less if it
// has lapsed.
//
// Right after Redis's clock was set, heartbeats are meaningless, and Beats returns an error until every worker has
// renewed its own.
func (a *Admin) Beats(ctx context.Context) (map[string]time.Duration, error) {
	before := a.now()
	now, workers, err := a.heartbeats(ctx)
	if err == nil {
		err = a.trusts(before, a.now(), int64(now))
	}
	if err != nil {
		return nil, fmt.Errorf("read heartbeats: %w", err)
	}
	beats := make(map[string]time.Duration, len(workers))
	for worker, end := range workers {
		beats[worker] = time.Duration(end-now) * time.Microsecond
	}
	return beats, nil
}

// heartbeats reads Redis's time and the end of each heartbeat, in microseconds.
func (a access) heartbeats(ctx context.Context) (now float64, ends map[string]float64, err error) {
	pipe := a.client.Pipeline()
	clock := pipe.Time(ctx)
	members := pipe.ZRangeWithScores(ctx, a.keys.alive(), 0, -1)
	if _, err := pipe.Exec(ctx); err != nil {
		return 0, nil, err
	}
	ends = map[string]float64{}
	for _, member := range members.Val() {
		ends[member.Member.(string)] = member.Score
	}
	return float64(clock.Val().UnixMicro()), ends, nil
}

// Grace returns what is left of the grace period, in which Redis may have forgotten heartbeats and leases: a worker
// without a heartbeat may be alive. 0 or less: Redis knows them all.
func (a *Admin) Grace(ctx context.Context) (time.Duration, error) {
	_, grace, err := a.Memory(ctx)
	return grace, err
}

// Memory returns a name for what Redis remembers: it changes when Redis may have forgotten something. The name is ""
// while nothing has been admitted yet. grace is as in Grace.
func (a *Admin) Memory(ctx context.Context) (name string, grace time.Duration, err error) {
	pipe := a.client.Pipeline()
	clock := pipe.Time(ctx)
	fields := pipe.HMGet(ctx, a.keys.registry(), epochField, blindField)
	var known struct {
		Epoch string `redis:"epoch"`
		Blind int64  `redis:"blind"`
	}
	_, err = pipe.Exec(ctx)
	if err == nil {
		err = fields.Scan(&known)
	}
	if err != nil {
		return "", 0, fmt.Errorf("read the grace period: %w", err)
	}
	return known.Epoch, time.UnixMicro(known.Blind).Sub(clock.Val()), nil
}

// Forget removes a worker with a lapsed heartbeat from the heartbeats and from every wait queue, and removes the limits
// that it pinned. It leaves a worker with a valid heartbeat alone.
func (a *Admin) Forget(ctx context.Context, worker string) error {
	if err := a.remove(ctx, worker, false); err != nil {
		return fmt.Errorf("forget worker %s: %w", worker, err)
	}
	return nil
}

// remove runs the forget script for a worker. leaving means that the worker itself asks for it, with its heartbeat
// still valid.
func (a access) remove(ctx context.Context, worker string, leaving bool) error {
	registry, err := a.load(ctx)
	if err != nil {
		return err
	}
	var ids []string
	for _, r := range registry.rules {
		ids = append(ids, r.id)
	}
	keys, args := a.keys.forget(worker, leaving, ids)
	return forgetScript.Run(ctx, a.client, keys, args...).Err()
}

// forget builds the keys and arguments of the forget script.
func (k keys) forget(worker string, leaving bool, limits []string) (keys []string, args []any) {
	keys = []string{k.alive(), k.registry(), k.changes(), k.former()}
	for _, id := range limits {
		keys = append(keys, k.waiters(id))
	}
	return keys, []any{worker, flag(leaving), WorkerHolder(worker), k.wake("")}
}

// Usage is how much of a limit is used.
type Usage struct {
	Limit   Limit
	Holders []string // who pinned it, with this value or another
	// InUse depends on the kind of limit. For a concurrency limit it counts leases. For tokens in a window it counts
	// the tokens started in the window, above Allowed if calls used more than they reserved. For a quota it counts
	// calls since the last reset, or is Max if Redis does not remember them. For enqueued tokens it counts the tokens
	// of batches that have not ended.
	InUse int
	// Cut is, for an adaptive limit, the time since which Limit.Max is less than Cap, the value that its holders
	// pinned. Both are zero for other limits and for a limit that is not cut.
	Cut time.Time
	Cap int64
	// Spent is, for a budget, the nano-USD spent and reserved. Closed means that the amount is unknown, so no call is
	// admitted. InUse counts leases then, too.
	Spent  int64
	Closed bool
	// Margin is the measured margin that a rate keeps; zero: its jitter was set.
	Margin  Margin
	Allowed int64         // of what InUse counts: Max, or a window's part of it; 0 for a rate
	Waiting int           // live workers with calls that wait for it
	Wait    time.Duration // of a rate: until it admits the next call; of a quota: until its reset
}

// Binds reports whether calls wait for this limit now.
func (u Usage) Binds() bool {
	if u.Limit.Kind == Cost || u.Limit.Kind == EnqueuedTokens {
		return u.Waiting > 0
	}
	if u.Limit.Kind == Concurrency || u.Limit.Resets != "" {
		return u.Waiting > 0 && int64(u.InUse) >= u.Limit.Max
	}
	return u.Waiting > 0 && (u.Wait > 0 || u.Limit.windowed())
}

// Usage reads how much of each limit in force is used, by ID.
func (a *Admin) Usage(ctx context.Context) ([]Usage, error) {
	usage, err := a.usage(ctx)
	if err != nil {
		return nil, fmt.Errorf("read use of limits: %w", err)
	}
	return usage, nil
}

func (a *Admin) usage(ctx context.Context) ([]Usage, error) {
	registry, cuts, err := a.adapted(ctx)
	if err != nil {
		return nil, err
	}
	now, alive, err := a.heartbeats(ctx)
	if err != nil {
		return nil, err
	}

	waiters := make([]*redis.StringSliceCmd, len(registry.rules))
	leases := make([]*redis.IntCmd, len(registry.rules))
	weights := make([]*redis.StringSliceCmd, len(registry.rules))
	arrivals := make([]*redis.StringCmd, len(registry.rules))
	counts := make([]*redis.MapStringStringCmd, len(registry.rules))
	after := "(" + strconv.FormatFloat(now, 'f', 0, 64)
	pipe := a.client.Pipeline()
	for i, r := range registry.rules {
		waiters[i] = pipe.ZRange(ctx, r.waiters, 0, -1)
		switch r.way {
		case byLeases:
			leases[i] = pipe.ZCount(ctx, r.state, after, "+inf")
		case byBudget:
			leases[i] = pipe.ZCount(ctx, r.state, after, "+inf")
			counts[i] = pipe.HGetAll(ctx, r.money)
		case byWeight:
			weights[i] = pipe.ZRangeByScore(ctx, r.state, &redis.ZRangeBy{Min: after, Max: "+inf"})
		case byRate:
			arrivals[i] = pipe.Get(ctx, r.state)
		default:
			counts[i] = pipe.HGetAll(ctx, r.state)
		}
	}

	// A rate that was not used lately has no key.
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	usage := make([]Usage, len(registry.rules))
	for i, r := range registry.rules {
		u := Usage{Limit: r.Limit, Holders: slices.Clone(r.holders), Margin: r.margin}
		for _, worker := range waiters[i].Val() {
			if alive[worker] > now {
				u.Waiting++
			}
		}
		switch r.way {
		case byLeases:
			if cut, is := cuts[r.id]; is {
				u.Limit.Max, u.Cut, u.Cap = cut.max, cut.since, r.Max
			}
			u.InUse, u.Allowed = int(leases[i].Val()), u.Limit.Max
		case byBudget:
			fields := counts[i].Val()
			u.InUse, u.Allowed = int(leases[i].Val()), r.Max
			u.Spent, _ = strconv.ParseInt(fields["used"], 10, 64)
			u.Closed = fields["told"] == ""
		case byWeight:
			u.Allowed = r.Max
			for _, member := range weights[i].Val() {
				u.InUse += int(weightOf(member))
			}
		case byRate:
			if seconds, err := arrivals[i].Float64(); err == nil {
				u.Wait = r.freeIn(int64(now), seconds)
			}
		case byWindow:
			u.InUse, u.Allowed = int(r.inWindow(int64(now), counts[i].Val())), r.most
		case byQuota:
			u.Allowed = r.Max
			fields := counts[i].Val()
			last, next, _ := resets(time.UnixMicro(int64(now)), r.zone)
			reset, _ := strconv.ParseInt(fields["reset"], 10, 64)
			switch {
			case reset > int64(now) && fields["closed"] == "":
				u.InUse, _ = strconv.Atoi(fields["used"])
				u.Wait = time.Duration(min(reset, next.UnixMicro())-int64(now)) * time.Microsecond // sooner where the clock was set back
			case registry.since > last.UnixMicro() || fields["closed"] != "": // its use is not known, and it is closed
				u.InUse, u.Wait = int(r.Max), time.Duration(next.UnixMicro()-int64(now))*time.Microsecond
			}
		}
		usage[i] = u
	}

	return usage, nil
}

// rateEpoch is the zero of redis_rate's times: the start of 2017, in Unix seconds.
const rateEpoch = 1483228800

// freeIn returns the time from now (Unix microseconds) until a rate with this theoretical arrival time (seconds since
// rateEpoch) admits a call.
func (r *rule) freeIn(now int64, arrival float64) time.Duration {
	tat := max(int64(math.Round((arrival+rateEpoch)*1e6)), now)
	return time.Duration(max(0, tat-int64(float64(r.burst-1)*r.interval)-now)) * time.Microsecond
}

// inWindow sums the slots of a window that count at a time (Unix microseconds).
func (r *rule) inWindow(now int64, slots map[string]string) (units int64) {
	oldest := (now - r.span) / r.slot
	for name, text := range slots {
		slot, err := strconv.ParseInt(name, 10, 64)
		if err != nil || slot < oldest {
			continue // not a slot, or outside the window
		}
		n, _ := strconv.ParseInt(text, 10, 64)
		units += n
	}
	return units
}
