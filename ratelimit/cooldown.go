package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Cool starts no call of a scope for a while, in any process, after a provider has reported
// too many requests. wait is the provider's own hint; without one (0) it is a second, doubled
// up to a minute each time that the first call after it is refused too. When it is over one
// call starts, and a second later, if none was refused, the others. Only the scope's Provider,
// Model and Group count. Calls in flight continue. Of several cooldowns the latest end applies.
func (l *Limiter) Cool(ctx context.Context, scope Scope, wait time.Duration) error {
	return l.cool(ctx, scope, wait, coolWord)
}

// Park is Cool for wait, which is known, because a day's quota is used up:
// Cooldowns tells the two apart.
func (l *Limiter) Park(ctx context.Context, scope Scope, wait time.Duration) error {
	return l.cool(ctx, scope, max(wait, time.Microsecond), parkedWord)
}

// The words that mark how a cooldown ends: with a probe; likewise, begun by Park; at the pace of
// the rates; with an answer to a probe.
const (
	coolWord   = "cool"
	parkedWord = "parked"
	pacedWord  = "paced"
	outWord    = "out"
)

// provingWord is outWord while a probe is in flight.
const provingWord = "proving"

// longestPaced is the longest cooldown after which calls resume without a probe.
const longestPaced = 5 * time.Second

// cool is the cooldown script; rates are those that a paced cooldown empties.
func (a access) cool(ctx context.Context, scope Scope, wait time.Duration, word string, rates ...*rule) error {
	names := cooldownsOf(scope)
	if len(names) == 0 {
		return fmt.Errorf("cool down calls: the scope has no provider and no group")
	}
	name := names[len(names)-1] // the narrowest
	keys, args := []string{a.keys.cooldowns()}, []any{name, max(0, wait).Microseconds(), word}
	if word == outWord {
		args = append(args, randomPart())
	}
	for _, r := range rates {
		keys, args = append(keys, r.state), append(args, r.interval, r.burst)
	}
	if err := cooldownScript.Run(ctx, a.client, keys, args...).Err(); err != nil {
		return fmt.Errorf("cool down %s: %w", name, err)
	}
	return nil
}

// Cool starts a cooldown, as the Limiter's does, for every call of the limit that the
// lease's call was refused under: of the kind that the provider named, or any
// ("") when it named none. Where no limit of that kind is in force it is the
// call's model.
//
// After a wait of a few seconds, calls under a rate resume at its pace without a probe, unless a
// call was refused shortly after they did so last.
func (e *Lease) Cool(ctx context.Context, kind Kind, wait time.Duration) error {
	scope := Scope{Provider: e.call.Provider, Model: e.call.Model}
	var found *rule
	for _, r := range e.rules {
		if kind == "" || r.Kind != kind || r.Provider == "" && r.Group == "" {
			continue
		}
		if found == nil || r.Model != "" {
			found = r
		}
	}
	if found != nil {
		scope = Scope{Provider: found.Provider, Model: found.Model, Group: found.Group}
	}
	rates := e.paces(kind, wait)
	if len(rates) == 0 {
		return e.limiter.Cool(ctx, scope, wait)
	}
	return e.limiter.cool(ctx, scope, wait, pacedWord, rates...)
}

// paces are the rates at whose pace calls may resume after a refusal. There are none where the
// provider named another kind of limit, or no short time.
func (e *Lease) paces(kind Kind, wait time.Duration) (rates []*rule) {
	if wait <= 0 || wait > longestPaced || kind != "" && kind != Requests {
		return nil
	}
	for _, r := range e.rules {
		if r.way == byRate && r.Kind == Requests && r.Provider != "" {
			rates = append(rates, r)
		}
	}
	return rates
}

// cooldownsOf names the cooldowns that apply to a call, the widest first.
func cooldownsOf(call Scope) []string {
	var names []string
	if call.Group != "" {
		names = append(names, "group/"+call.Group)
	}
	if call.Provider != "" {
		names = append(names, "provider/"+call.Provider)
		if call.Model != "" {
			names = append(names, "provider/"+call.Provider+"/model/"+call.Model)
		}
	}
	return names
}

// cooldownID is what a call that waits for a cooldown says bound it.
func cooldownID(name string) string { return name + "/cooldown" }

// MemoryID is the id of the time in which no call starts, because Redis has started or lost data
// and may not know every call in flight.
const MemoryID = "redis/memory"

// Cooldown is a scope whose calls do not start for a while; that of MemoryID is every call.
type Cooldown struct {
	ID     string        // "provider/openai/model/gpt-5/cooldown", or MemoryID; of a Worker's own trouble without "/cooldown"
	Wait   time.Duration // until calls may start
	Probe  bool          // one call was let through, and others wait for what becomes of it
	Parked bool          // a day's quota is used up
	Paced  bool          // calls resume without a probe, at the pace of their rates
	Outage bool          // calls have no answer, see Suspend
	// Trouble is what was reported of the calls; nil: nothing.
	Trouble *Trouble
	// Worker has the trouble alone: it starts no calls of the provider, and others do. Empty: it
	// is a cooldown of every process.
	Worker string
}

// String says which calls are in cooldown, and whether for the rest of a day.
func (c Cooldown) String() string {
	scope, ok := c.Scope()
	switch {
	case c.Worker != "":
		return scope.String() + ": not reached by worker " + c.Worker
	case ok && c.Outage:
		return scope.String() + ": outage"
	case ok && c.Parked:
		return scope.String() + ": parked"
	}
	return WaitedFor(c.ID)
}

// Scope returns whose calls wait; ok is false for those of every process and provider.
func (c Cooldown) Scope() (scope Scope, ok bool) {
	if c.Worker != "" {
		return CooldownScope(cooldownID(c.ID))
	}
	return CooldownScope(c.ID)
}

// longWithout is how long a provider must answer no call before its message is shown.
const longWithout = time.Minute

// Notable reports whether people who wait should know of it: it is no pause of some seconds.
func (c Cooldown) Notable() bool {
	switch {
	case c.ID == MemoryID, c.Parked, c.Outage, c.Worker != "":
		return true
	}
	return c.Trouble != nil && (c.Trouble.For >= longWithout || c.Wait >= longWithout)
}

// Why returns the cause: the provider's answer, and its consequence.
func (c Cooldown) Why() string {
	switch {
	case c.ID == MemoryID:
		return "calls may be in flight that it does not know; until then every worker reports its own"
	case c.Worker != "":
		return "only this worker's calls fail; it tries one at growing intervals, and others make its runs"
	case c.Outage && c.Probe:
		return "no call has an answer; one has started, and the others wait for its answer"
	case c.Outage:
		return "no call has an answer; one is tried at growing intervals, and the others start once it is answered"
	case c.Probe:
		return "one call has started since the provider reported too many requests; the others wait for its answer"
	case c.Parked:
		return "the provider reports that a daily quota is used up"
	case c.Paced:
		return "the provider reported too many requests; afterwards calls start at the pace of the rate limit"
	}
	return "the provider reported too many requests; afterwards one call starts, and the others if it is not refused"
}

// Cooldowns lists the cooldowns in force and the troubles that single workers have, by ID.
func (a *Admin) Cooldowns(ctx context.Context) ([]Cooldown, error) {
	pipe := a.client.Pipeline()
	clock, fields := pipe.Time(ctx), pipe.HGetAll(ctx, a.keys.cooldowns())
	blind, troubles := pipe.HGet(ctx, a.keys.registry(), blindField), pipe.HGetAll(ctx, a.keys.troubles())
	beats := pipe.ZRangeWithScores(ctx, a.keys.alive(), 0, -1)
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("read cooldowns: %w", err)
	}

	now := clock.Val().UnixMicro()
	known := parseTroubles(now, troubles.Val())
	cooldowns := append(parseCooldowns(now, fields.Val(), known), ownTroubles(known, aliveAt(now, beats.Val()))...)
	if until, err := blind.Int64(); err == nil && until > now {
		cooldowns = append(cooldowns, Cooldown{ID: MemoryID, Wait: time.UnixMicro(until).Sub(clock.Val())})
	}
	sortCooldowns(cooldowns)
	return cooldowns, nil
}

// parseCooldown reads when a cooldown ends, in µs, and its state.
func parseCooldown(value string) (ends int64, state string, ok bool) {
	var step int64
	n, _ := fmt.Sscanf(value, "%d %s %d", &ends, &state, &step)
	return ends, state, n == 3
}

func parseCooldowns(now int64, fields map[string]string, troubles map[string]Trouble) []Cooldown {
	var cooldowns []Cooldown
	for name, value := range fields {
		ends, state, ok := parseCooldown(value)
		c := Cooldown{
			ID: cooldownID(name), Wait: max(0, time.Duration(ends-now)*time.Microsecond), Probe: state == "probe" || state == provingWord,
			Parked: state == parkedWord, Paced: state == pacedWord, Outage: state == outWord || state == provingWord,
		}
		trouble, known := troubles[name]
		if known {
			c.Trouble = &trouble
		}
		// The next call of an outage may be due and not there yet.
		if ok && (c.Wait > 0 || c.Outage && known) {
			cooldowns = append(cooldowns, c)
		}
	}
	return cooldowns
}
