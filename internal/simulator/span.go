package simulator

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Span is a range of durations, both ends included. Its text form is "500ms" or "200ms..2s".
type Span struct{ Min, Max time.Duration }

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

// at returns the duration at a share of the range: 0 is Min, 1 is Max.
func (s Span) at(share float64) time.Duration {
	return s.Min + time.Duration(share*float64(s.Max-s.Min))
}

// Range is a range of counts, both ends included. Its text form is "500" or "200..800".
type Range struct{ Min, Max int }

// MarshalText writes the range as UnmarshalText reads it.
func (r Range) MarshalText() ([]byte, error) {
	if r.Min == r.Max {
		return []byte(strconv.Itoa(r.Min)), nil
	}
	return []byte(strconv.Itoa(r.Min) + ".." + strconv.Itoa(r.Max)), nil
}

// UnmarshalText reads "500" or "200..800".
func (r *Range) UnmarshalText(text []byte) error {
	low, high, ranged := strings.Cut(string(text), "..")
	if !ranged {
		high = low
	}
	var err, err2 error
	r.Min, err = strconv.Atoi(low)
	r.Max, err2 = strconv.Atoi(high)
	if err := errors.Join(err, err2); err != nil || r.Min < 1 || r.Max < r.Min {
		return fmt.Errorf("%q: want a count above 0 like 500 or a range like 200..800", text)
	}
	return nil
}

// at returns the count at a share of the range; share is in [0, 1).
func (r Range) at(share float64) int { return r.Min + int(share*float64(r.Max-r.Min+1)) }
