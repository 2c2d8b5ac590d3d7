package ratelimit

import (
	"testing"
	"time"
)

func TestCallsWithoutALimitShareScripts(t *testing.T) {
	t.Parallel()
	asked := time.Now()
	limited := &rule{id: "r"}
	for name, test := range map[string]struct {
		rules []*rule
		bound *rule
		calls int
		want  time.Time
	}{
		"one waits a little for others":      {calls: 1, want: asked.Add(gatherFor)},
		"too few do, too":                    {calls: gatherEnough - 1, want: asked.Add(gatherFor)},
		"enough go at once":                  {calls: gatherEnough},
		"a slot is never left idle for it":   {rules: []*rule{limited}, calls: 1},
		"what a cooldown holds back is left": {bound: &rule{id: "c", way: byCooldown}, calls: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newQueue(test.rules)
			g.asked, g.bound = asked, test.bound
			for range test.calls {
				g.add(&call{})
				g.gather()
			}
			if !g.due.Equal(test.want) {
				t.Errorf("due %v after the last script, want %v", g.due.Sub(asked), test.want.Sub(asked))
			}
		})
	}
}

// TestGatheringCallsRide has a call that waits for others go with a script that is
// sent anyway.
func TestGatheringCallsRide(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p := newPump(&Limiter{})
	p.registry = &registry{}
	gathering, due := newQueue(nil), newQueue([]*rule{{id: "r"}})
	p.queues["gathering"], p.queues["due"] = gathering, due
	gathering.asked = now
	gathering.add(&call{})
	gathering.gather()
	if b, next := p.plan(now); b != nil || !next.Equal(now.Add(gatherFor)) {
		t.Fatalf("alone: got batch %v, the next in %v, want none yet and %v", b, next.Sub(now), gatherFor)
	}
	due.add(&call{})
	b, _ := p.plan(now)
	if b == nil || !b.asksFor(gathering) || !b.asksFor(due) {
		t.Errorf("with another: got %+v, want both asked for", b)
	}
}
