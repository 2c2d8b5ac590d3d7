package config

import (
	"math"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

// olderNames are keys from files written for the predecessors of evalfleet, and the equivalent
// keys here.
type olderNames struct {
	enforceWebSearch, llmAPI, retries *value
	grounding                         place
}

// read applies the older names to the draft, for which all else has been read. It refuses a setting
// that the file has under both names.
func (o olderNames) read(y *yamlFile, s *draft, retry *value) {
	if v := o.enforceWebSearch; v != nil && y.onlyName(*v, o.grounding, "grounding") {
		s.asked.Grounding = eval.Off
		if y.boolean(*v) {
			s.asked.Grounding = eval.Required
		}
	}
	if o.llmAPI != nil {
		o.readAPI(y, s)
	}
	retryAt := place{}
	if retry != nil {
		retryAt = retry.key
	}
	if v := o.retries; v != nil && y.onlyName(*v, retryAt, "retry") {
		y.olderRetry(*v, &s.settings.Retry)
	}
}

// olderRetry reads a retries block. Its jitter is a duration, or whether the wait is drawn from all
// between 0 and the delay.
func (y *yamlFile) olderRetry(v value, r *record.Retry) {
	y.mapping(v, keys{
		"attempts":           func(v value) { r.MaxAttempts = y.integer(v, 1, math.MaxInt32) },
		"base_delay_seconds": func(v value) { r.InitialDelay = y.seconds(v) },
		"jitter": func(v value) {
			switch word, _ := scalar(v.node); word {
			case "true", "full", "false", "none":
				r.Jitter, r.FullJitter = 0, word == "true" || word == "full"
			default:
				r.Jitter, r.FullJitter = y.seconds(v), false
			}
		},
	})
}

func (o olderNames) readAPI(y *yamlFile, s *draft) {
	y.mapping(*o.llmAPI, keys{
		"max_concurrent_llm_calls": func(v value) {
			if y.onlyName(v, s.own.max.at, "concurrency.max_concurrency") {
				s.own.max = bound{y.integer(v, 1, math.MaxInt32), v.place}
			}
		},
		"timeout_seconds": func(v value) {
			if y.onlyName(v, s.own.allAt, "concurrency.timeout_seconds") {
				if s.own.timeouts == nil {
					s.own.timeouts = map[string]time.Duration{}
				}
				s.own.timeouts[""] = y.seconds(v)
			}
		},
	})
}

// onlyName refuses an older name next to the key that replaced it.
func (y *yamlFile) onlyName(v value, other place, name string) bool {
	if other == (place{}) {
		return true
	}
	y.refuse(v.key, "remove one of them", "%s sets the same in line %d", name, other.line)
	return false
}
