package simulator

import "time"

// limitState is what the rate-limit headers say of one quantity: the state of
// the limit of which least is left.
type limitState struct {
	counted   quantity
	max, left int
	reset     time.Duration // until the limit is as if nothing had been charged
}

// tightest is the state of each limited quantity.
func tightest(scopes [2]*scope, now time.Time) (states []limitState) {
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
