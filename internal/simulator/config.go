package simulator

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Config describes the endpoint. The zero value answers at once, without limits
// or faults. Its JSON form is what `evalfleet simulate --settings` reads.
type Config struct {
	Limits           // of the endpoint: all models together
	Behaviour        // of every model that has none of its own
	Seed      uint64 `json:"seed,omitempty"` // other seeds, other luck
	// Models sets limits and behaviour for models by name, and admits names
	// besides careful, average and careless; those judge like average.
	Models map[string]Model `json:"models,omitempty"`
}

// Model is one model's own settings.
type Model struct {
	Limits               // besides the endpoint's
	Behaviour *Behaviour `json:"behaviour,omitempty"` // nil: the endpoint's
}

// Limits are enforced strictly: what is over one is answered 429 at once, and
// counts nothing towards any.
type Limits struct {
	// MaxInFlight bounds the calls between a request's arrival and the last byte
	// of its answer, or the moment its client left. 0: no bound.
	MaxInFlight int  `json:"max_in_flight,omitempty"`
	Requests    Rate `json:"requests,omitzero"`
}

// Behaviour is how a model answers. Shares are between 0 and 1 and drawn for
// each call from the seed, the prompt and how often that prompt was taken
// before, so that they do not depend on the order in which calls arrive.
type Behaviour struct {
	Latency        Span    `json:"latency,omitzero"`          // until the answer
	FailRate       float64 `json:"fail_rate,omitempty"`       // share of calls answered with FailStatus
	FailEvery      int     `json:"fail_every,omitempty"`      // one prompt in so many fails, when it is first taken only; 0: none
	FailStatus     int     `json:"fail_status,omitempty"`     // 400 to 599; 0: 500
	HangRate       float64 `json:"hang_rate,omitempty"`       // share of calls never answered
	CutRate        float64 `json:"cut_rate,omitempty"`        // share of answers cut off in the middle of the body
	MalformedRate  float64 `json:"malformed_rate,omitempty"`  // share of answers with text that is not what was asked
	RetryAfter     Span    `json:"retry_after,omitzero"`      // hint with every 429 and failure; 0: only where a rate tells it
	WithoutSchemas bool    `json:"without_schemas,omitempty"` // response_format json_schema is answered 400
}

// Span is a range of durations, both ends included. As text "500ms" or
// "200ms..2s".
type Span struct{ Min, Max time.Duration }

// Shape is how a Rate counts.
type Shape string

// The shapes: any stretch of the window's length; windows one after another on
// the clock; a bucket of Burst that is refilled evenly.
const (
	Sliding Shape = "sliding"
	Fixed   Shape = "fixed"
	Bucket  Shape = "bucket"
)

// Rate is N requests per Window. As text "60/1m", "60/1m fixed" or
// "60/1m bucket:5". The zero value is no limit.
type Rate struct {
	N      int
	Window time.Duration
	Shape  Shape // empty: Sliding
	Burst  int   // of a bucket; 0: N
}

// MarshalText writes the span as UnmarshalText reads it.
func (s Span) MarshalText() ([]byte, error) {
	if s.Min == s.Max {
		return []byte(s.Min.String()), nil
	}
	return []byte(s.Min.String() + ".." + s.Max.String()), nil
}

// UnmarshalText reads "500ms" or "200ms..2s".
func (s *Span) UnmarshalText(text []byte) error {
	low, high, ranged := strings.Cut(string(text), "..")
	if !ranged {
		high = low
	}
	var err, err2 error
	s.Min, err = time.ParseDuration(low)
	s.Max, err2 = time.ParseDuration(high)
	if err := errors.Join(err, err2); err != nil || s.Min < 0 || s.Max < s.Min {
		return fmt.Errorf("%q: want a duration like 500ms or a range like 200ms..2s", text)
	}
	return nil
}

// at is the duration at a share of the range.
func (s Span) at(share float64) time.Duration {
	return s.Min + time.Duration(share*float64(s.Max-s.Min))
}

// MarshalText writes the rate as UnmarshalText reads it.
func (r Rate) MarshalText() ([]byte, error) {
	text := strconv.Itoa(r.N) + "/" + r.Window.String()
	if r.Shape != "" {
		text += " " + string(r.Shape)
	}
	if r.Burst > 0 {
		text += ":" + strconv.Itoa(r.Burst)
	}
	return []byte(text), nil
}

// UnmarshalText reads "60/1m", "60/1m fixed" or "60/1m bucket:5".
func (r *Rate) UnmarshalText(text []byte) error {
	problem := fmt.Errorf("%q: want a rate like 60/1m, 60/1m fixed or 60/1m bucket:5", text)
	count, rest, ok := strings.Cut(string(text), "/")
	window, shape, _ := strings.Cut(rest, " ")
	shape, burst, hasBurst := strings.Cut(shape, ":")
	var err error
	if r.N, err = strconv.Atoi(count); err != nil || !ok {
		return problem
	}
	if r.Window, err = time.ParseDuration(window); err != nil {
		return problem
	}
	r.Shape, r.Burst = Shape(shape), 0
	if hasBurst {
		if r.Burst, err = strconv.Atoi(burst); err != nil || r.Burst < 1 {
			return problem
		}
	}
	if *r == (Rate{}) || r.validate() != nil {
		return problem
	}
	return nil
}

func (r Rate) validate() error {
	switch {
	case r == Rate{}:
		return nil
	case r.N < 1 || r.Window <= 0:
		return fmt.Errorf("requests: %d per %v: want both above 0", r.N, r.Window)
	case r.Shape != "" && r.Shape != Sliding && r.Shape != Fixed && r.Shape != Bucket:
		return fmt.Errorf("requests: shape %q: want sliding, fixed or bucket", r.Shape)
	case r.Burst < 0, r.Burst > 0 && r.Shape != Bucket:
		return fmt.Errorf("requests: burst %d: only a bucket has one, above 0", r.Burst)
	}
	return nil
}

// Validate joins every problem found.
func (c Config) Validate() error {
	problems := []error{c.Limits.validate(""), c.Behaviour.validate("")}
	for _, name := range slices.Sorted(maps.Keys(c.Models)) {
		model := c.Models[name]
		problems = append(problems, model.validate("model "+name+": "))
		if model.Behaviour != nil {
			problems = append(problems, model.Behaviour.validate("model "+name+": "))
		}
	}
	return errors.Join(problems...)
}

func (l Limits) validate(where string) error {
	var problems []error
	if l.MaxInFlight < 0 {
		problems = append(problems, fmt.Errorf("%smax_in_flight: %d: want 0 or more", where, l.MaxInFlight))
	}
	if err := l.Requests.validate(); err != nil {
		problems = append(problems, fmt.Errorf("%s%w", where, err))
	}
	return errors.Join(problems...)
}

func (b Behaviour) validate(where string) error {
	var problems []error
	for _, share := range []struct {
		name  string
		value float64
	}{
		{"fail_rate", b.FailRate}, {"hang_rate", b.HangRate}, {"cut_rate", b.CutRate}, {"malformed_rate", b.MalformedRate},
	} {
		if !(share.value >= 0 && share.value <= 1) {
			problems = append(problems, fmt.Errorf("%s%s: %v: want 0 to 1", where, share.name, share.value))
		}
	}
	for _, span := range []struct {
		name  string
		value Span
	}{{"latency", b.Latency}, {"retry_after", b.RetryAfter}} {
		if span.value.Min < 0 || span.value.Max < span.value.Min {
			problems = append(problems, fmt.Errorf("%s%s: %v..%v: want a range", where, span.name, span.value.Min, span.value.Max))
		}
	}
	if b.FailEvery < 0 {
		problems = append(problems, fmt.Errorf("%sfail_every: %d: want 0 or more", where, b.FailEvery))
	}
	if b.FailStatus != 0 && (b.FailStatus < 400 || b.FailStatus > 599) {
		problems = append(problems, fmt.Errorf("%sfail_status: %d: want 400 to 599", where, b.FailStatus))
	}
	return errors.Join(problems...)
}
