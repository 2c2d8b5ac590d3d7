package view

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
)

// madeCalls is a results store that knows of calls.
type madeCalls struct{ results.Reader }

func (madeCalls) Close() error { return nil }

func (madeCalls) Counts(context.Context, eval.ID) ([]results.PhaseCounts, error) { return nil, nil }

func (madeCalls) Evaluation(context.Context, eval.ID) (results.Evaluation, error) {
	return results.Evaluation{}, nil
}

func (madeCalls) CallTotals(context.Context, eval.ID) ([]results.CallTotal, error) {
	return []results.CallTotal{{Usage: results.Usage{Calls: 7}}}, nil
}

// What a results store knows is shown although it cannot be ranked.
func TestNumbersWithoutARanking(t *testing.T) {
	t.Parallel()
	looks := NewLooks(zerolog.Nop())
	looks.Brief = true
	looks.Open = func(context.Context, record.Evaluation) results.Reader { return madeCalls{} }
	asked := false
	looks.Rank = func(context.Context, results.Reader, eval.ID) (record.Result, error) {
		asked = true
		return record.Result{}, errors.New("no ranking")
	}
	e := Evaluation{ID: "ev-1", Phases: []Phase{{Runs: 9, Succeeded: 7}}}
	looks.addStored(t.Context(), &e, record.Evaluation{ID: "ev-1"}, time.Now())
	if !asked || e.Used == nil || e.Used.Calls != 7 || e.Result != nil {
		t.Errorf("ranked: %t, usage %+v, result %+v; want 7 calls without a result", asked, e.Used, e.Result)
	}
}
