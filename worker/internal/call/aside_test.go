package call

import (
	"testing"
	"time"
)

func TestWhoWasRefusedYields(t *testing.T) {
	t.Parallel()
	a := NewAsides(16)
	hot, cold := Asker{"ev-a", "p:hot"}, Asker{"ev-b", "p:cold"}
	a.Share(map[string]map[Asker]bool{"q": {hot: true, cold: true}, "own": {hot: true}})
	if !a.stepsAside("q") || a.stepsAside("own") {
		t.Errorf("steps aside: %t and %t, want it in the queue of two alone", a.stepsAside("q"), a.stepsAside("own"))
	}
	a.told(hot, true)
	for _, tt := range []struct {
		queue string
		who   Asker
		want  time.Duration
	}{{"q", hot, yieldTime}, {"q", cold, 0}, {"own", hot, 0}} {
		if got := a.yields(tt.queue, tt.who); got != tt.want {
			t.Errorf("%v in %s yields for %s, want %s", tt.who, tt.queue, got, tt.want)
		}
	}
	a.told(hot, false)
	if got := a.yields("q", hot); got != 0 {
		t.Errorf("it yields for %s after an answer, want 0", got)
	}
	var leave []func()
	for range 2 {
		l, ok := a.rest("q", hot)
		if !ok {
			t.Fatal("an eighth of the slots may not wait")
		}
		leave = append(leave, l)
	}
	if _, ok := a.rest("q", hot); ok {
		t.Error("more than an eighth of the slots waits")
	}
	if _, ok := a.rest("q", cold); !ok {
		t.Error("others may not wait")
	}
	leave[0]()
	if _, ok := a.rest("q", hot); !ok {
		t.Error("after one has left, none may wait")
	}
}
