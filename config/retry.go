package config

import (
	"math"
	"strconv"
	"time"

	"github.com/evalfleet/evalfleet/internal/record"
)

// retry reads a retry block over what already holds.
func (y *yamlFile) retry(v value, r *record.Retry) {
	y.mapping(v, keys{
		"max_attempts":  func(v value) { r.MaxAttempts = y.integer(v, 1, math.MaxInt32) },
		"initial_delay": func(v value) { r.InitialDelay = y.duration(v, 0) },
		"max_delay":     func(v value) { r.MaxDelay = y.duration(v, 0) },
		"jitter": func(v value) {
			if word, _ := scalar(v.node); word == "full" || word == "none" {
				y.refuse(v.place, "give a time, for example 500ms", "jitter: %s is not available in this version", word)
				return
			}
			r.Jitter = y.duration(v, 0)
		},
		"max_retries":   y.later,
		"base_delay_ms": y.later,
		"max_delay_ms":  y.later,
	})
}

// retryFromEnv lays the variables of the bounded-concurrency specification over
// what already holds. Their delays are seconds.
func (f *findings) retryFromEnv(o Options, r *record.Retry) {
	if raw, ok := o.lookup("RETRY_MAX_ATTEMPTS"); ok {
		n, err := strconv.Atoi(raw)
		if err != nil || n < 1 {
			f.refuse(place{path: "RETRY_MAX_ATTEMPTS"}, "want a whole number, at least 1", "%q stands here", raw)
		}
		r.MaxAttempts = n
	}
	f.secondsFromEnv(o, "RETRY_INITIAL_DELAY", &r.InitialDelay)
	f.secondsFromEnv(o, "RETRY_MAX_DELAY", &r.MaxDelay)
}

func (f *findings) secondsFromEnv(o Options, name string, into *time.Duration) {
	raw, ok := o.lookup(name)
	if !ok {
		return
	}
	length, ok := parseSeconds(raw)
	if !ok {
		f.refuse(place{path: name}, "want a number of seconds, for example 1.5", "%q stands here", raw)
	}
	*into = length
}
