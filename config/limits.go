package config

import (
	"math"
	"time"

	"github.com/evalfleet/evalfleet/ratelimit"
)

// combine joins the limits of several files, strongest file last: of two with one ID the
// tightest stays, as everywhere else, and a limit that another always beats is a warning.
// Beaten fleet limits do not concern the submitter, so only limits written in file are warned
// of.
func (f *findings) combine(limits []limit, file string) []ratelimit.Limit {
	f.oneZone(limits, file)
	for i, a := range limits {
		if a.at.file != file {
			continue
		}
		for j, b := range limits {
			equal := beats(a.Limit, b.Limit) && beats(b.Limit, a.Limit)
			if i != j && beats(b.Limit, a.Limit) && !equal {
				f.warn(a.at, "remove it, or make it tighter", "never reached: %s (%s) always binds first", b.Limit, b.at.origin())
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

// oneZone gives quotas of one id one time zone, the first that is written; an
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

// origin is the place as said within a sentence.
func (p place) origin() string {
	if p.file == "" {
		return p.path
	}
	return p.String()
}

// tightest is the limit that keeps both a and b, which have one id.
func tightest(a, b ratelimit.Limit) ratelimit.Limit {
	a.Max = min(a.Max, b.Max)
	switch {
	case a.Burst == 0 || b.Burst == 0: // unset is the smallest: a tenth of a second's worth
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

// stricter orders windows of one rate: a bucket forgives most, a shorter window
// less than a longer one, a sliding window less than a fixed one.
func stricter(a, b ratelimit.Window) bool {
	switch {
	case a.Shape == "" || b.Shape == "":
		return a.Shape != "" && b.Shape == ""
	case a.Length != b.Length:
		return a.Length < b.Length
	}
	return a.Shape == ratelimit.Sliding && b.Shape == ratelimit.Fixed
}

// beats reports that b is never reached where a holds: a applies to every call
// that b applies to, and whatever a lets through, b does too. When that cannot be
// told it is false.
func beats(a, b ratelimit.Limit) bool {
	covers := a.Kind == b.Kind ||
		a.Kind == ratelimit.Tokens && (b.Kind == ratelimit.InputTokens || b.Kind == ratelimit.OutputTokens)
	if !covers || !a.Matches(b.Scope) || b.Charged && !a.Charged {
		return false
	}
	if b.Adaptive && (!a.Adaptive || a.Scope != b.Scope) { // it may be cut below a
		return false
	}
	switch {
	case a.Kind == ratelimit.Concurrency:
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

// most is the greatest number of calls, or tokens, that a limit lets through in
// any span of a length.
func most(l ratelimit.Limit, span time.Duration) float64 {
	periods := func(length time.Duration) float64 { return math.Ceil(float64(span) / float64(length)) }
	switch {
	case l.Resets != "":
		return (periods(shortestDay) + 1) * float64(l.Max)
	case l.Window.Shape == "":
		return within(l, span) + burst(l)
	case l.Window.Shape == ratelimit.Fixed: // a span may overlap one period more than it is long
		return (periods(l.Window.Length) + 1) * within(l, l.Window.Length)
	}
	return periods(l.Window.Length) * within(l, l.Window.Length)
}

// rate is what a limit admits in a second, averaged over a period.
func rate(l ratelimit.Limit) float64 { return float64(l.Max) / l.Period.Seconds() }

func within(l ratelimit.Limit, span time.Duration) float64 { return rate(l) * span.Seconds() }

// shortestDay is that on which clocks go forward.
const shortestDay = 23 * time.Hour

// longestDay of a quota is, outside UTC, that on which clocks go back.
func longestDay(quota ratelimit.Limit) time.Duration {
	if quota.Resets == defaultZone {
		return 24 * time.Hour
	}
	return 25 * time.Hour
}

// burst is how many calls a bucket lets through at once.
func burst(l ratelimit.Limit) float64 {
	if l.Burst > 0 {
		return float64(l.Burst)
	}
	return math.Max(1, math.Ceil(float64(l.Max)/l.Period.Seconds()/10))
}
