package ratelimit

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// rule is a limit in force together with what admission needs to know of it.
type rule struct {
	Limit
	id      string
	holders []string // sorted
	state   string   // key of what the limit counts
	money   string   // of a budget: key of the amount spent and reserved
	cut     string   // of an adaptive limit: key of its current cut
	waiters string   // key of the workers that wait for it
	way     way
	// For a rate: microseconds per unit, and units. The interval of requests is whole.
	interval float64
	burst    int64
	// For a window: units, and microseconds.
	most, span, slot int64
	zone             *time.Location // of a quota
	measured         bool           // its jitter, or a part of it, is the measured margin
	margin           Margin
}

// way is the method by which a limit is kept.
type way string

const (
	byLeases way = "leases" // a set of leases
	byRate   way = "rate"   // the generic cell rate algorithm
	byWindow way = "window" // units in slots of a sliding window
	byQuota  way = "quota"  // units until a reset
	byBudget way = "budget" // money, reserved by a set of leases and spent
	byWeight way = "weight" // a set of leases, each with a number of units
	// Not limits, but calls wait for them too.
	byMemory       way = "memory"       // until Redis knows every lease again
	byCooldown     way = "cooldown"     // a scope that is held back
	byRegistration way = "registration" // until their holders are registered
)

// leased reports whether the limit keeps a set of the leases under it.
func (r *rule) leased() bool { return r.way == byLeases || r.way == byBudget || r.way == byWeight }

// ending returns what the name of a lease ends with in the limit's set: its weight, in units, if the limit keeps it. A
// lease and its weight are one member of the set, so neither is ever there without the other.
func (r *rule) ending(reserved Used) string {
	if r.way != byWeight {
		return ""
	}
	return weightMark + strconv.FormatInt(reserved.Input, 10)
}

// weightMark separates a lease from its weight in a set.
const weightMark = " "

// weightOf returns the weight of a member of a set.
func weightOf(member string) int64 {
	weight, _ := strconv.ParseInt(member[strings.LastIndex(member, weightMark)+1:], 10, 64)
	return weight
}

// windowSlots is how many slots a window has. A slot that is only partly in the window counts in full, so one slot's
// share of each window is not used: D/(D + jitter + D/windowSlots), 97.6 % of a minute with half a second's jitter.
const windowSlots = 60

// windowed reports whether the limit is kept by counting in a window: limits of tokens whose provider counts in
// windows. Rates of requests on windows are paced instead (pace), because many providers refuse a burst of a whole
// window. Tokens cannot be paced, because an even pace loses the cost of one largest call in each window.
func (l Limit) windowed() bool {
	return l.Kind.tokens() && (l.Window.Shape == Sliding || l.Window.Shape == Fixed)
}

func newRule(k keys, id string, limit Limit) *rule {
	r := &rule{Limit: limit, id: id, waiters: k.waiters(id)}
	switch {
	case limit.Kind == Concurrency:
		r.way, r.state = byLeases, k.leases(id)
		if limit.Adaptive {
			r.cut = k.cut(id)
		}
	case limit.Kind == Cost:
		r.way, r.state, r.money = byBudget, k.leases(id), k.money(id)
	case limit.Kind == EnqueuedTokens:
		r.way, r.state = byWeight, k.leases(id)
	case limit.Resets != "":
		r.way, r.state = byQuota, k.quota(id)
		zone, err := time.LoadLocation(limit.Resets)
		if err != nil {
			zone = time.UTC // Validate has refused invalid zones
		}
		r.zone = zone
	case limit.windowed():
		// Calls that arrive within one window of the provider started within the window and the jitter.
		r.way, r.state = byWindow, k.window(id)
		r.most = scaled(limit.Max, limit.Window.Length, limit.Period)
		r.slot = max(1, limit.Window.Length.Microseconds()/windowSlots)
		r.span = (limit.Window.Length + limit.Jitter).Microseconds()
	case limit.Kind.tokens():
		r.way, r.state = byRate, k.rate(id)
		r.interval = float64(limit.Period.Microseconds()) / float64(limit.Max)
		_, r.burst = limit.pace()
	default:
		interval, burst := limit.pace()
		r.way, r.state = byRate, k.rate(id)
		r.interval, r.burst = float64(interval.Microseconds()), burst
	}

	return r
}

// extra returns the second key of a limit's state: the amount of a budget, or the cut of an adaptive limit; "": it has
// none.
func (r *rule) extra() string {
	if r.way == byBudget {
		return r.money
	}
	return r.cut
}

// describe returns the limit in the form that the admission script reads. now is what Redis's clock is expected to
// show.
func (r *rule) describe(now time.Time) admitLimit {
	limit := admitLimit{
		Kind: r.way, Max: r.Max, Charged: r.Charged, Adapts: r.Adaptive, Interval: r.interval, Burst: r.burst, Span: r.span, Slot: r.slot,
		Counts: map[Kind]string{InputTokens: "input", OutputTokens: "output", Tokens: "tokens", Cost: "money", EnqueuedTokens: "input"}[r.Kind],
	}
	switch r.way {
	case byWindow:
		limit.Max = r.most
	case byQuota:
		// When the script runs, it may be the day before or the day after.
		last, next, after := resets(now, r.zone)
		before, _, _ := resets(last.Add(-time.Second), r.zone)
		for _, reset := range []time.Time{before, last, next, after} {
			limit.Resets = append(limit.Resets, reset.UnixMicro())
		}
	}
	return limit
}

// wait returns how much longer a call waits because n others are ahead of it; 0 if that is unknown.
func (r *rule) wait(n int) time.Duration {
	if r.way != byRate || r.Kind != Requests {
		return 0
	}
	return time.Duration(math.Ceil(float64(n)*r.interval)) * time.Microsecond
}

// resets returns the last midnight before now in a zone and the two next ones. Days may have 23 or 25 hours.
func resets(now time.Time, zone *time.Location) (last, next, after time.Time) {
	year, month, day := now.In(zone).Date()
	midnight := func(days int) time.Time { return time.Date(year, month, day+days, 0, 0, 0, 0, zone) }
	return midnight(0), midnight(1), midnight(2)
}

// quotaSpread is the time that a call under a quota may take from its start until it arrives at the provider. No call
// starts within that time before a reset, because it could arrive on the next day, for which it was not counted.
const quotaSpread = 500 * time.Millisecond
