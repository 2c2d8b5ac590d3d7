package config

import (
	"math"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/ratelimit"
)

func parseWindow(word string) (ratelimit.Window, bool) {
	shape, length, _ := strings.Cut(word, ":")
	w := ratelimit.Window{Shape: ratelimit.Shape(shape), Length: defaultWindow}
	if w.Shape != ratelimit.Sliding && w.Shape != ratelimit.Fixed {
		return w, false
	}
	if length != "" {
		d, err := time.ParseDuration(length)
		if err != nil || d <= 0 || d > 24*time.Hour {
			return w, false
		}
		w.Length = d
	}
	return w, true
}

// combine puts the limits of several files together, strongest file last: of
// two with one id the tightest stays, as everywhere else, and a limit that
// another always beats is a warning. Fleet limits that are beaten are no news to
// whoever submits an evaluation, so only limits written in file are warned of.
func (f *findings) combine(limits []limit, file string) []ratelimit.Limit {
	for i, a := range limits {
		if a.at.file != file {
			continue
		}
		for j, b := range limits {
			equal := beats(a.Limit, b.Limit) && beats(b.Limit, a.Limit)
			if i != j && beats(b.Limit, a.Limit) && !equal {
				f.warn(a.at, "leave it out, or make it tighter", "never reached: %s (%s) always holds first", b.Limit, b.at.origin())
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
	if a.Kind != b.Kind || !a.Matches(b.Scope) {
		return false
	}
	if a.Kind == ratelimit.Concurrency {
		return a.Max <= b.Max
	}
	rate := func(l ratelimit.Limit) float64 { return float64(l.Max) / l.Period.Seconds() }
	within := func(l ratelimit.Limit, w time.Duration) float64 { return rate(l) * w.Seconds() }
	aBucket, bBucket := a.Window.Shape == "", b.Window.Shape == ""
	switch {
	case aBucket && bBucket:
		return rate(a) <= rate(b) && burst(a) <= burst(b)
	case aBucket:
		return within(a, b.Window.Length)+burst(a) <= within(b, b.Window.Length)
	case bBucket:
		return rate(a) <= rate(b) && within(a, a.Window.Length) <= burst(b)
	}
	periods := math.Ceil(float64(b.Window.Length) / float64(a.Window.Length))
	if a.Window.Shape == ratelimit.Fixed && (b.Window != a.Window) {
		periods++ // a window may overlap one fixed period more than it is long
	}
	return periods*within(a, a.Window.Length) <= within(b, b.Window.Length)
}

// burst is how many calls a bucket lets through at once.
func burst(l ratelimit.Limit) float64 {
	if l.Burst > 0 {
		return float64(l.Burst)
	}
	return math.Max(1, math.Ceil(float64(l.Max)/l.Period.Seconds()/10))
}
