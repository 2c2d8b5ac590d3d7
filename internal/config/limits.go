package config

import (
	"math"
	"time"

	"github.com/evalfleet/evalfleet/ratelimit"
)

// combine merges the limits of several files, strongest file last. Of two with one ID, it keeps the
// tightest, as everywhere else. A limit that another always beats is a warning, but only if it is
// written in file: beaten fleet limits do not concern the submitter.
func (f *findings) combine(limits []limit, file string) []ratelimit.Limit {
	f.oneZone(limits, file)
	for i, a := range limits {
		if a.at.file != file {
			continue
		}
		for j, b := range limits {
			equal := beats(a.Limit, b.Limit) && beats(b.Limit, a.Limit)
			if i != j && beats(b.Limit, a.Limit) && !equal {
				f.warn(a.at, "remove it, or make it tighter", "never reached: %s (%s) is always reached first", b.Limit, b.at.origin())
				break
			}
		}
	}

	byID := map[string]int{}
	var all []ratelimit.Limit
	for _, l := range limits {
		id := l.ID()
		if i, ok := byID[id]; ok {
			all[i] = tightest(all[i], l.Limit)
			continue
		}
		byID[id] = len(all)
		all = append(all, l.Limit)
	}

	return all
}

// oneZone gives all quotas with one id the time zone of the first that is written, because an
// account has only one.
func (f *findings) oneZone(limits []limit, file string) {
	zones := map[string]limit{}
	for _, l := range limits {
		if _, ok := zones[l.ID()]; !ok && l.zoneAt != (place{}) {
			zones[l.ID()] = l
		}
	}
	for i, l := range limits {
		holds, ok := zones[l.ID()]
		if !ok || l.Resets == holds.Resets {
			continue
		}
		if l.zoneAt != (place{}) && l.at.file == file {
			f.warn(l.zoneAt, "use the same value, or remove it", "no effect: %s (%s) is stricter", holds.Resets, holds.zoneAt.origin())
		}
		limits[i].Resets = holds.Resets
	}
}

// origin returns the place in a form that fits into a sentence.
func (p place) origin() string {
	if p.file == "" {
		return p.path
	}
	return p.String()
}

// tightest returns a limit that implies both a and b, which have the same id.
func tightest(a, b ratelimit.Limit) ratelimit.Limit {
	a.Max = min(a.Max, b.Max)
	switch {
	case a.Burst == 0 || b.Burst == 0: // unset is the smallest: the amount of a tenth of a second
		a.Burst = 0
	default:
		a.Burst = min(a.Burst, b.Burst)
	}
	a.Jitter = max(a.Jitter, b.Jitter)
	a.Charged = a.Charged || b.Charged
	a.Adaptive = a.Adaptive || b.Adaptive
	if stricter(b.Window, a.Window) {
		a.Window = b.Window
	}
	return a
}

// stricter reports whether a allows less than b, for the same rate. A bucket allows most, a shorter
// window less than a longer one, and a sliding window less than a fixed one.
func stricter(a, b ratelimit.Window) bool {
	switch {
	case a.Shape == "" || b.Shape == "":
		return a.Shape != "" && b.Shape == ""
	case a.Length != b.Length:
		return a.Length < b.Length
	}
	return a.Shape == ratelimit.Sliding && b.Shape == ratelimit.Fixed
}

// beats reports whether b can never be reached because of a: a applies to every call that b applies
// to, and b admits whatever a admits. It is false if that is not certain.
func beats(a, b ratelimit.Limit) bool {
	covers := a.Kind == b.Kind ||
		a.Kind == ratelimit.Tokens && (b.Kind == ratelimit.InputTokens || b.Kind == ratelimit.OutputTokens)
	if !covers || !a.Scope.Matches(b.Scope) || b.Charged && !a.Charged {
		return false
	}
	if b.Adaptive && (!a.Adaptive || a.Scope != b.Scope) { // b may be cut below a
		return false
	}

	switch {
	case a.Kind == ratelimit.Concurrency || a.Kind == ratelimit.EnqueuedTokens:
		return a.Max <= b.Max
	case a.Resets != "" && b.Resets != "":
		return a.Max <= b.Max && a.Resets == b.Resets
	case b.Resets != "":
		return most(a, longestDay(b)) <= float64(b.Max)
	case b.Window.Shape != "":
		return a.Resets == "" && a.Window == b.Window && rate(a) <= rate(b) || most(a, b.Window.Length) <= within(b, b.Window.Length)
	case a.Resets != "":
		return 2*float64(a.Max) <= burst(b) && float64(a.Max)/shortestDay.Seconds() <= rate(b)
	case a.Window.Shape != "":
		return rate(a) <= rate(b) && within(a, a.Window.Length) <= burst(b)
	}

	return rate(a) <= rate(b) && burst(a) <= burst(b)
}

// most returns the greatest number of calls, or tokens, that a limit admits in any interval of
// length span.
func most(l ratelimit.Limit, span time.Duration) float64 {
	periods := func(length time.Duration) float64 { return math.Ceil(float64(span) / float64(length)) }
	switch {
	case l.Resets != "":
		return (periods(shortestDay) + 1) * float64(l.Max)
	case l.Window.Shape == "":
		return within(l, span) + burst(l)
	case l.Window.Shape == ratelimit.Fixed: // an interval may overlap one period more than fit into it
		return (periods(l.Window.Length) + 1) * within(l, l.Window.Length)
	}
	return periods(l.Window.Length) * within(l, l.Window.Length)
}

// rate returns how much a limit admits per second, averaged over a period.
func rate(l ratelimit.Limit) float64 { return float64(l.Max) / l.Period.Seconds() }

func within(l ratelimit.Limit, span time.Duration) float64 { return rate(l) * span.Seconds() }

// shortestDay is the length of the day on which clocks go forward.
const shortestDay = 23 * time.Hour

// longestDay returns the length of a quota's longest day: outside UTC, that on which clocks go
// back.
func longestDay(quota ratelimit.Limit) time.Duration {
	if quota.Resets == defaultZone {
		return 24 * time.Hour
	}
	return 25 * time.Hour
}

// burst returns how many calls a bucket admits at once.
func burst(l ratelimit.Limit) float64 {
	if l.Burst > 0 {
		return float64(l.Burst)
	}
	return math.Max(1, math.Ceil(float64(l.Max)/l.Period.Seconds()/10))
}
