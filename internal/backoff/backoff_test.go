package backoff

import (
	"math"
	"testing"
	"time"
)

func TestWaits(t *testing.T) {
	t.Parallel()
	doubled := Waits{First: 50 * time.Millisecond, Longest: time.Second, Factor: 2}
	unbounded := Waits{First: time.Minute, Longest: math.MaxInt64, Factor: 1.5}
	for _, tt := range []struct {
		waits Waits
		n     int
		want  time.Duration
	}{
		{doubled, 0, 50 * time.Millisecond}, {doubled, 1, 100 * time.Millisecond}, {doubled, 4, 800 * time.Millisecond},
		{doubled, 5, time.Second}, {doubled, math.MaxInt, time.Second},
		{unbounded, 0, time.Minute}, {unbounded, 2, 135 * time.Second}, {unbounded, 1000, math.MaxInt64},
		{Waits{First: time.Second, Longest: time.Minute, Factor: 1}, 1000, time.Second},
		{Waits{First: time.Minute, Longest: time.Second, Factor: 2}, 0, time.Second},
		{Waits{First: 3, Longest: time.Second, Factor: 1.5}, 1, 5},
		{Waits{First: 1 << 53, Longest: 1 << 62, Factor: 2}, 500, 1 << 62},
		{Waits{Longest: math.MaxInt64, Factor: 1000}, 1000, 0}, {Waits{First: -time.Second, Longest: time.Minute, Factor: 2}, 3, 0},
	} {
		if got := tt.waits.After(tt.n); got != tt.want {
			t.Errorf("%+v after %d: got %s, want %s", tt.waits, tt.n, got, tt.want)
		}
	}
}

func TestShorten(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		share, random float64
		want          time.Duration
	}{
		{0, 0, 4 * time.Second}, {0, 0.9, 4 * time.Second}, {0.5, 0, 2 * time.Second}, {0.5, 0.5, 3 * time.Second},
		{1, 0, 0}, {1, 0.75, 3 * time.Second},
	} {
		if got := Shorten(4*time.Second, tt.share, tt.random); got != tt.want {
			t.Errorf("4 s, up to %g of it less, random %g: got %s, want %s", tt.share, tt.random, got, tt.want)
		}
	}
}
