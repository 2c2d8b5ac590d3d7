package results

import (
	"iter"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/record"
)

// withListed adds to the rows of an evaluation, which come by phase and index, the listed
// runs that have none, because they have not ended or were never begun. Their state is
// none, or cancelled with the evaluation.
func withListed(e Evaluation, rows iter.Seq2[RunRow, error]) iter.Seq2[RunRow, error] {
	phase := listedPhase(e)
	if phase < 0 {
		return rows
	}
	return func(yield func(RunRow, error) bool) {
		next := 0 // listed run
		missing := func(until int) bool {
			for ; next < until; next++ {
				if !yield(ListedRow(e, phase, next), nil) {
					return false
				}
			}
			return true
		}
		planned := min(e.Phases[phase].Runs, len(e.Plan.Runs.List))
		for row, err := range rows {
			if err == nil && row.Phase >= phase {
				until := planned
				if row.Phase == phase {
					until = min(row.Index, planned)
				}
				if !missing(until) {
					return
				}
				if row.Phase == phase {
					next = max(next, row.Index+1)
				}
			}
			if !yield(row, err) {
				return
			}
		}
		missing(planned)
	}
}

// listedPhase is the phase of the listed runs; -1: there is none.
func listedPhase(e Evaluation) int {
	if e.Plan.Runs == nil {
		return -1
	}
	for i, phase := range e.Phases {
		if phase.Kind == eval.KindRuns {
			return i
		}
	}
	return -1
}

// ListedRow returns a listed run without a result: its state is none, or cancelled if the
// evaluation was cancelled. index is its position in the list.
func ListedRow(e Evaluation, phase, index int) RunRow {
	runs := e.Plan.Runs
	run := runs.List[index]
	asked := runs.Models[run.Model]
	state := eval.StateNone
	if !e.Cancelled.IsZero() {
		state = eval.StateCancelled
	}
	return RunRow{Run: record.Run{
		Phase: phase, Index: index, Kind: eval.KindRuns, Name: run.ID, State: state.String(),
		Judge: asked.Name, Model: asked.Target(), Trial: 1,
		Documents: []string{runs.Files[run.FileA].ID, runs.Files[run.FileB].ID},
	}}
}
