package view

import (
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	t.Parallel()
	var p Pace
	start := time.Now()
	if rate, known := p.PerSecond(); known {
		t.Errorf("at first the pace is said to be %v", rate)
	}
	p.Note(start, 0)
	for _, test := range []struct {
		after time.Duration
		done  int
		rate  float64
		known bool
	}{
		{400 * time.Millisecond, 5, 0, false}, // too soon to tell
		{10 * time.Second, 100, 10, true},
		{20 * time.Second, 200, 10, true},
		{100 * time.Second, 200, 0, true}, // nothing has ended for long
	} {
		p.Note(start.Add(test.after), test.done)
		if rate, known := p.PerSecond(); rate != test.rate || known != test.known {
			t.Errorf("after %s: %v, known %v; want %v, %v", test.after, rate, known, test.rate, test.known)
		}
	}
	p.Restart(start.Add(101*time.Second), 300)
	if rate, known := p.PerSecond(); known {
		t.Errorf("after a restart the pace is said to be %v", rate)
	}
}
