package simulator

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// limitState is the state of the limit with the least remainder, as the rate-limit headers report
// it for one quantity.
type limitState struct {
	counted   quantity
	max, left int
	reset     time.Duration // until everything charged has expired
}

// tightest returns the state of the tightest limit of each limited quantity.
func tightest(scopes []*scope, now time.Time) (states []limitState) {
	for _, counted := range quantities {
		var tight *limitState
		for _, scope := range scopes {
			for _, l := range scope.limits {
				if l.counted != counted {
					continue
				}
				if left := l.window.left(now); tight == nil || left < tight.left {
					tight = &limitState{counted: counted, max: l.rate.N, left: left, reset: l.window.reset(now)}
				}
			}
		}
		if tight != nil {
			states = append(states, *tight)
		}
	}
	return states
}

// limitHead sets the three headers for a limit that OpenAI and others use.
func limitHead(h http.Header, counted quantity, most, left int, reset string) {
	suffix := strings.ReplaceAll(string(counted), "_", "-")
	h.Set("X-Ratelimit-Limit-"+suffix, strconv.Itoa(most))
	h.Set("X-Ratelimit-Remaining-"+suffix, strconv.Itoa(left))
	h.Set("X-Ratelimit-Reset-"+suffix, reset)
}

// roundedUp returns d as a whole number of units, rounded up.
func roundedUp(d, unit time.Duration) string {
	return strconv.FormatFloat(math.Ceil(float64(d)/float64(unit)), 'f', 0, 64)
}
