package pulse

import (
	"strings"
	"testing"
	"time"
)

func TestLateHandler(t *testing.T) {
	t.Parallel()
	p := New()
	for range int(Step / time.Second) {
		if p.Beat(time.Second) {
			t.Fatal("a handler is late within its step")
		}
	}
	if !p.Beat(time.Second) {
		t.Error("a handler is not late after its step")
	}
	p.Waits()
	if p.Beat(1000 * time.Hour) {
		t.Error("a handler that waits for others is late")
	}
	p.Expect(time.Minute)
	if p.Beat(time.Minute) || !p.Beat(time.Nanosecond) {
		t.Error("a handler is not late exactly after what it expects")
	}
	var none *Pulse
	none.Expect(time.Second)
	none.Waits()
}

func TestStacksShowWhereHandlersAre(t *testing.T) {
	t.Parallel()
	made, leave := make(chan *Pulse), make(chan struct{})
	defer close(leave)
	go stuckHere(made, leave)
	p := <-made
	got := Stacks([]*Pulse{p, p, p, p, p})
	if n := strings.Count(got, "pulse.stuckHere("); n != mostTold || !strings.Contains(got, "and 2 more") || len(got) > mostTold*(mostStack+100) {
		t.Errorf("got %d times the function in which the handler is, in %d bytes:\n%s", n, len(got), got)
	}
}

func stuckHere(made chan<- *Pulse, leave <-chan struct{}) {
	made <- New()
	<-leave
}
