package estimate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Bound is a limit and the shortest time that it allows for the calls it covers.
type Bound struct {
	Limit   string  `json:"limit"`            // description of the limit
	Setting string  `json:"setting"`          // name of the setting that sets it
	Calls   int     `json:"calls"`            // calls that the limit covers
	Tokens  int64   `json:"tokens,omitempty"` // tokens of these calls that the limit counts
	Seconds float64 `json:"seconds"`
}

// bounds returns the limits that cover any calls, slowest first. Phases do not delay each other, because their runs
// share the queues.
func bounds(q Question, asked []demand) []Bound {
	id := string(q.Evaluation.ID())
	all := []Bound{}
	add := func(limit, setting string, covered int, tokens int64, least time.Duration) {
		if covered > 0 {
			all = append(all, Bound{limit, setting, covered, tokens, least.Seconds()})
		}
	}
	asked = slices.DeleteFunc(slices.Clone(asked), func(d demand) bool { return d.tier == providers.TierBatch })
	total := callsOf(asked)
	for _, l := range q.pooled() {
		if l.Kind == ratelimit.Cost {
			continue // it takes no time
		}
		covered, tokens := 0, int64(0)
		for _, d := range asked {
			if l.Matches(ratelimit.Scope{Provider: d.judge.Provider, Model: d.judge.Model, Group: d.group, Evaluation: id}) {
				covered += d.calls
				tokens += d.tokens(l)
			}
		}
		least := saturated(l.LeastTime(q.Now, int64(covered), tokens), q.Latency)
		if l.Kind == ratelimit.Concurrency {
			least = rounds(covered, l.Max, q.Latency)
		}
		words := l.String()
		if l.Evaluation != "" {
			words = fmt.Sprintf("this evaluation: %s in flight", ratelimit.Amount(l.Max))
		}
		add(words, setting(l, q.Settings), covered, tokens, least)
	}

	if q.Slots > 0 {
		add(
			fmt.Sprintf("one process: %s in flight", ratelimit.Amount(int64(q.Slots))), "--slots", total, 0,
			rounds(total, int64(q.Slots), q.Latency),
		)
	}
	slices.SortStableFunc(all, func(a, b Bound) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return all
}

// shortest returns the shortest duration, in seconds, of the demands that are in no batch, and the limit that causes it,
// which is empty if the latency of a call does. all are the bounds of the demands.
func shortest(q Question, all []Bound, asked []demand) (seconds float64, limit string) {
	switch {
	case len(all) > 0:
		return all[0].Seconds, all[0].Limit
	case callsOf(asked) > callsIn(asked, providers.TierBatch):
		return q.Latency.Seconds(), ""
	}
	return 0, ""
}

// rounds returns how long calls take with at most atOnce of them in flight.
func rounds(calls int, atOnce int64, latency time.Duration) time.Duration {
	n := (int64(calls) + atOnce - 1) / atOnce
	if n > math.MaxInt64/int64(latency) {
		return math.MaxInt64
	}
	return time.Duration(n) * latency
}

func saturated(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// setting returns the name under which a limit is set.
func setting(l ratelimit.Limit, s record.Settings) string {
	name := "max_concurrency"
	switch {
	case l.Kind == ratelimit.Concurrency:
	case l.Resets != "":
		name = string(l.Kind) + "_per_day"
	case l.Period == time.Minute:
		name = string(l.Kind) + "_per_minute"
	default:
		name = "rate_limit"
	}

	switch {
	case l.Evaluation != "":
		switch s.ConcurrencySource {
		case "default":
			return "max_concurrency, by default; --max-concurrency"
		case record.ConcurrencySum:
			return "max_concurrency, the " + record.ConcurrencySum + "; --max-concurrency"
		case "flag":
			return "--max-concurrency"
		case "environment":
			return "MAX_CONCURRENT_LLM_CALLS"
		}
		return "concurrency.max_concurrency"
	case l.Group != "":
		return "concurrency.groups." + l.Group + "." + name
	case l.Model != "":
		return "concurrency.per_provider." + l.Provider + ".models." + l.Model + "." + name
	case l.Provider != "":
		return "concurrency.per_provider." + l.Provider + "." + name
	}

	return "concurrency." + name + " of --config"
}
