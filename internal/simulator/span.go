package simulator

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Span is a range of durations, both ends included. As text "500ms" or
// "200ms..2s".
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

// at is the duration at a share of the range.
func (s Span) at(share float64) time.Duration {
	return s.Min + time.Duration(share*float64(s.Max-s.Min))
}
