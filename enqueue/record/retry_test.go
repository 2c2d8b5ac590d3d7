package record

import (
	"testing"
	"time"
)

func TestRetryDelay(t *testing.T) {
	t.Parallel()
	some := Retry{InitialDelay: time.Second, MaxDelay: 10 * time.Second, Jitter: 500 * time.Millisecond}
	full := Retry{InitialDelay: time.Second, MaxDelay: 10 * time.Second, FullJitter: true}
	none := Retry{InitialDelay: 500 * time.Millisecond, MaxDelay: 60 * time.Second}
	huge := Retry{InitialDelay: 40 * time.Hour, MaxDelay: 1 << 62}
	for _, tt := range []struct {
		retry  Retry
		n      int
		random float64
		want   time.Duration
	}{
		{some, 1, 0, time.Second}, {some, 1, 0.5, 1250 * time.Millisecond}, {some, 2, 0, 2 * time.Second}, {some, 4, 0, 8 * time.Second},
		{some, 5, 0, 10 * time.Second}, {some, 5, 0.99, 10 * time.Second}, {some, 60, 0, 10 * time.Second},
		{full, 1, 0, 0}, {full, 1, 0.5, 500 * time.Millisecond}, {full, 3, 0.75, 3 * time.Second}, {full, 9, 0.5, 5 * time.Second},
		{none, 1, 0.9, 500 * time.Millisecond}, {none, 3, 0.9, 2 * time.Second}, {none, 20, 0.9, time.Minute},
		{huge, 500, 0, 1 << 62},
	} {
		if got := tt.retry.Delay(tt.n, tt.random); got != tt.want {
			t.Errorf("%+v after %d calls, random %.2f: got %s, want %s", tt.retry, tt.n, tt.random, got, tt.want)
		}
	}
}
