package redistest

import (
	"testing"
	"time"
)

func TestClockOfAServerIsSet(t *testing.T) {
	t.Parallel()
	if !CanSetClock() {
		t.Skip("needs Linux and a C compiler")
	}
	s := NewClocked(t, nil)
	other := NewClocked(t, s)
	for _, ahead := range []time.Duration{0, 72 * time.Hour, -72 * time.Hour, 3 * time.Second} {
		s.SetClock(ahead)
		for _, client := range []*Server{s, other} {
			before := time.Now()
			got, err := client.Client().Time(t.Context()).Result()
			if err != nil {
				t.Fatal(err)
			}
			earliest, latest := before.Add(ahead-time.Millisecond), time.Now().Add(ahead+time.Millisecond)
			if got.Before(earliest) || got.After(latest) {
				t.Errorf("set %s ahead, its clock is %s, want %s to %s", ahead, got, earliest, latest)
			}
		}
	}
}
