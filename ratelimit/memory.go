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

// Redis's memory has epochs. A new one begins when the registry is empty (the first use,
// FLUSHALL, a restart without persistence) and when the server is not the one that began the
// epoch in force (a restart with its memory, a failover), since it may lack the last writes.
//
// A new epoch trusts nothing: for one lease time, the grace period, no call is admitted, while
// every worker reports the leases it holds; rates begin used up, windows of tokens full, and
// quotas and budgets closed until they are told what was used (Seed, TellSpent). The grace period of an epoch that began
// with the server's own start, or with its last flush, counts from there: a Redis that has been
// up for long, and was never a replica, delays no call. A process that remembers an earlier
// epoch in which the server had as much memory does not rely on this: then the limiter's keys
// were deleted.

// forgotten is what calls wait for while Redis may not know every lease.
var forgotten = &rule{id: MemoryID, way: byMemory}

// unregistered is the set of waiting calls that have an unregistered holder.
var unregistered = &rule{id: "registration", way: byRegistration}

// OnConnect returns a function for redis.Options.OnConnect. It asks the server of a new
// connection whether it began the epoch in force, and begins another epoch if not, before the
// connection carries any other command. A connection to a server that cannot answer yet,
// because it is loading or its Cluster is down, is refused with the server's answer. namespace
// and lease are as in Config. A Cluster client needs WatchNodes as well.
func OnConnect(namespace string, lease time.Duration) func(context.Context, *redis.Conn) error {
	a := newAccess(nil, Config{Namespace: namespace, Lease: lease})
	return func(ctx context.Context, conn *redis.Conn) error {
		if err := a.recognise(ctx, conn); !refusesScripts(err) {
			return err
		}
		return nil
	}
}

// refusesScripts reports whether an answer about the registry means that the server
// refuses every script on it too, for as long as the connection lasts or until a
// person changes its settings: a Sentinel knows no such command. LOADING and
// CLUSTERDOWN pass by themselves.
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
	redis.Scripter
	HMGet(ctx context.Context, key string, fields ...string) *redis.SliceCmd
	HGetAll(ctx context.Context, key string) *redis.MapStringStringCmd
	Time(ctx context.Context) *redis.TimeCmd
	ZRangeWithScores(ctx context.Context, key string, start, stop int64) *redis.ZSliceCmd
}

// recognise begins an epoch when a server is another than the one that began the
// one in force.
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

// sums returns the limits in a registry that count all calls of a day or an evaluation. It passes
// over what this program does not know.
func (k keys) sums(registry map[string]string) (sums []*rule) {
	seen := map[string]bool{}
	for holder, text := range registry {
		var limits []Limit
		if reserved(holder) || json.Unmarshal([]byte(text), &limits) != nil {
			continue
		}
		for _, limit := range limits {
			if id := limit.ID(); !seen[id] && limit.Validate() == nil && (limit.Kind == Cost || limit.Resets != "") {
				seen[id] = true
				sums = append(sums, newRule(k, id, limit))
			}
		}
	}
	return sums
}

// What the names of epochs begin with, beside clockEpoch.
const (
	// firstEpoch is that of a server that has never been flushed and that no known process has
	// used before: no call can have been made under limits that it has forgotten, unless it was
	// restarted without its data together with every process. lua/seed.lua knows it.
	firstEpoch = "first-"
	laterEpoch = ""
)

// deletedWithin allows for a server's uptime being reported in whole seconds.
const deletedWithin = 2 * time.Second

// deleted reports whether the limiter's keys have been deleted between two epochs, nil
// for none: Redis remembers no less in the second than it did in the first.
func deleted(before, now *registry) bool {
	return before != nil && before.epoch != "" && now.epoch != before.epoch && !strings.HasPrefix(now.epoch, clockEpoch) &&
		now.since <= before.since+deletedWithin.Microseconds()
}

// begin replaces the epoch of a registry that is empty or cannot be trusted. known: this
// process has seen an epoch before.
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

// beginWith runs the begin script. name is what the epoch's name begins with, memory how far back
// Redis remembers, unknown for how long from there it may not know every lease. instead is an
// epoch of the same server that gives way; "": none does. sums are the budgets and quotas whose calls it may not know
// all.
func (a access) beginWith(ctx context.Context, c redis.Scripter, name, run string, memory, unknown time.Duration, instead string, sums ...*rule) error {
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

// longAgo is the age of a server that does not tell it.
const longAgo = 10 * 365 * 24 * time.Hour

// server asks a server for its run id, "" when it does not tell, and for the time
// that it has been up, at least.
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
				// From the second of its start to that of now: up to one too many.
				up = time.Duration(max(0, seconds-1)) * time.Second
			}
		}
	}
	return run, up, nil
}

// Since is from when on Redis remembers what limits admitted: where its epoch begins.
// It changes whenever Redis may have forgotten. ok is false while no epoch is in
// force.
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

// Begin begins an epoch in an empty registry, for a Redis whose memory reaches back that far
// and that no earlier process still uses: an embedded one, whose folder records when the last
// call was made. It does nothing when an epoch is in force.
func (a *Admin) Begin(ctx context.Context, memory time.Duration) error {
	if err := a.beginWith(ctx, a.client, firstEpoch, "", memory, 0, ""); err != nil {
		return fmt.Errorf("begin limits: %w", err)
	}
	return nil
}

// Reseed seeds the quotas in force whose usage Redis does not remember, in the name of who, a
// results store. used counts the calls that a quota's scope matches and that began between two
// times on Redis's clock, without those that the quota counts itself, named by the IDs of their
// leases; the calls that have ended must be recorded: see Grace. used also reports whether who has
// any call from before to. One that has none opens no quota whose calls Redis may have forgotten:
// it may have been created after they were made. memory is as in TellSpent.
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

// Unsure reports whether a quota is in force of whose day Redis may not know every call.
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

// unsure returns the quotas whose day, at a time on Redis's clock, began before Redis's memory.
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

// Seed tells a quota in force how much of it was used today, by calls from before Redis's
// memory; a second call with the same who replaces the first. A quota that Redis does not
// remember is closed until it is seeded. Of one that it remembers in part, after a failover for
// example, the greater of both amounts counts.
func (a *Admin) Seed(ctx context.Context, who string, quota Limit, used int64) error {
	return a.seed(ctx, who, "", quota, used, true)
}

// seed is Seed by one that may not know: see Reseed.
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
