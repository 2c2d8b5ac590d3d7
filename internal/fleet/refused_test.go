package fleet

import (
	"fmt"
	"testing"

	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/results"
)

// Where many evaluations are collected, one whose store may not be opened or is in another folder, or whose output folder
// another process uses, does not end the others.
func TestErrorsOfOneEvaluationAlone(t *testing.T) {
	t.Parallel()
	concernsOne := (&Connection{}).Collector().Refused
	for err, want := range map[error]bool{ErrForeignStore: true, outdir.ErrInUse: true, ErrElsewhere: true, results.ErrFull: false} {
		if got := concernsOne(fmt.Errorf("ev-1: %w", err)); got != want {
			t.Errorf("%v concerns one evaluation alone: %t, want %t", err, got, want)
		}
	}
}
