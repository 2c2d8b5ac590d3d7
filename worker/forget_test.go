package worker

import (
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/eval"
)

// What a worker has noted of evaluations goes once they have ended.
func TestEndedEvaluationsAreForgotten(t *testing.T) {
	t.Parallel()
	b := setup(t, &fakeProvider{answer: firstWins})
	s := newSession(b.config(), "w", newLife(b.config()))
	for _, id := range []eval.ID{"ev-active", "ev-ended"} {
		s.evaluations.known[id] = &evaluation{}
		s.refusals.Store(haltKey{id, "p"}, refusedProvider{until: time.Now().Add(refusedTime)})
		s.dropped.Store(notSent{id, "p:m", "temperature"}, true)
	}
	s.keep([]eval.ID{"ev-active"})
	left := map[eval.ID]int{}
	for id := range s.evaluations.known {
		left[id]++
	}
	s.refusals.Range(func(key, _ any) bool { left[key.(haltKey).evaluation]++; return true })
	s.dropped.Range(func(key, _ any) bool { left[key.(notSent).evaluation]++; return true })
	if left["ev-active"] != 3 || left["ev-ended"] != 0 {
		t.Errorf("noted are %v, want 3 of ev-active", left)
	}
}
