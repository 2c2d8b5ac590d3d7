package ratelimit

import (
	"fmt"
	"strings"
	"time"
)

// Kind is what a limit counts.
type Kind string

// The kinds of limits.
const (
	Concurrency  Kind = "concurrency"   // calls in flight
	Requests     Kind = "requests"      // calls started in a period
	Tokens       Kind = "tokens"        // input and output of calls started in a period
	InputTokens  Kind = "input_tokens"  // their input alone
	OutputTokens Kind = "output_tokens" // their output alone
	Cost         Kind = "cost"          // money, in nano-USD, of all calls together: a budget
	// EnqueuedTokens counts the input tokens of batches that have not ended: see TierBatch. A batch gives all of its
	// tokens back when it ends, whatever it used. One of more tokens than Max is refused: see Refusal.TooLarge.
	EnqueuedTokens Kind = "enqueued_tokens"
)

// TierBatch is the Scope.Tier of a batch: many requests that a provider answers together, later and for less. Providers
// count batches apart from other calls. So a batch is under budgets, closures and EnqueuedTokens only, and no other call
// is under EnqueuedTokens.
const TierBatch = "batch"

// tokens reports whether a limit of the kind counts tokens.
func (k Kind) tokens() bool { return k == Tokens || k == InputTokens || k == OutputTokens }

// Scope says which calls a limit applies to. Empty fields match every call; a
// limit with Provider and Model set applies to that model only. The zero Scope
// is the whole fleet.
type Scope struct {
	// Provider is the name of a provider, such as openai, which contains all of its accounts, or of one account, such as
	// openai/eu.
	Provider   string `json:"provider,omitempty"`
	Model      string `json:"model,omitempty"`
	Group      string `json:"group,omitempty"`
	Evaluation string `json:"evaluation,omitempty"`
	// Tier is the service tier that a call asks for, such as flex; empty: the standard one. Limits apply to all tiers
	// but TierBatch. A refusal for want of a tier's capacity holds back the calls of that tier.
	Tier string `json:"tier,omitempty"`
}

// Matches reports whether a limit of scope s applies to a call of scope call. All fields of
// call must be known.
func (s Scope) Matches(call Scope) bool {
	return (s.Provider == "" || Contains(s.Provider, call.Provider)) &&
		(s.Model == "" || s.Model == call.Model) &&
		(s.Group == "" || s.Group == call.Group) &&
		(s.Evaluation == "" || s.Evaluation == call.Evaluation) &&
		(s.Tier == "" || s.Tier == call.Tier)
}

// accountMark separates a provider from an account there.
const accountMark = "/"

// At returns the scope of the call if it is made at a provider, or an account.
func (s Scope) At(provider string) Scope {
	s.Provider = provider
	return s
}

// Contains reports whether provider is the same provider or account as of, or the provider of the account of.
func Contains(provider, of string) bool {
	rest, ok := strings.CutPrefix(of, provider)
	return ok && (rest == "" || strings.HasPrefix(rest, accountMark))
}

// Concerns reports whether the scope matches a call, or would if that was made at one of its provider's accounts.
func (s Scope) Concerns(call Scope) bool {
	return s.Matches(call) || Contains(call.Provider, s.Provider) && s.Matches(call.At(s.Provider))
}

// Limit is a bound that calls must keep.
type Limit struct {
	Scope
	Kind Kind `json:"kind"`
	// Max is the bound: calls in flight for Concurrency, nano-USD for Cost, tokens for EnqueuedTokens, else
	// calls or tokens per Period or day. At least 1.
	Max int64 `json:"max"`
	// Period is the period of a rate. A fractional rate has a longer Period (0.2 per second is 1 per 5 s).
	Period time.Duration `json:"period,omitempty"`
	// Resets makes the limit a quota: Max calls per calendar day, which ends at midnight in this time zone (an IANA
	// name, "UTC", "America/Los_Angeles"), daylight saving included. Period, Burst, Window and Jitter are then not set.
	Resets string `json:"resets,omitempty"`
	// Burst is how many calls, or tokens, the provider's bucket holds; with a Jitter, fewer may
	// start at once. 0: a tenth of a second's worth may, at least 1 and in a window at most
	// 2. A call of more tokens waits for a full bucket.
	Burst int64 `json:"burst,omitempty"`
	// Window is how the provider counts a rate. The zero Window is a token
	// bucket.
	Window Window `json:"window,omitzero"`
	// Jitter is the assumed spread between a grant and the request's arrival, which windows leave
	// free, and buckets with a Burst in it. 0: none. Measured: as much as is needed.
	Jitter time.Duration `json:"jitter,omitempty"`
	// Charged means that the provider charges what a call reserved, and gives nothing back if the call used less:
	// settling then only adds usage.
	Charged bool `json:"charged,omitempty"`
	// Adaptive, for Concurrency, makes Max a cap. The limit is cut below it when the provider refuses calls, and grows
	// again; see Settlement.
	Adaptive bool `json:"adaptive,omitempty"`
}

// Matches reports whether the limit applies to a call. All fields of call must be known.
func (l Limit) Matches(call Scope) bool {
	if !l.Scope.Matches(call) {
		return false
	}
	batch := call.Tier == TierBatch
	switch l.Kind {
	case EnqueuedTokens:
		return batch
	case Concurrency:
		return !batch || l.Max == 0 // a closure
	case Requests, Tokens, InputTokens, OutputTokens:
		return !batch
	}
	return true
}

// Concerns reports whether the limit applies to a call, or would if that was made at one of its provider's accounts.
func (l Limit) Concerns(call Scope) bool {
	return l.Matches(call) || Contains(call.Provider, l.Provider) && l.Matches(call.At(l.Provider))
}

// Shape is how a provider counts a rate.
type Shape string

// The shapes.
const (
	Bucket  Shape = "bucket"
	Sliding Shape = "sliding"
	Fixed   Shape = "fixed"
)

// Window is a Shape and, except for a bucket, its length.
type Window struct {
	Shape  Shape         `json:"shape,omitempty"` // empty: Bucket
	Length time.Duration `json:"length,omitempty"`
}

// ID names the limit: its scope, its unit and its period, for example
// "provider/openai/concurrency" or "provider/openai/model/gpt-5/requests/1m0s". Two limits with
// one ID are the same limit, and its tightest value applies.
func (l Limit) ID() string {
	id := ""
	for _, part := range []struct{ name, value string }{
		{"evaluation", l.Evaluation}, {"provider", l.Provider}, {"model", l.Model}, {"group", l.Group},
	} {
		if part.value != "" {
			id += part.name + "/" + part.value + "/"
		}
	}

	if id == "" {
		id = "fleet/"
	}
	id += string(l.Kind)
	switch {
	case l.Kind == Concurrency || l.Kind == Cost || l.Kind == EnqueuedTokens:
	case l.Resets != "":
		id += "/day"
	default:
		id += "/" + l.Period.String()
	}

	// Windows of tokens of different lengths bound different things, and so does a bucket.
	switch {
	case !l.Kind.tokens():
	case !l.windowed():
		id += "/bucket"
	case l.Window.Length != l.Period:
		id += "/" + l.Window.Length.String()
	}

	return id
}

// String describes the limit for people: "provider openai: 16 in flight".
func (l Limit) String() string {
	where := l.Scope.String()
	what := strings.ReplaceAll(string(l.Kind), "_", " ")
	switch {
	case l.Kind == Concurrency && l.Max == 0:
		return where + ": starts no calls (paused or cancelled)"
	case l.Kind == Concurrency:
		return fmt.Sprintf("%s: %s in flight", where, Amount(l.Max))
	case l.Kind == Cost:
		return fmt.Sprintf("%s: budget of %s", where, Dollars(l.Max))
	case l.Kind == EnqueuedTokens:
		return fmt.Sprintf("%s: %s tokens enqueued in batches", where, Amount(l.Max))
	case l.Resets != "":
		return fmt.Sprintf("%s: %s %s per day (%s)", where, Amount(l.Max), what, l.Resets)
	}
	return fmt.Sprintf("%s: %s %s%s", where, Amount(l.Max), what, Per(l.Period))
}
