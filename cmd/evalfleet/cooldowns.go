package main

import (
	"fmt"
	"time"

	"github.com/evalfleet/evalfleet/internal/show"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// cooldownView is a scope whose calls are held back, because its provider
// answered that it is asked too much.
type cooldownView struct {
	ID    string  `json:"limit"`
	Words string  `json:"words"`
	Why   string  `json:"why"`
	NextS float64 `json:"next_s"` // until calls may start
	Probe bool    `json:"probe"`  // one call was let through, and the others wait for what becomes of it
	// Parked: a day's quota is used up, and the calls wait until it is reset.
	Parked bool `json:"parked,omitempty"`
}

// text is the view in a line of its own.
func (v cooldownView) text(now time.Time) string {
	if !v.Parked {
		return v.Words
	}
	return v.Words + " " + untilText(now, seconds(v.NextS))
}

// untilText is when a wait is over: "until 08:00 (in 5h0m)".
func untilText(now time.Time, wait time.Duration) string {
	return fmt.Sprintf("until %s (in %s)", now.Add(wait).Format("15:04"), show.ShortDuration(wait))
}

// cooldownViews are those cooldowns that calls keep which keep a limit of the
// same scope.
func cooldownViews(all []ratelimit.Cooldown, kept func(ratelimit.Limit) bool) []cooldownView {
	var views []cooldownView
	for _, c := range all {
		if scope, ok := ratelimit.CooldownScope(c.ID); ok && kept(ratelimit.Limit{Scope: scope}) {
			views = append(views, cooldownView{c.ID, c.String(), c.Why(), c.Wait.Seconds(), c.Probe, c.Parked})
		}
	}
	return views
}
