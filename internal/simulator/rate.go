package simulator

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Shape says how a Rate counts.
type Shape string

// The shapes: any interval of the window's length; consecutive windows on the clock, those of 24h
// from midnight UTC; a bucket of Burst that is refilled evenly.
const (
	Sliding Shape = "sliding"
	Fixed   Shape = "fixed"
	Bucket  Shape = "bucket"
)

// Rate is N per Window. Its text form is "60/1m", "60/1m fixed" or "60/1m bucket:5".
type Rate struct {
	N      int
	Window time.Duration
	Shape  Shape // empty: Sliding
	Burst  int   // of a bucket; 0: N
}

// Rates all apply at the same time. Their text form is separated by commas, for example "60/1m,
// 1000/24h fixed".
type Rates []Rate

// MarshalText writes the rates as UnmarshalText reads them.
func (r Rates) MarshalText() ([]byte, error) {
	texts := make([]string, len(r))
	for i, rate := range r {
		texts[i] = rate.String()
	}
	return []byte(strings.Join(texts, ", ")), nil
}

// UnmarshalText reads one rate or several, separated by commas.
func (r *Rates) UnmarshalText(text []byte) error {
	*r = nil
	for part := range strings.SplitSeq(string(text), ",") {
		var rate Rate
		if err := rate.UnmarshalText([]byte(strings.TrimSpace(part))); err != nil {
			return err
		}
		*r = append(*r, rate)
	}
	return nil
}

// MarshalText writes the rate as UnmarshalText reads it.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// String returns the rate's text form.
func (r Rate) String() string {
	text := strconv.Itoa(r.N) + "/" + r.Window.String()
	if r.Shape != "" {
		text += " " + string(r.Shape)
	}
	if r.Burst > 0 {
		text += ":" + strconv.Itoa(r.Burst)
	}
	return text
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
	if r.validate() != nil {
		return problem
	}
	return nil
}

func (r Rate) validate() error {
	switch {
	case r.N < 1 || r.Window <= 0:
		return fmt.Errorf("%d per %v: want both above 0", r.N, r.Window)
	case r.Shape != "" && r.Shape != Sliding && r.Shape != Fixed && r.Shape != Bucket:
		return fmt.Errorf("shape %q: want sliding, fixed or bucket", r.Shape)
	case r.Burst < 0, r.Burst > 0 && r.Shape != Bucket:
		return errors.New("only a bucket has a burst, above 0")
	}
	return nil
}

// largest returns the most that a single request can be charged.
func (r Rate) largest() int {
	if r.Burst > 0 {
		return r.Burst
	}
	return r.N
}

// per returns the window in a provider's words.
func (r Rate) per() string {
	switch r.Window {
	case time.Second:
		return "second"
	case time.Minute:
		return "min"
	case time.Hour:
		return "hour"
	case 24 * time.Hour:
		return "day"
	}
	return r.Window.String()
}
