package transport

import (
	"cmp"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/providers"
)

// maxHint is the longest hint that is followed. No quota resets later.
const maxHint = 24 * time.Hour

// comeBack returns the provider's hint for when to retry; 0 if it gave none. Hints about this request (Retry-After, the
// body, the message) come before the reset times of limits. These say when a bucket is full again, so they are used
// only if a limit was exceeded and nothing better is known.
func (f failure) comeBack(class providers.Class, h http.Header, now time.Time) time.Duration {
	if class == providers.QuotaDaily && f.google {
		return 0 // its RetryInfo is about the quota per minute
	}
	hint := wait(h.Get("Retry-After-Ms")+"ms", now)
	if hint == 0 {
		hint = wait(h.Get("Retry-After"), now)
	}
	if hint == 0 {
		hint = cmp.Or(f.retryDelay, wait(f.retryAfter, now))
	}
	if hint == 0 {
		hint = saidDelay(f.words())
	}
	if hint == 0 && (class == providers.RateLimited || class == providers.QuotaDaily) {
		hint = max(latestReset(h, now), latestReset(f.upstreamHeader(), now))
	}
	return min(max(hint, 0), maxHint)
}

// sent returns when a response was sent, by the server's clock, to which its dates and reset times refer. If the server
// does not say, it returns our own time.
func sent(h http.Header) time.Time {
	if at, err := http.ParseTime(h.Get("Date")); err == nil {
		return at
	}
	return time.Now()
}

// upstreamHeader returns the headers that a gateway repeats in its body.
func (f failure) upstreamHeader() http.Header {
	h := http.Header{}
	for name, value := range f.headers {
		h.Set(name, value)
	}
	return h
}

// ofLimit reports whether a header is about a limit: x-ratelimit-…, anthropic-ratelimit-…,
// ratelimit-…, Azure's x-rate-limit-….
func ofLimit(name string) bool {
	return strings.Contains(name, "Ratelimit") || strings.Contains(name, "Rate-Limit")
}

// latestReset returns how long the slowest exhausted limit needs until it resets. A limit with a remainder did not
// refuse the request.
func latestReset(h http.Header, now time.Time) time.Duration {
	latest := time.Duration(0)
	for name := range h {
		if !ofLimit(name) || !strings.Contains(name, "Reset") {
			continue
		}
		left := h.Get(strings.Replace(name, "Reset", "Remaining", 1))
		if left == "" || left == "0" {
			latest = max(latest, wait(h.Get(name), now))
		}
	}
	return latest
}

// wait reads a wait in the vendors' formats: seconds, a Go duration ("6m0s"), Unix seconds or
// milliseconds, RFC 3339, or an HTTP date. Anything else, or a negative value, is 0.
func wait(value string, now time.Time) time.Duration {
	if value == "" {
		return 0
	}
	if n, err := strconv.ParseFloat(value, 64); err == nil {
		switch {
		case n > 1e11:
			return time.UnixMilli(int64(math.Min(n, 1e15))).Sub(now)
		case n > 1e9:
			return time.Unix(int64(n), 0).Sub(now)
		}
		return seconds(n)
	}
	if d, err := time.ParseDuration(value); err == nil {
		return max(d, 0)
	}
	if at, err := time.Parse(time.RFC3339, value); err == nil {
		return at.Sub(now)
	}
	if at, err := http.ParseTime(value); err == nil {
		return at.Sub(now)
	}
	return 0
}

// seconds converts without overflow; NaN and negative values are no hint.
func seconds(n float64) time.Duration {
	if !(n > 0) {
		return 0
	}
	return time.Duration(math.Min(n, maxHint.Seconds()) * float64(time.Second))
}

var (
	said = regexp.MustCompile(`(?i)(?:(?:try again|retry) (?:in|after)|please wait) (?:((?:\d+(?:\.\d+)?(?:ms|h|m|` +
		`s))+)\b|(\d+(?:\.\d+)?)\s*(second|sec|minute|min|hour|day)?)`)
	replenished = regexp.MustCompile(`(?i)replenished in (?:(\d+)\.)?(\d+):(\d\d):(\d\d)`)
)

// saidDelay reads "Please try again in 1m2.5s", "Please wait 20 seconds", "retry after 20 seconds", "try
// again in 5 minutes" and "Quota will be replenished in 10.12:00:00" (days).
func saidDelay(message string) time.Duration {
	if match := said.FindStringSubmatch(message); match != nil {
		if match[1] != "" {
			return wait(match[1], time.Time{})
		}
		n, _ := strconv.ParseFloat(match[2], 64)
		unit := map[string]float64{"min": 60, "minute": 60, "hour": 3600, "day": 86400}[strings.ToLower(match[3])]
		return seconds(n * max(unit, 1))
	}
	match := replenished.FindStringSubmatch(message)
	if match == nil {
		return 0
	}
	total := 0.0
	for i, unit := range []float64{86400, 3600, 60, 1} {
		n, _ := strconv.ParseFloat(match[i+1], 64)
		total += n * unit
	}
	return seconds(total)
}
