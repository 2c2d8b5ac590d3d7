package worker

import (
	"testing"

	"github.com/evalfleet/evalfleet/eval"
)

// What a worker has noted of evaluations goes once they have ended.
func TestEndedEvaluationsAreForgotten(t *testing.T) {
	t.Parallel()
	b := setup(t, &fakeProvider{answer: firstWins})
	var ids []eval.ID
	s := newSession(b.config(), "w", newLife(b.config()))
	for _, name := range []string{"active", "ended"} {
		b.submit(2, named(name, "m"))
		if _, err := s.worker.Evaluations.Load(t.Context(), b.id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, b.id)
		s.handler.Caller.NoteDropped(b.id, "p:m", "temperature")
	}
	s.newDiscovery().keep(ids[:1])
	if left := s.worker.Evaluations.Created(ids); len(left) != 1 || left[ids[0]].IsZero() {
		t.Errorf("remembered are %v, want the active one", left)
	}
	if s.handler.Caller.NoteDropped(ids[0], "p:m", "temperature") || !s.handler.Caller.NoteDropped(ids[1], "p:m", "temperature") {
		t.Error("warnings are remembered of others than the active evaluation")
	}
}
