package ratelimit

import (
	"errors"
	"fmt"
	"time"
)

// Bounds that keep every product of the arithmetic exact in a double, the only number type of Redis's Lua.
const (
	greatestMax    = 1_000_000_000
	greatestMoney  = 1_000_000 * Dollar
	greatestQueue  = 1_000_000_000_000 // tokens; some accounts may enqueue 15,000,000,000
	greatestPeriod = 31 * 24 * time.Hour
	greatestWindow = 24 * time.Hour
	greatestRefill = 366 * 24 * time.Hour
	// A script reads all slots of a window at once, and Lua limits how many values it can handle.
	greatestSlots = 4000
)

// Greatest returns the greatest Max of a limit of the kind.
func (k Kind) Greatest() int64 {
	switch k {
	case Cost:
		return greatestMoney
	case EnqueuedTokens:
		return greatestQueue
	}
	return greatestMax
}

// Validate reports everything that is wrong with a limit.
func (l Limit) Validate() error {
	var problems []error
	wrong := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("limit %s: "+format, append([]any{l.ID()}, args...)...))
	}
	if greatest := l.Kind.Greatest(); l.Max < 1 || l.Max > greatest {
		wrong("max %d is not between 1 and %d", l.Max, greatest)
	}
	if l.Adaptive && l.Kind != Concurrency {
		wrong("only limits on calls in flight can be adaptive")
	}
	switch l.Kind {
	case Concurrency, Cost, EnqueuedTokens:
		return errors.Join(problems...)
	case Requests, Tokens, InputTokens, OutputTokens:
	default:
		wrong("unknown kind %q", l.Kind)
	}

	if l.Resets != "" {
		if _, err := time.LoadLocation(l.Resets); err != nil {
			wrong("time zone %q: %w", l.Resets, err)
		}
		if l.Kind != Requests {
			wrong("only requests have a daily quota")
		}
		if l.Period != 0 || l.Burst != 0 || l.Jitter != 0 || l.Window != (Window{}) {
			wrong("a daily quota has no period, burst, window or jitter")
		}
		return errors.Join(problems...)
	}

	if l.Period < time.Millisecond || l.Period > greatestPeriod {
		wrong("period %s is not between 1ms and %s", l.Period, greatestPeriod)
	}
	if l.Burst < 0 || l.Burst > greatestMax {
		wrong("burst %d is not between 0 and %d", l.Burst, greatestMax)
	}
	if l.Jitter < 0 || l.Jitter > time.Hour {
		wrong("jitter %s is not between 0 and 1h", l.Jitter)
	}
	switch l.Window.Shape {
	case "", Bucket:
		if l.Window.Length != 0 {
			wrong("a bucket has no length, got %s", l.Window.Length)
		}
	case Sliding, Fixed:
		if l.Window.Length < time.Millisecond || l.Window.Length > greatestWindow {
			wrong("window of %s is not between 1ms and %s", l.Window.Length, greatestWindow)
		}
	default:
		wrong("unknown window shape %q", l.Window.Shape)
	}

	if l.windowed() && scaled(l.Max, l.Window.Length, l.Period) < 1 {
		wrong("%d per %s leaves nothing for a window of %s", l.Max, l.Period, l.Window.Length)
	}
	if l.windowed() && (l.Window.Length+l.Jitter+horizon)/max(time.Microsecond, l.Window.Length/windowSlots) > greatestSlots {
		wrong("jitter of %s is too long for a window of %s", l.Jitter, l.Window.Length)
	}
	if len(problems) == 0 && l.Kind == Requests {
		if interval, burst := l.pace(); burst > int64(greatestRefill/interval) {
			wrong("a burst of %d takes more than a year to refill", burst)
		}
	}

	return errors.Join(problems...)
}
