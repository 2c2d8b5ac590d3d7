package ratelimit

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis's memory has epochs. A new one begins when the registry is empty (the first use, FLUSHALL, a restart without
// persistence). It also begins when the server is not the one that began the epoch in force (a restart with its memory,
// a failover), since it may lack the last writes.
//
// A new epoch trusts nothing: for one lease time, the grace period, no call is admitted, while every worker reports the
// leases it holds. Rates begin used up and windows of tokens full. Quotas and budgets are closed until they are told
// what was used (Seed, TellSpent).
//
// If an epoch began with the server's own start, or with its last flush, the grace period counts from there: a Redis
// that has been up for long, and was never a replica, delays no call. A process does not rely on this if it remembers
// an earlier epoch in which the server had as much memory: then the limiter's keys were deleted.

// forgotten is the rule that calls wait for while Redis may not know every lease.
var forgotten = &rule{id: MemoryID, way: byMemory}

// unregistered is the rule that calls wait for while one of their holders is not registered.
var unregistered = &rule{id: "registration", way: byRegistration}

// OnConnect returns a function for redis.Options.OnConnect. Before a new connection carries any other command, the
// function asks the server whether it began the epoch in force, and begins another epoch if not. A connection to a
// server that cannot answer yet, because it is loading or its Cluster is down, fails with the server's answer.
// namespace and lease are as in Config. A Cluster client needs WatchNodes as well.
func OnConnect(namespace string, lease time.Duration) func(context.Context, *redis.Conn) error {
	a := newAccess(nil, Config{Namespace: namespace, Lease: lease})
	return func(ctx context.Context, conn *redis.Conn) error {
		if err := a.recognise(ctx, conn); !refusesScripts(err) {
			return err
		}
		return nil
	}
}

// refusesScripts reports whether an error on reading the registry means that the server refuses every script too. A
// Sentinel, for example, has no such command. The refusal lasts as long as the connection, or until a person changes
// the server's settings. LOADING and CLUSTERDOWN pass by themselves.
func refusesScripts(err error) bool {
	for _, prefix := range []string{"MOVED", "ASK", "NOPERM", "WRONGTYPE", "unknown command"} {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}

// askable is a server that may have replaced the previous one.
type askable interface {
	infoer
	clocked
	HMGet(ctx context.Context, key string, fields ...string) *redis.SliceCmd
	HGetAll(ctx context.Context, key string) *redis.MapStringStringCmd
	Time(ctx context.Context) *redis.TimeCmd
	ZRangeWithScores(ctx context.Context, key string, start, stop int64) *redis.ZSliceCmd
}

// recognise begins an epoch if the server is not the one that began the epoch in force.
func (a access) recognise(ctx context.Context, c askable) error {
	ctx = context.WithValue(ctx, looking{}, true)
	known, err := c.HMGet(ctx, a.keys.registry(), epochField, runField).Result()
	if err != nil || known[0] == nil || known[1] == nil || known[1] == "" {
		return err // without an epoch, the first request begins one
	}
	run, _, err := server(ctx, c)
	if err != nil || run == "" || run == known[1] {
		return err
	}
	registry, err := c.HGetAll(ctx, a.keys.registry()).Result()
	if err != nil {
		return fmt.Errorf("read limits: %w", err)
	}
	if err := a.beginWith(ctx, c, laterEpoch, run, 0, a.cfg.Lease, "", a.keys.sums(registry)...); err != nil {
		return err
	}
	return a.correctClock(ctx, c)
}

// sums returns the limits in a registry that count all calls of a day or an evaluation. It skips limits that this
// program does not know.
func (k keys) sums(registry map[string]string) []*rule {
	var sets []string
	for holder, text := range registry {
		if !reserved(holder) {
			sets = append(sets, text)
		}
	}
	return k.rulesIn(sets, func(_ string, limit Limit) bool { return limit.Kind == Cost || limit.Resets != "" })
}

// rulesIn returns the rules of those limits in sets, each a holder's as JSON, that want selects by ID and limit. Limits
// with the same ID are one. It skips limits that this program does not know.
func (k keys) rulesIn(sets []string, want func(id string, limit Limit) bool) (rules []*rule) {
	seen := map[string]bool{}
	for _, text := range sets {
		var limits []Limit
		if json.Unmarshal([]byte(text), &limits) != nil {
			continue
		}
		for _, limit := range limits {
			if id := limit.ID(); !seen[id] && limit.Validate() == nil && want(id, limit) {
				seen[id] = true
				rules = append(rules, newRule(k, id, limit))
			}
		}
	}
	return rules
}

// Prefixes of the names of epochs, beside clockEpoch.
const (
	// firstEpoch begins the epoch of a server that has never been flushed and that no known process has used before. No
	// call can have been made under limits that it has forgotten, unless it was restarted without its data together
	// with every process. lua/seed.lua tests for it.
	firstEpoch = "first-"
	laterEpoch = ""
)

// deletedWithin is the tolerance for uptimes, which servers report in whole seconds.
const deletedWithin = 2 * time.Second

// deleted reports whether the limiter's keys were deleted between two epochs: Redis remembers no less in the second
// than in the first. before is nil if no earlier epoch is known.
func deleted(before, now *registry) bool {
	return before != nil && before.epoch != "" && now.epoch != before.epoch && !strings.HasPrefix(now.epoch, clockEpoch) &&
		now.since <= before.since+deletedWithin.Microseconds()
}

// begin replaces the epoch of a registry that is empty or cannot be trusted. known means that this process has seen an
// epoch before.
func (a access) begin(ctx context.Context, in *registry, known bool) error {
	var asked infoer = a.client
	if cluster, ok := a.client.(*redis.ClusterClient); ok {
		master, err := cluster.MasterForKey(ctx, a.keys.registry())
		if err != nil {
			return fmt.Errorf("find the server of the limits: %w", err)
		}
		asked = master
	}

	run, up, err := server(ctx, asked)
	if err != nil {
		return fmt.Errorf("ask the server when it started: %w", err)
	}
	stats, err := asked.Info(ctx, "commandstats").Result()
	var answered redis.Error
	if err != nil && !errors.As(err, &answered) {
		return fmt.Errorf("ask the server for flushes: %w", err)
	}

	replication, err := asked.Info(ctx, "replication").Result()
	if err != nil && !errors.As(err, &answered) {
		return fmt.Errorf("ask the server whether it was a replica: %w", err)
	}

	// A server that was never a replica has the zero ID there.
	wasReplica := strings.Contains(replication, "master_replid2:") && !strings.Contains(replication, "master_replid2:"+strings.Repeat("0", 40))
	name := firstEpoch
	if strings.Contains(stats, "cmdstat_flush") || strings.Contains(stats, "cmdstat_swapdb") || wasReplica || known {
		name, up = laterEpoch, 0
	}
	return a.beginWith(ctx, a.client, name, run, up, a.cfg.Lease, in.epoch)
}

// beginWith runs the begin script. name is the prefix of the epoch's name; memory is how far back Redis remembers; for
// unknown after that, it may not know every lease. instead is an epoch of the same server to replace; "": none. sums
// are the budgets and quotas some of whose calls Redis may not know.
func (a access) beginWith(
	ctx context.Context, c redis.Scripter, name, run string, memory, unknown time.Duration, instead string, sums ...*rule,
) error {
	keys, budgets := a.keys.begin(sums)
	err := beginScript.Run(ctx, c, keys,
		name+rand.Text(), run, memory.Microseconds(), unknown.Microseconds(), instead, budgets).Err()
	if err != nil {
		return fmt.Errorf("begin epoch: %w", err)
	}
	return nil
}

// begin builds the keys of the begin script.
func (k keys) begin(sums []*rule) (keys []string, budgets int) {
	keys = []string{k.registry()}
	for _, r := range sums {
		if r.way == byBudget {
			keys = append(keys, r.money, r.state)
			budgets++
		}
	}
	for _, r := range sums {
		if r.way == byQuota {
			keys = append(keys, r.state)
		}
	}
	return keys, budgets
}

type infoer interface {
	Info(ctx context.Context, section ...string) *redis.StringCmd
}

// longAgo is the assumed age of a server that does not report it.
const longAgo = 10 * 365 * 24 * time.Hour

// server asks a server for its run ID, "" if it does not report one, and for the least time that it has been up.
func server(ctx context.Context, c infoer) (run string, up time.Duration, err error) {
	info, err := c.Info(ctx, "server").Result()
	var answered redis.Error
	if errors.As(err, &answered) {
		return "", longAgo, nil // embedded, or forbidden
	}
	if err != nil {
		return "", 0, err
	}
	up = longAgo
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "run_id":
			run = value
		case "uptime_in_seconds":
			if seconds, err := strconv.Atoi(value); err == nil {
				// Uptimes count whole seconds from the second of the start, so they may be one too long.
				up = time.Duration(max(0, seconds-1)) * time.Second
			}
		}
	}
	return run, up, nil
}

// Since returns the time from which Redis remembers what limits admitted: the start of its epoch. It changes whenever
// Redis may have forgotten something. ok is false while no epoch is in force.
func (a *Admin) Since(ctx context.Context) (since time.Time, ok bool, err error) {
	registry, err := a.load(ctx)
	if err != nil {
		return since, false, err
	}
	return time.UnixMicro(registry.since), registry.epoch != "", nil
}

// Remember begins an epoch if none is in force, as the first call does. From then on Memory has
// a name, and a grace period if the server may have forgotten calls.
func (a *Admin) Remember(ctx context.Context) error {
	inForce, err := a.client.HExists(ctx, a.keys.registry(), epochField).Result()
	if err != nil {
		return fmt.Errorf("begin limits: %w", err)
	}
	if inForce {
		return nil
	}
	return a.begin(ctx, &registry{}, false)
}

// Begin begins an epoch in an empty registry, for a Redis that remembers everything for the last memory and that no
// earlier process still uses. An embedded Redis is one: its folder records when the last call was made. Begin does
// nothing if an epoch is in force.
func (a *Admin) Begin(ctx context.Context, memory time.Duration) error {
	if err := a.beginWith(ctx, a.client, firstEpoch, "", memory, 0, ""); err != nil {
		return fmt.Errorf("begin limits: %w", err)
	}
	return nil
}

// Reseed seeds the quotas in force whose usage Redis does not remember. who names the results store that seeds.
//
// used counts the calls that a quota's scope matches and that began between two times on Redis's clock. It leaves out
// the calls that the quota counts itself, named by the IDs of their leases. Calls that have ended must be recorded: see
// Grace. used also reports whether the store has any call from before the end of that time. A store without one opens
// no quota whose calls Redis may have forgotten: it may have been created after they were made. memory is as in
// TellSpent.
func (a *Admin) Reseed(
	ctx context.Context, who, memory string,
	used func(quota Scope, from, to time.Time, without []string) (calls int64, knows bool, err error),
) error {
	registry, now, err := a.loadAt(ctx)
	if err != nil {
		return err
	}
	for _, r := range registry.unsure(now) {
		counted, err := a.client.HKeys(ctx, r.state).Result()
		if err != nil {
			return fmt.Errorf("read calls under %s: %w", r.id, err)
		}
		var without []string
		for _, field := range counted {
			if id, ran := strings.CutPrefix(field, "ran:"); ran {
				without = append(without, id)
			}
		}

		last, _, _ := resets(now, r.zone)
		n, knows, err := used(r.Scope, last, time.UnixMicro(registry.since), without)
		if err == nil {
			err = a.seed(ctx, who, memory, r.Limit, n, knows)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Unsure reports whether a quota is in force for whose current day Redis may not know every call.
func (a *Admin) Unsure(ctx context.Context) (bool, error) {
	registry, now, err := a.loadAt(ctx)
	if err != nil {
		return false, err
	}
	return len(registry.unsure(now)) > 0, nil
}

// loadAt reads the registry and Redis's clock.
func (a *Admin) loadAt(ctx context.Context) (*registry, time.Time, error) {
	registry, err := a.load(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	now, err := a.client.Time(ctx).Result()
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read redis's clock: %w", err)
	}
	return registry, now, nil
}

// unsure returns the quotas whose current day, at a time on Redis's clock, began before Redis's memory.
func (r *registry) unsure(now time.Time) (quotas []*rule) {
	for _, rule := range r.rules {
		if rule.way != byQuota {
			continue
		}
		if last, _, _ := resets(now, rule.zone); r.since > last.UnixMicro() {
			quotas = append(quotas, rule)
		}
	}
	return quotas
}

// Seed tells a quota in force how much of it was used today by calls from before Redis's memory began. A second call
// with the same who replaces the first. A quota whose usage Redis does not remember is closed until it is seeded. If
// Redis remembers a part, for example after a failover, the greater of both amounts counts.
func (a *Admin) Seed(ctx context.Context, who string, quota Limit, used int64) error {
	return a.seed(ctx, who, "", quota, used, true)
}

// seed runs the seed script for a quota as Seed does. knows is false if who may not know all calls of the day: see
// Reseed. It returns ErrMemory if Redis's memory is no longer the one named memory.
func (a *Admin) seed(ctx context.Context, who, memory string, quota Limit, used int64, knows bool) error {
	if quota.Resets == "" {
		return fmt.Errorf("seed %s: it is not a quota", quota.ID())
	}
	now, err := a.client.Time(ctx).Result()
	if err != nil {
		return fmt.Errorf("seed %s: %w", quota.ID(), err)
	}

	rule := newRule(a.keys, quota.ID(), quota)
	_, next, _ := resets(now, rule.zone)
	keys := []string{rule.state, a.keys.registry(), a.keys.alive(), a.keys.changes()}
	inAll, err := seedScript.Run(ctx, a.client, keys, who, used, next.UnixMicro(), a.keys.wake(""), flag(!knows), memory).Int64()
	if err == nil && inAll == -2 {
		err = ErrMemory
	}
	if err != nil {
		return fmt.Errorf("seed %s: %w", quota.ID(), err)
	}
	return nil
}
