package record

import (
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
)

// Fallback says how long a run waits for the model it asks, and which others
// answer in its place when that is too long: wait first, fall back second.
type Fallback struct {
	Models     []string      `json:"models"` // provider:model, in the order in which they are asked
	AutoWait   bool          `json:"auto_wait"`
	MaxWait    time.Duration `json:"max_wait"` // of each single wait; 0: any
	MaxRetries int           `json:"max_retries"`
	Base       float64       `json:"backoff_base"` // at least 1
	// After429 is the first wait after a provider's refusal that gives no longer one.
	After429 time.Duration `json:"after_429"`
	// AfterRetries retries calls that failed for other reasons by the rules of Retry before the
	// next model is asked; otherwise it is asked at once.
	AfterRetries bool `json:"after_retries,omitempty"`
}

// DefaultFallback applies if an evaluation names only models.
var DefaultFallback = Fallback{
	AutoWait: true, MaxWait: 300 * time.Second, MaxRetries: 3, Base: 2, After429: 60 * time.Second,
}

// LimitWait is how long a run waits whose limits would have it wait for b, after
// it has made so many such waits for the same call: b, b, b·Base, b·Base² and so
// on, the first and MaxRetries more. ok is false when it does not: the next model is
// asked, and wait is what would have been too long.
func (f *Fallback) LimitWait(made int, b time.Duration) (wait time.Duration, ok bool) {
	wait = f.grown(b, max(0, made-1))
	return wait, made <= f.MaxRetries && f.bears(wait)
}

// RefusedWait is the same after a provider's refusal that asks too much is asked,
// the made-th+1 in a row, b being the provider's hint or 0: After429, After429·Base,
// After429·Base² and so on, MaxRetries in all, and each at least b. A hint does not grow:
// the provider gives each refusal its own, and knows when it will take a call.
func (f *Fallback) RefusedWait(made int, b time.Duration) (wait time.Duration, ok bool) {
	wait = max(b, f.grown(f.After429, made))
	return wait, made < f.MaxRetries && f.bears(wait)
}

// TooLong reports whether a run does not wait so long, however few waits it has made.
func (f *Fallback) TooLong(wait time.Duration) bool { return !f.bears(wait) }

func (f *Fallback) bears(wait time.Duration) bool {
	return f.AutoWait && (f.MaxWait == 0 || wait <= f.MaxWait)
}

func (f *Fallback) grown(b time.Duration, n int) time.Duration {
	grown := math.Round(float64(b) * math.Pow(f.Base, float64(n)))
	if grown >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(grown)
}

// Targets are the models of a judge's runs: the judge itself, then its fallbacks, with those of
// its overrides that every provider knows. A nil Fallback has none.
func (f *Fallback) Targets(judge eval.Judge) []eval.Judge {
	targets := []eval.Judge{judge}
	if f == nil {
		return targets
	}
	var overrides map[string]any
	for _, key := range []string{"max_completion_tokens", "temperature", "reasoning_effort"} {
		if value, ok := judge.Overrides[key]; ok {
			if overrides == nil {
				overrides = map[string]any{}
			}
			overrides[key] = value
		}
	}
	for _, model := range f.Models {
		provider, name, err := eval.ParseTarget(model)
		if err != nil || slices.ContainsFunc(targets, func(t eval.Judge) bool { return t.Target() == model }) {
			continue
		}
		targets = append(targets, eval.Judge{Name: judge.Name, Provider: provider, Model: name, Prompt: judge.Prompt, Overrides: overrides})
	}
	return targets
}

// Judges are the models that answer in place of others.
func (f *Fallback) Judges() []eval.Judge {
	return f.Targets(eval.Judge{})[1:]
}

// Everyone lists all models called for e: those it asks, and their fallbacks.
func (s Settings) Everyone(e *eval.Evaluation) []eval.Judge {
	return append(e.Everyone(), s.Fallback.Judges()...)
}

// Fallen is what of its waits and models a run in progress keeps (ProgressFallback).
type Fallen struct {
	Asked   int       `json:"asked,omitempty"`   // which of its targets it asks
	Waits   int       `json:"waits,omitempty"`   // made at limits for its next call
	Until   time.Time `json:"until,omitzero"`    // end of the last of them, or of one after a refusal
	Refused int       `json:"refused,omitempty"` // waits after refusals of the model it asks
	Spent   int       `json:"spent,omitempty"`   // calls that had failed when it began to ask that model, or for one dimension
	Tally
}

// Admitted ends the waits for a call.
func (f *Fallen) Admitted() { f.Waits, f.Until = 0, time.Time{} }

// Begun reports whether the run has waited or fallen back at all.
func (f Fallen) Begun() bool { return f.RateLimitWaits > 0 || len(f.Fell) > 0 }

// Tally counts what a run's waits and fallbacks were, for its record.
type Tally struct {
	RateLimitWaits     int    `json:"rate_limit_waits,omitempty"`
	RateLimitFallbacks int    `json:"rate_limit_fallbacks,omitempty"`
	ContextFallbacks   int    `json:"context_fallbacks,omitempty"`
	Fell               []Fell `json:"fallbacks,omitempty"` // in order
}

// Names of the events of a fallback, and the reason of the first.
const (
	EventRateLimitFallback     = "rate_limit_fallback"
	EventContextLengthFallback = "context_length_fallback"
	ReasonRateLimitOrError     = "rate_limit_or_error"
)

// Fell is a fallback: an event, and a row of the results store's events.
type Fell struct {
	Event    string          `json:"event"`
	Original string          `json:"original_model"` // provider:model that the run asks for
	Fallback string          `json:"fallback_model"`
	Reason   string          `json:"reason,omitempty"`
	Class    providers.Class `json:"class"`              // why the model before was given up
	WaitS    float64         `json:"wait_time_exceeded"` // the wait that was too long or one too many; 0: it was no wait
	MaxWaitS *float64        `json:"max_wait_seconds"`   // null: any
	Retries  int             `json:"retry_count"`        // waits made for the model before
	At       time.Time       `json:"created_at"`
}

// Metadata is the JSON of the event's row: its fields, and the id of its run.
func (f Fell) Metadata(run string) ([]byte, error) {
	return json.Marshal(struct {
		Run string `json:"run_id"`
		Fell
		Event any `json:"event,omitempty"` // a column, like the next
		At    any `json:"created_at,omitempty"`
	}{Run: run, Fell: f})
}
