package enqueue

import "testing"

// A submission that brings its plan is not planned again. The plan of another evaluation is not used.
func TestSubmissionBringsItsPlan(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s, other := submission("essays", 4), submission("others", 6)
	settings := s.Settings
	settings.Limit = 5 // recognises this plan
	own, ownPlans, err := Plan(s.Evaluation.ID(), s.Evaluation, settings)
	if err != nil {
		t.Fatal(err)
	}

	s.Record, s.Plans = own, ownPlans
	if got := b.submit(s).Runs; got != 5 {
		t.Errorf("with its own plan: %d runs, want its 5", got)
	}
	if r, err := b.store.Evaluation(t.Context(), own.ID); err != nil || r.Phases[0].Runs != 5 {
		t.Errorf("stored: %v with error %v, want 5 runs", r.Phases, err)
	}
	other.Record, other.Plans = own, ownPlans
	if got := b.submit(other).Runs; got != 30 {
		t.Errorf("with the plan of another: %d runs, want 30", got)
	}
}
