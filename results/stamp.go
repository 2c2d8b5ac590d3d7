package results

import (
	"database/sql/driver"
	"fmt"
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

// stamp is a time as a column holds it; the zero time is NULL.
type stamp struct{ time.Time }

// Value implements driver.Valuer.
func (s stamp) Value() (driver.Value, error) {
	if s.IsZero() {
		return nil, nil
	}
	return formatTime(s.Time), nil
}

// Scan implements sql.Scanner.
func (s *stamp) Scan(src any) error {
	switch src := src.(type) {
	case nil:
		s.Time = time.Time{}
		return nil
	case string:
		t, err := time.Parse(time.RFC3339, src)
		s.Time = t
		return err
	default:
		return fmt.Errorf("time column holds a %T", src)
	}
}
