package ratelimit

import "strings"

// String says whose calls the scope holds: "provider openai", or "fleet".
func (s Scope) String() string {
	switch {
	case s.Evaluation != "" && s.Provider != "":
		return "evaluation " + s.Evaluation + ", provider " + s.Provider
	case s.Evaluation != "":
		return "evaluation " + s.Evaluation
	case s.Group != "":
		return "group " + s.Group
	case s.Model != "":
		return "model " + s.Provider + ":" + s.Model
	case s.Provider != "":
		return "provider " + s.Provider
	}
	return "fleet"
}

// WaitedFor says in words what a lease waited for (Lease.BoundBy), where it is not
// one of the caller's limits: a cooldown, or Redis's memory. The ID of a limit is
// returned as it is.
func WaitedFor(id string) string {
	if scope, ok := CooldownScope(id); ok {
		return scope.String() + ": cooldown"
	}
	if id == forgotten.id {
		return "Redis: may have forgotten calls in flight"
	}
	return id
}

// CooldownScope is whose calls a cooldown holds back, by its ID.
func CooldownScope(id string) (scope Scope, ok bool) {
	name, ok := strings.CutSuffix(id, cooldownID(""))
	if !ok {
		return scope, false
	}
	if group, ok := strings.CutPrefix(name, "group/"); ok {
		return Scope{Group: group}, true
	}
	name, ok = strings.CutPrefix(name, "provider/")
	scope.Provider, scope.Model, _ = strings.Cut(name, "/model/")
	return scope, ok
}
