package estimate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Bound is a limit and the least time that it takes for the calls it covers.
type Bound struct {
	Limit   string  `json:"limit"`   // what it bounds, in words
	Setting string  `json:"setting"` // where it is set
	Calls   int     `json:"calls"`   // it covers
	Seconds float64 `json:"seconds"`
}

// bounds lists the limits that calls (by position of the judge) meet, the
// slowest first. Phases are no barrier: their runs share the queues.
func bounds(q Question, calls []int) []Bound {
	id := string(q.Evaluation.ID())
	all := []Bound{}
	add := func(limit, setting string, covered int, least time.Duration) {
		if covered > 0 {
			all = append(all, Bound{limit, setting, covered, least.Seconds()})
		}
	}
	total := 0
	for _, n := range calls {
		total += n
	}
	for _, l := range q.Settings.Limits {
		covered := 0
		for i, judge := range q.Evaluation.Judges {
			if l.Matches(ratelimit.Scope{Provider: judge.Provider, Model: judge.Model, Evaluation: id}) {
				covered += calls[i]
			}
		}
		least := saturated(l.LeastTime(int64(covered)), q.Latency)
		if l.Kind == ratelimit.Concurrency {
			least = rounds(covered, l.Max, q.Latency)
		}
		words := l.String()
		if l.Evaluation != "" {
			words = fmt.Sprintf("this evaluation: %d in flight", l.Max)
		}
		add(words, setting(l, q.Settings), covered, least)
	}
	if q.Slots > 0 {
		add(fmt.Sprintf("one process: %d in flight", q.Slots), "--slots", total, rounds(total, int64(q.Slots), q.Latency))
	}
	slices.SortStableFunc(all, func(a, b Bound) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return all
}

// rounds is the time of calls that are made so many at once.
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

// setting is the name under which a limit is set.
func setting(l ratelimit.Limit, s record.Settings) string {
	name := "max_concurrency"
	switch {
	case l.Kind == ratelimit.Concurrency:
	case l.Period == time.Minute:
		name = "requests_per_minute"
	default:
		name = "rate_limit"
	}
	switch {
	case l.Evaluation != "":
		switch s.ConcurrencySource {
		case "default":
			return "max_concurrency, by default; --max-concurrency"
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
