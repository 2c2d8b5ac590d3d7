package call

import (
	"testing"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/worker/internal/run"
)

// The same worker may have a run twice, because Redis has forgotten that it was pulled, or because it returned to its
// queue. It makes no two calls of one name: a lease's name is its call's, and two calls under one lease would count as
// one.
func TestCallsAreNamedOnce(t *testing.T) {
	t.Parallel()
	worker := &run.Session{ID: "w"}
	caller := NewCaller(Config{Worker: worker})
	callsOf := func() *Calls {
		r := run.New(t.Context(), worker, "q")
		r.Task = record.Task{Evaluation: "ev-abcdefgh2345", Index: 17}
		return caller.Of(r, nil)
	}
	first, second := callsOf(), callsOf()
	seen := map[string]bool{}
	for _, id := range []string{first.nextCallID(), second.nextCallID(), first.nextCallID(), second.nextCallID()} {
		if seen[id] {
			t.Errorf("two calls are named %s", id)
		}
		seen[id] = true
	}
}
