package transport

import (
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/providers"
)

// maxHint bounds what is believed of a hint. No quota resets later.
const maxHint = 24 * time.Hour

// retryAfter is the provider's hint when to come back; 0 if it gave none. What
// was said of this request (Retry-After, the body, the message) comes before the
// reset times of limits, which tell when a bucket is full again and so are only
// asked where a limit was met and nothing better is known.
func (f failure) retryAfter(class providers.Class, h http.Header, now time.Time) time.Duration {
	if class == providers.QuotaDaily && f.google {
		return 0 // its RetryInfo speaks of the quota a minute
	}
	hint := milliseconds(h.Get("Retry-After-Ms"))
	if hint == 0 {
		hint = secondsOrDate(h.Get("Retry-After"), now)
	}
	if hint == 0 {
		hint = f.retryDelay
	}
	if hint == 0 {
		hint = saidDelay(f.message)
	}
	if hint == 0 && (class == providers.RateLimited || class == providers.QuotaDaily) {
		hint = max(latestReset(h, now), latestReset(f.upstream(), now))
	}
	return min(max(hint, 0), maxHint)
}

// upstream is the headers that a gateway repeats in its body.
func (f failure) upstream() http.Header {
	h := http.Header{}
	for name, value := range f.headers {
		h.Set(name, value)
	}
	return h
}

// latestReset is how long the slowest exhausted limit needs. A limit of which
// something is left is not what refused the request.
func latestReset(h http.Header, now time.Time) time.Duration {
	latest := time.Duration(0)
	for name := range h {
		if !strings.Contains(name, "Ratelimit") || !strings.Contains(name, "Reset") {
			continue
		}
		left := h.Get(strings.Replace(name, "Reset", "Remaining", 1))
		if left == "" || left == "0" {
			latest = max(latest, resetIn(h.Get(name), now))
		}
	}
	return latest
}

// resetIn reads a reset time as vendors write it: a Go duration ("6m0s"), whole
// seconds, Unix seconds or milliseconds, or RFC 3339.
func resetIn(value string, now time.Time) time.Duration {
	if d, err := time.ParseDuration(value); err == nil {
		return d
	}
	if at, err := time.Parse(time.RFC3339, value); err == nil {
		return at.Sub(now)
	}
	n, err := strconv.ParseFloat(value, 64)
	switch {
	case err != nil:
		return 0
	case n > 1e11:
		return time.UnixMilli(int64(math.Min(n, 1e15))).Sub(now)
	case n > 1e9:
		return time.Unix(int64(n), 0).Sub(now)
	}
	return seconds(n)
}

func milliseconds(value string) time.Duration {
	n, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return 0
	}
	return seconds(n / 1000)
}

func secondsOrDate(value string, now time.Time) time.Duration {
	if n, err := strconv.ParseFloat(value, 64); err == nil {
		return seconds(n)
	}
	if at, err := http.ParseTime(value); err == nil {
		return at.Sub(now)
	}
	return 0
}

// seconds converts without overflow; NaN and what is negative are no hint.
func seconds(n float64) time.Duration {
	if !(n > 0) {
		return 0
	}
	return time.Duration(math.Min(n, maxHint.Seconds()) * float64(time.Second))
}

var said = regexp.MustCompile(`(?i)(?:try again|retry) (?:in|after) ((?:\d+(?:\.\d+)?(?:ms|h|m|s))+|\d+(?:\.\d+)?)\b`)

// saidDelay reads "Please try again in 1m2.5s" and "retry after 20 seconds".
func saidDelay(message string) time.Duration {
	match := said.FindStringSubmatch(message)
	if match == nil {
		return 0
	}
	if d, err := time.ParseDuration(match[1]); err == nil {
		return d
	}
	return secondsOrDate(match[1], time.Time{})
}
