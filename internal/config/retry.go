package config

import (
	"math"
	"strconv"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
)

// retry reads a retry block over the current values. Each setting has two names: that of the
// bounded-concurrency specification, and that of file runs, whose delays are in milliseconds.
func (y *yamlFile) retry(v value, r *record.Retry) {
	first := map[any]value{} // by setting
	once := func(what any, read func(value)) func(value) {
		return func(v value) {
			if before, ok := first[what]; ok {
				y.refuse(v.key, "remove one of them", "line %d sets the same", before.key.line)
				return
			}
			first[what] = v
			read(v)
		}
	}

	calls := func(v value) { r.MaxAttempts = y.integer(v, 1, math.MaxInt32) }
	y.mapping(v, keys{
		"max_attempts":  once(&r.MaxAttempts, calls),
		"max_retries":   once(&r.MaxAttempts, calls),
		"initial_delay": once(&r.InitialDelay, func(v value) { r.InitialDelay = y.duration(v, 0) }),
		"base_delay_ms": once(&r.InitialDelay, func(v value) { r.InitialDelay = y.milliseconds(v) }),
		"max_delay":     once(&r.MaxDelay, func(v value) { r.MaxDelay = y.duration(v, 0) }),
		"max_delay_ms":  once(&r.MaxDelay, func(v value) { r.MaxDelay = y.milliseconds(v) }),
		"jitter": func(v value) {
			switch word, _ := scalar(v.node); word {
			case "full", "none":
				r.Jitter, r.FullJitter = 0, word == "full"
			default:
				r.Jitter, r.FullJitter = y.duration(v, 0), false
			}
		},
	})
}

// retries reads the two retry blocks of a file: weak, the one under concurrency, and strong, which
// overrides it.
func (y *yamlFile) retries(weak, strong *value, r *record.Retry) {
	for _, v := range []*value{weak, strong} {
		if v != nil {
			y.retry(*v, r)
		}
	}
}

// retryFromEnv lets the variables of the bounded-concurrency specification override the current
// values. Their delays are in seconds.
func (f *findings) retryFromEnv(o Options, r *record.Retry) {
	if raw, ok := o.lookup("RETRY_MAX_ATTEMPTS"); ok {
		n, err := strconv.Atoi(raw)
		if err != nil || n < 1 {
			f.refuse(place{path: "RETRY_MAX_ATTEMPTS"}, "want a whole number of at least 1", "got %q", raw)
		}
		r.MaxAttempts = n
	}
	f.secondsFromEnv(o, "RETRY_INITIAL_DELAY", &r.InitialDelay)
	f.secondsFromEnv(o, "RETRY_MAX_DELAY", &r.MaxDelay)
}

// attemptsFlag lets --max-attempts override the current value.
func (s *draft) attemptsFlag() {
	n := s.options.Experiment.MaxAttempts
	if n == nil {
		return
	}
	if *n < 1 {
		s.refuse(place{path: maxAttemptsFlag}, "want a whole number of at least 1", "got %d", *n)
	}
	s.settings.Retry.MaxAttempts = *n
}

func (f *findings) secondsFromEnv(o Options, name string, into *time.Duration) {
	raw, ok := o.lookup(name)
	if !ok {
		return
	}
	length, ok := parseSeconds(raw)
	if !ok {
		f.refuse(place{path: name}, "want a number of seconds, for example 1.5", "got %q", raw)
	}
	*into = length
}
