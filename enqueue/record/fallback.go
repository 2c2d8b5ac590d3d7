package record

import (
	"encoding/json"
	"maps"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/backoff"
	"github.com/evalfleet/evalfleet/providers"
)

// Fallback says how long a run waits for the model it asks, and which models answer in its place if
// that is too long. A run waits first and falls back second.
type Fallback struct {
	Models []string `json:"models"` // provider:model, in the order in which they are asked
	// Overrides are those of each model, in the order of Models; a nil or missing one: none of its
	// own. Workers of a release that does not know them ask the model without.
	Overrides  []map[string]any `json:"overrides,omitempty"`
	AutoWait   bool             `json:"auto_wait"`
	MaxWait    time.Duration    `json:"max_wait"` // of each single wait; 0: unlimited
	MaxRetries int              `json:"max_retries"`
	Base       float64          `json:"backoff_base"` // at least 1
	// After429 is the first wait after a refusal for too many requests, if the provider does not
	// ask for a longer one.
	After429 time.Duration `json:"after_429"`
	// AfterRetries retries calls that failed for other reasons as Retry says before the next model
	// is asked. Otherwise the next model is asked at once.
	AfterRetries bool `json:"after_retries,omitempty"`
}

// DefaultFallback applies if an evaluation names only models.
var DefaultFallback = Fallback{
	AutoWait: true, MaxWait: 300 * time.Second, MaxRetries: 3, Base: 2, After429: 60 * time.Second,
}

// LimitWait returns how long a run waits when its limits ask it to wait for b. made is how many
// such waits came before, for the same call. The waits are b, b, b·Base, b·Base² and so on,
// MaxRetries+1 in all. If ok is false, the run does not wait but asks the next model; wait is the
// wait that would have been too long, or one too many.
func (f *Fallback) LimitWait(made int, b time.Duration) (wait time.Duration, ok bool) {
	wait = f.grown(b, max(0, made-1))
	return wait, made <= f.MaxRetries && f.bears(wait)
}

// RefusedWait returns how long a run waits after a provider refused a call for too many requests.
// made is how many such waits came before, and b is the provider's hint, or 0. The waits are
// After429, After429·Base, After429·Base² and so on, MaxRetries in all, and each is at least b.
// Hints are not multiplied: the provider gives a new one with each refusal. ok and wait are as for
// LimitWait.
func (f *Fallback) RefusedWait(made int, b time.Duration) (wait time.Duration, ok bool) {
	wait = max(b, f.grown(f.After429, made))
	return wait, made < f.MaxRetries && f.bears(wait)
}

// TooLong reports whether a wait exceeds MaxWait, however few waits the run has made.
func (f *Fallback) TooLong(wait time.Duration) bool { return !f.bears(wait) }

func (f *Fallback) bears(wait time.Duration) bool {
	return f.AutoWait && (f.MaxWait == 0 || wait <= f.MaxWait)
}

// grown returns b·Baseⁿ. It has no bound, because a wait beyond MaxWait is not shortened but not made.
func (f *Fallback) grown(b time.Duration, n int) time.Duration {
	return backoff.Waits{First: b, Longest: math.MaxInt64, Factor: f.Base}.After(n)
}

// Targets returns the models that a judge's runs may ask: the judge itself, then its fallbacks. A
// fallback has those of the judge's overrides that every provider knows, or all of them if it is
// the judge's own model with other settings, and then its own. A nil Fallback has no fallbacks.
func (f *Fallback) Targets(judge eval.Judge) []eval.Judge {
	targets := []eval.Judge{judge}
	if f == nil {
		return targets
	}

	for i, model := range f.Models {
		provider, name, err := eval.ParseTarget(model)
		if err != nil {
			continue
		}
		target := eval.Judge{
			Name: judge.Name, Provider: provider, Model: name, Prompt: judge.Prompt,
			Overrides: f.overrides(i, judge, model == judge.Target()),
		}
		same := func(t eval.Judge) bool {
			return t.Target() == model && (len(f.own(i)) == 0 || reflect.DeepEqual(t.Overrides, target.Overrides))
		}
		if !slices.ContainsFunc(targets, same) {
			targets = append(targets, target)
		}
	}
	return targets
}

// own returns the overrides of the i-th model; nil: it has none.
func (f *Fallback) own(i int) map[string]any {
	if i >= len(f.Overrides) {
		return nil
	}
	return f.Overrides[i]
}

// overrides returns what the i-th model is asked with instead of a judge. all keeps all of the judge's overrides.
func (f *Fallback) overrides(i int, judge eval.Judge, all bool) map[string]any {
	merged := map[string]any{}
	for key, value := range judge.Overrides {
		if all || slices.Contains(common, key) {
			merged[key] = value
		}
	}
	maps.Copy(merged, f.own(i))
	if len(merged) == 0 {
		return nil
	}
	return merged
}

// common lists the overrides that every provider knows.
var common = []string{"max_completion_tokens", "temperature", "reasoning_effort"}

// Judges returns the models that answer in place of others.
func (f *Fallback) Judges() []eval.Judge {
	return f.Targets(eval.Judge{})[1:]
}

// Everyone returns all models that e may call: those it asks, and their fallbacks.
func (s Settings) Everyone(e *eval.Evaluation) []eval.Judge {
	return append(e.Everyone(), s.Fallback.Judges()...)
}

// Fallen is the state that a run in progress keeps of its waits and fallbacks (ProgressFallback).
type Fallen struct {
	Asked   int       `json:"asked,omitempty"`   // index of the target that it asks now
	Waits   int       `json:"waits,omitempty"`   // waits at limits for its next call
	Until   time.Time `json:"until,omitzero"`    // end of the last wait, at a limit or after a refusal
	Refused int       `json:"refused,omitempty"` // waits after refusals of the current model
	Spent   int       `json:"spent,omitempty"`   // calls that failed before it asked the current model, or by dimension
	Tally
}

// Admitted notes that a call was admitted, which ends the waits for it.
func (f *Fallen) Admitted() { f.Waits, f.Until = 0, time.Time{} }

// Begun reports whether the run has waited or fallen back at all.
func (f Fallen) Begun() bool { return f.RateLimitWaits > 0 || len(f.Fell) > 0 }

// Tally counts a run's waits and lists its fallbacks, for its record.
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

// Fell is a fallback from one model to the next. It becomes a row of the results store's events.
type Fell struct {
	Event    string          `json:"event"`
	Original string          `json:"original_model"` // provider:model that the run asks for
	Fallback string          `json:"fallback_model"`
	Reason   string          `json:"reason,omitempty"`
	Class    providers.Class `json:"class"`              // why the previous model was given up
	WaitS    float64         `json:"wait_time_exceeded"` // the wait that was too long or one too many; 0: not a wait
	MaxWaitS *float64        `json:"max_wait_seconds"`   // null: unlimited
	Retries  int             `json:"retry_count"`        // waits made for the previous model
	At       time.Time       `json:"created_at"`
}

// Metadata returns the JSON of the event's row: its fields, and the id of its run. It leaves out
// the event's name and time, which have columns.
func (f Fell) Metadata(run string) ([]byte, error) {
	return json.Marshal(struct {
		Run string `json:"run_id"`
		Fell
		Event any `json:"event,omitempty"` // has a column, as the next one
		At    any `json:"created_at,omitempty"`
	}{Run: run, Fell: f})
}
