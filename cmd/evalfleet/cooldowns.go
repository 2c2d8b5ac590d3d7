package main

import (
	"strings"

	"github.com/evalfleet/evalfleet/ratelimit"
)

// waitedFor is what calls waited for in words, by its ID, where it is no limit
// that is known here.
func waitedFor(id string) string {
	if scope, ok := cooldownScope(id); ok {
		switch {
		case scope.Group != "":
			return "group " + scope.Group + ": cooldown"
		case scope.Model != "":
			return "model " + scope.Provider + ":" + scope.Model + ": cooldown"
		}
		return "provider " + scope.Provider + ": cooldown"
	}
	if id == "redis/memory" {
		return "Redis: may have forgotten calls in flight"
	}
	return id
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
}

// cooldownViews are those cooldowns that calls keep which keep a limit of the
// same scope.
func cooldownViews(all []ratelimit.Cooldown, kept func(ratelimit.Limit) bool) []cooldownView {
	var views []cooldownView
	for _, c := range all {
		if scope, ok := cooldownScope(c.ID); ok && kept(ratelimit.Limit{Scope: scope}) {
			views = append(views, cooldownView{c.ID, waitedFor(c.ID), c.Wait.Seconds(), c.Probe})
		}
	}
	return views
}
