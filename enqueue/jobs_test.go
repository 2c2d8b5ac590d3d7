package enqueue

import (
	"slices"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

// A submission gives two runs back their jobs. A worker records the outcome of the first one again before the limits
// count its job: they must not count it until its latest end, in which no run waits for it.
func TestRestoredJobThatNoRunHas(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := submission("jobs", 3)
	id := s.Evaluation.ID()
	for i, name := range []string{"recorded", "goes on"} {
		s.Jobs = append(s.Jobs, record.Job{
			ID: name, Ends: time.Now().Add(time.Hour), Call: record.Call{ID: name, Index: i, Started: time.Now()},
		})
	}
	first := eval.RunID{Evaluation: id, Index: 0}
	b.limits.asserting = func() {
		if err := b.store.Client().Del(t.Context(), b.store.Keys().Progress(first)).Err(); err != nil {
			t.Error(err)
		}
	}
	b.submit(s)
	if want := []string{"recorded"}; !slices.Equal(b.limits.ended, want) {
		t.Errorf("the limits stop counting %q, want %q", b.limits.ended, want)
	}
}
