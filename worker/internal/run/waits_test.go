package run

import (
	"testing"
	"time"
)

// TestManyWaitsAreCountedNotLogged: a thousand waits a second are a line a minute, and no wait
// is lost from the count.
func TestManyWaitsAreCountedNotLogged(t *testing.T) {
	t.Parallel()
	var waits Waits
	began := time.Now()
	lines, counted := 0, 0
	for i := range 150_000 { // of 2.5 minutes
		count, longest := waits.say(logged{WaitBegins, "p:m"}, time.Duration(i+1), began.Add(time.Duration(i)*time.Millisecond))
		if count > 0 {
			lines, counted = lines+1, counted+count
			if longest != time.Duration(i+1) {
				t.Errorf("line %d: the longest wait is %d, want %d", lines, longest, i+1)
			}
		}
	}
	if lines != 3 || counted != 120_001 {
		t.Errorf("got %d lines of %d waits, want 3 of 120001", lines, counted)
	}
	if count, _ := waits.say(logged{WaitBegins, "p:other"}, time.Second, began); count != 1 {
		t.Error("the first wait of another model is not logged")
	}
	if count, _ := waits.say(logged{WaitTooLong, "p:m"}, time.Second, began); count != 1 {
		t.Error("the first wait of another kind is not logged")
	}
}
