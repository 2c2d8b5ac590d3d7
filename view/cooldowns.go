package view

import (
	"time"

	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/view/show"
)

// Cooldown is a scope whose calls are in cooldown, because its provider reported too many
// requests, or all calls while Redis may not know those in flight (ratelimit.MemoryID).
type Cooldown struct {
	ID    string  `json:"limit"`
	Words string  `json:"words"`
	Why   string  `json:"why"`
	NextS float64 `json:"next_s"` // until calls may start
	Probe bool    `json:"probe"`  // one call was let through, and the others wait for its outcome
	// Parked: a day's quota is used up, and the calls wait until it is reset.
	Parked bool `json:"parked,omitempty"`
}

// Text is the cooldown on a line of its own.
func (v Cooldown) Text(now time.Time) string {
	switch {
	case v.Parked:
		return v.Words + " " + Until(now, Seconds(v.NextS))
	case v.ID == ratelimit.MemoryID:
		return v.Words + ", " + show.ShortDuration(Seconds(v.NextS)) + " left"
	}
	return v.Words
}

// Cooldowns returns those cooldowns that hold for calls which keep a limit of the same
// scope, and that of ratelimit.MemoryID.
func Cooldowns(all []ratelimit.Cooldown, kept func(ratelimit.Limit) bool) []Cooldown {
	var views []Cooldown
	for _, c := range all {
		scope, ok := ratelimit.CooldownScope(c.ID)
		if ok && kept(ratelimit.Limit{Scope: scope}) || c.ID == ratelimit.MemoryID {
			views = append(views, Cooldown{c.ID, c.String(), c.Why(), c.Wait.Seconds(), c.Probe, c.Parked})
		}
	}
	return views
}
