package results

import (
	"database/sql/driver"
	"fmt"
	"math"
	"time"

	"github.com/evalfleet/evalfleet/internal/table"
)

// wholeMilliseconds converts seconds to a duration, rounded to the milliseconds that times in
// columns have.
func wholeMilliseconds(seconds float64) time.Duration {
	return time.Duration(math.Round(seconds*1000)) * time.Millisecond
}

// stamp is a time in the form of a column; the zero time is NULL.
type stamp struct{ time.Time }

// Value implements driver.Valuer.
func (s stamp) Value() (driver.Value, error) { return s.value(), nil }

func (s stamp) value() any {
	if s.IsZero() {
		return nil
	}
	return table.FormatTime(s.Time)
}

// Scan implements sql.Scanner.
func (s *stamp) Scan(src any) error {
	switch src := src.(type) {
	case nil:
		s.Time = time.Time{}
		return nil
	case string: // from SQLite
		t, err := time.Parse(time.RFC3339, src)
		s.Time = t
		return err
	case time.Time: // from PostgreSQL
		s.Time = src.UTC()
		return nil
	default:
		return fmt.Errorf("time column holds a %T", src)
	}
}
