package worker

import (
	"testing"

	"github.com/evalfleet/evalfleet/record"
)

// A run that the same worker has in hand twice, because Redis has forgotten that it
// was pulled, or because it went back, makes no two calls of one name: a lease's name
// is its call's, and two calls under one lease would count as one.
func TestCallsAreNamedOnce(t *testing.T) {
	t.Parallel()
	s := &session{id: "w"}
	task := record.Task{Evaluation: "ev-abcdefgh2345", Index: 17}
	first, second := &run{session: s, task: task}, &run{session: s, task: task}
	seen := map[string]bool{}
	for _, id := range []string{first.nextCallID(), second.nextCallID(), first.nextCallID(), second.nextCallID()} {
		if seen[id] {
			t.Errorf("two calls are named %s", id)
		}
		seen[id] = true
	}
}
