package ratelimit

import (
	"strconv"
	"strings"
	"time"
)

// String names the calls that the scope contains: "provider openai", or "fleet".
func (s Scope) String() string {
	switch {
	case s.Evaluation != "" && s.Provider != "":
		return "evaluation " + s.Evaluation + ", provider " + s.Provider
	case s.Evaluation != "":
		return "evaluation " + s.Evaluation
	case s.Group != "":
		return "group " + s.Group
	case s.Tier != "":
		return "model " + s.Provider + ":" + s.Model + ", tier " + s.Tier
	case s.Model != "":
		return "model " + s.Provider + ":" + s.Model
	case s.Provider != "":
		return "provider " + s.Provider
	}
	return "fleet"
}

// WaitedFor describes what a lease waited for (Lease.BoundBy) if it is not one of the caller's limits: a cooldown, or
// Redis's memory. It returns the ID of a limit unchanged.
func WaitedFor(id string) string {
	if scope, ok := CooldownScope(id); ok {
		return scope.String() + ": cooldown"
	}
	if id == forgotten.id {
		return "Redis after a start or loss of data"
	}
	return id
}

// CooldownScope returns the scope whose calls a cooldown holds back, by the cooldown's ID; ok is false if the ID is not
// a cooldown's.
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
	if at := strings.LastIndex(scope.Model, tierMark); at >= 0 {
		scope.Model, scope.Tier = scope.Model[:at], scope.Model[at+len(tierMark):]
	}
	return scope, ok
}

// Amount formats the bound of a limit exactly: "600", "12,500", "1.5 M".
func Amount(n int64) string {
	const million, hundredth = 1_000_000, 10_000
	if n >= million && n%hundredth == 0 {
		return strconv.FormatFloat(float64(n)/million, 'f', -1, 64) + " M"
	}
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// Per formats the period of a rate, to follow its amount: "/min", or " per 10s".
func Per(period time.Duration) string {
	switch period {
	case time.Second:
		return "/s"
	case time.Minute:
		return "/min"
	case time.Hour:
		return "/h"
	}
	text := period.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return " per " + text
}
