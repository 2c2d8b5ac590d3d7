package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/ratelimit"
)

// waitedFor is what calls waited for in words, by its ID, where it is no limit
// that is known here.
func waitedFor(id string) string {
	if scope, ok := cooldownScope(id); ok {
		return whose(scope) + ": cooldown"
	}
	if id == "redis/memory" {
		return "Redis: may have forgotten calls in flight"
	}
	return id
}

// whose names the scope of a cooldown.
func whose(scope ratelimit.Scope) string {
	switch {
	case scope.Group != "":
		return "group " + scope.Group
	case scope.Model != "":
		return "model " + scope.Provider + ":" + scope.Model
	}
	return "provider " + scope.Provider
}

// cooldownScope is whose calls a cooldown holds back, by its ID, such as
// "provider/openai/model/gpt-5/cooldown".
func cooldownScope(id string) (scope ratelimit.Scope, ok bool) {
	name, ok := strings.CutSuffix(id, "/cooldown")
	if !ok {
		return scope, false
	}
	if group, ok := strings.CutPrefix(name, "group/"); ok {
		return ratelimit.Scope{Group: group}, true
	}
	name, ok = strings.CutPrefix(name, "provider/")
	scope.Provider, scope.Model, _ = strings.Cut(name, "/model/")
	return scope, ok
}

// cooldownView is a scope whose calls are held back, because its provider
// answered that it is asked too much.
type cooldownView struct {
	ID    string  `json:"limit"`
	Words string  `json:"words"`
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
	return fmt.Sprintf("until %s (in %s)", now.Add(wait).Format("15:04"), shortDuration(wait))
}

// cooldownViews are those cooldowns that calls keep which keep a limit of the
// same scope.
func cooldownViews(all []ratelimit.Cooldown, kept func(ratelimit.Limit) bool) []cooldownView {
	var views []cooldownView
	for _, c := range all {
		if scope, ok := cooldownScope(c.ID); ok && kept(ratelimit.Limit{Scope: scope}) {
			words := waitedFor(c.ID)
			if c.Parked {
				words = whose(scope) + ": parked"
			}
			views = append(views, cooldownView{c.ID, words, c.Wait.Seconds(), c.Probe, c.Parked})
		}
	}
	return views
}
