package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Cool stops calls of a scope from starting for a while, in any process, after a provider has reported too many
// requests. wait is the provider's own hint. Without one (0) it is a second, doubled up to a minute each time the first
// call after it is refused too. When the time is over one call starts, and a second later, if none was refused, the
// others. Only the scope's Provider, Model, Tier and Group count. Calls in flight continue. Of several cooldowns the latest
// end applies.
func (l *Limiter) Cool(ctx context.Context, scope Scope, wait time.Duration) error {
	return l.cool(ctx, scope, wait, coolWord)
}

// Park starts a cooldown like Cool, for a known wait, because a day's quota is used up. Cooldowns lists it as Parked.
func (l *Limiter) Park(ctx context.Context, scope Scope, wait time.Duration) error {
	return l.cool(ctx, scope, max(wait, time.Microsecond), parkedWord)
}

// The words that mark how a cooldown ends: with a probe; with a probe, after Park; at the pace of the rates; with an
// answer to a probe.
const (
	coolWord   = "cool"
	parkedWord = "parked"
	pacedWord  = "paced"
	outWord    = "out"
)

// provingWord replaces outWord while a probe is in flight.
const provingWord = "proving"

// longestPaced is the longest cooldown after which calls resume without a probe.
const longestPaced = 5 * time.Second

// cool runs the cooldown script for the narrowest of the scope's cooldowns. word marks how the cooldown ends. rates are
// the rates that a paced cooldown empties.
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

// Cool starts a cooldown, as Limiter.Cool does, for all calls of the limit under which the provider refused this call.
// kind is the kind of limit that the provider named; "" if it named none. Without a limit of that kind in force, the
// cooldown covers the call's model. The refusal of a batch holds back only batches of its model. If the provider named
// no limit, and the call asks for a service tier other than the standard one, it covers that tier of the model, whose
// capacity is refused apart. wait is the provider's own hint; 0: it gave none. Call Cool before the lease ends, so that
// no other call takes its place first.
//
// After a wait of up to 5 s, calls under a rate resume at its pace without a probe. They need a probe if a call was
// refused shortly after the last such resumption.
func (e *Lease) Cool(ctx context.Context, kind Kind, wait time.Duration) error {
	scope := Scope{Provider: e.call.Provider, Model: e.call.Model}
	batch := e.call.Tier == TierBatch
	if kind == "" || batch {
		scope.Tier = e.call.Tier
	}
	var found *rule
	for _, r := range e.rules {
		if kind == "" || batch || r.Kind != kind || r.Provider == "" && r.Group == "" {
			continue
		}
		if found == nil || r.Model != "" {
			found = r
		}
	}

	if found != nil {
		scope = Scope{Model: found.Model, Group: found.Group}
		if found.Provider != "" { // all accounts have the limit together, but one of them refused
			scope.Provider = e.call.Provider
		}
	}
	rates := e.paces(kind, wait)
	if len(rates) == 0 || scope.Tier != "" {
		return e.limiter.Cool(ctx, scope, wait)
	}
	return e.limiter.cool(ctx, scope, wait, pacedWord, rates...)
}

// paces returns the request rates at whose pace calls may resume after a refusal. It returns none if the provider named
// another kind of limit, or gave no wait of up to longestPaced.
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
		if call.Model != "" && call.Tier != "" {
			names = append(names, "provider/"+call.Provider+"/model/"+call.Model+tierMark+call.Tier)
		}
	}
	return names
}

// tierMark separates a model from a service tier in the name of a cooldown.
const tierMark = "//tier/"

// cooldownID returns the ID that the lease of a call that waited for the cooldown reports as its limit.
func cooldownID(name string) string { return name + "/cooldown" }

// MemoryID is the id of the time in which no call starts, because Redis has started or lost data
// and may not know every call in flight.
const MemoryID = "redis/memory"

// Cooldown is a scope whose calls do not start for a while. The cooldown MemoryID holds back every call.
type Cooldown struct {
	ID     string        // "provider/openai/model/gpt-5/cooldown", or MemoryID; of a Worker's own trouble without "/cooldown"
	Wait   time.Duration // until calls may start
	Probe  bool          // one call was let through, and others wait for its result
	Parked bool          // a day's quota is used up
	Paced  bool          // calls resume without a probe, at the pace of their rates
	Outage bool          // calls have no answer, see Suspend
	// Trouble is what was reported about the calls; nil: nothing.
	Trouble *Trouble
	// Worker is the only worker with the trouble: it starts no calls of the provider, while others do. Empty: the
	// cooldown applies to every process.
	Worker string
}

// String names the calls in cooldown, and says whether they wait for the rest of the day.
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

// Scope returns the scope whose calls wait; ok is false if all calls of every process and provider wait.
func (c Cooldown) Scope() (scope Scope, ok bool) {
	if c.Worker != "" {
		return CooldownScope(cooldownID(c.ID))
	}
	return CooldownScope(c.ID)
}

// longWithout is how long a provider must have answered no call before its message is shown.
const longWithout = time.Minute

// Notable reports whether to tell people who wait about the cooldown: it is more than a pause of some seconds.
func (c Cooldown) Notable() bool {
	switch {
	case c.ID == MemoryID, c.Parked, c.Outage, c.Worker != "":
		return true
	}
	return c.Trouble != nil && (c.Trouble.For >= longWithout || c.Wait >= longWithout)
}

// Why returns the cause of the cooldown, which is the provider's answer, and the consequence.
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

// parseCooldown parses a stored cooldown: its end, in Unix µs on Redis's clock, and its state.
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
		// The outage's next call may be due but not made yet.
		if ok && (c.Wait > 0 || c.Outage && known) {
			cooldowns = append(cooldowns, c)
		}
	}
	return cooldowns
}
