package fleet

import (
	"errors"
	"fmt"
	"testing"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/internal/collect"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/results"
)

// An evaluation that was being collected is lost, whichever read of Redis notices it first.
func TestLostWhileCollecting(t *testing.T) {
	t.Parallel()
	f := &Connection{Dir: "out"}
	for _, cause := range []error{results.ErrNoEvaluation, store.ErrNoEvaluation} {
		err := f.lost(collect.Outcome{Record: record.Evaluation{ID: "ev-a"}}, fmt.Errorf("ev-a: %w", cause))
		var lost *LostError
		if kind := failure.KindOf(err); kind != failure.Unavailable || !errors.As(err, &lost) || lost.Dir != "out" {
			t.Errorf("%v: got %v of kind %d, want a LostError of out of kind %d", cause, err, kind, failure.Unavailable)
		}
	}
}
