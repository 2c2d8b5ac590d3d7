package results

import (
	"database/sql/driver"
	"fmt"
	"math"
	"time"
)

const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// formatTime is the written form of every time: RFC 3339 with milliseconds, UTC;
// empty for the zero time.
func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timeLayout)
}

// wholeMilliseconds is a sum of differences between times in columns.
func wholeMilliseconds(seconds float64) time.Duration {
	return time.Duration(math.Round(seconds*1000)) * time.Millisecond
}

// stamp is a time as a column holds it; the zero time is NULL.
type stamp struct{ time.Time }

// Value implements driver.Valuer.
func (s stamp) Value() (driver.Value, error) { return s.value(), nil }

func (s stamp) value() any {
	if s.IsZero() {
		return nil
	}
	return formatTime(s.Time)
}

// Scan implements sql.Scanner.
func (s *stamp) Scan(src any) error {
	switch src := src.(type) {
	case nil:
		s.Time = time.Time{}
		return nil
	case string: // of SQLite
		t, err := time.Parse(time.RFC3339, src)
		s.Time = t
		return err
	case time.Time: // of PostgreSQL
		s.Time = src.UTC()
		return nil
	default:
		return fmt.Errorf("time column holds a %T", src)
	}
}
