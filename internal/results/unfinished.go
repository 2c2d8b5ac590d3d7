package results

import (
	"iter"
	"slices"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
)

// mostUnfinished bounds how many runs of a phase without a result the manifest lists. An evaluation
// of millions that has just begun would have a manifest of a gigabyte. It does not bound listed
// runs, which people have named one by one.
const mostUnfinished = 10_000

// unfinished describes the runs of a phase that have no result.
type unfinished struct {
	runs     int // how many runs row can describe; 0: none are listed
	row      func(index int) RunRow
	unlisted int // how many there are if none are listed
}

// unfinishedOf returns the runs without a result of each phase of an evaluation.
func unfinishedOf(e Evaluation, counts []PhaseCounts) []unfinished {
	phases := make([]unfinished, len(e.Phases))
	for _, c := range counts {
		if c.Phase >= len(e.Phases) {
			continue
		}
		c.Runs = e.Phases[c.Phase].Runs
		if c.Kind == eval.KindRuns {
			phases[c.Phase] = unfinished{
				runs: min(c.Runs, len(e.Plan.Runs.List)),
				row:  func(index int) RunRow { return ListedRow(e, c.Phase, index) },
			}
			continue
		}

		missing := c.Runs - c.Succeeded - c.Failed
		if missing <= 0 {
			continue
		}
		phases[c.Phase].unlisted = missing
		if missing > mostUnfinished || e.Phases[c.Phase].Open {
			continue
		}
		if of, ok := plannedRuns(e, c); ok {
			phases[c.Phase] = of
		}
	}
	return phases
}

// plannedRuns describes the planned runs of a phase. It returns false if another version of the program
// numbered them differently.
func plannedRuns(e Evaluation, c PhaseCounts) (unfinished, bool) {
	asked := e.Plan.JudgesOf(c.Kind)
	whole, err := plan.New(e.Plan, c.Phase, plan.Options{
		JudgeQueues: slices.Repeat([]string{"-"}, len(asked)), // nothing goes through these queues
		Choice:      e.Phases[c.Phase].Choice,
	})
	if err != nil || whole.Open() {
		return unfinished{}, false
	}

	shown, state := e.Plan.Shown(c.Kind), stateWithoutResult(e)
	return unfinished{
		runs: min(c.Runs, whole.Runs()),
		row: func(index int) RunRow {
			place := whole.Run(index)
			judge := asked[place.Judge]
			run := record.Run{
				Phase: c.Phase, Index: index, Kind: c.Kind, State: state,
				Judge: judge.Name, Model: judge.Target(), Trial: place.Trial,
			}
			for _, document := range []int{place.First, place.Second} {
				if document >= 0 {
					d := shown[document]
					run.Item = e.Plan.Items[d.Item].ID
					run.Documents, run.Candidates = append(run.Documents, d.ID), append(run.Candidates, d.Candidate)
				}
			}
			switch c.Kind {
			case eval.KindPrompts:
				run.Name = e.Plan.Prompts.List[index].ID
			case eval.KindPanel:
				run.Dimension = e.Plan.Panel.Dimensions[place.Dimension].ID
			}
			return RunRow{Run: run}
		},
	}, true
}

// withUnfinished adds, to the rows of an evaluation, the runs of its phases without a row, because
// they have not ended or were never begun. rows must be sorted by phase and index.
func withUnfinished(phases []unfinished, rows iter.Seq2[RunRow, error]) iter.Seq2[RunRow, error] {
	return func(yield func(RunRow, error) bool) {
		phase, next := 0, 0 // the next run expected
		before := func(of, index int) bool {
			for ; phase < min(of+1, len(phases)); phase, next = phase+1, 0 {
				runs := phases[phase].runs
				if phase == of {
					runs = min(runs, index)
				}
				for ; next < runs; next++ {
					if !yield(phases[phase].row(next), nil) {
						return false
					}
				}
				if phase == of {
					break
				}
			}
			return true
		}

		for row, err := range rows {
			if err == nil {
				if !before(row.Phase, row.Index) {
					return
				}
				if phase == row.Phase {
					next = max(next, row.Index+1)
				}
			}
			if !yield(row, err) {
				return
			}
		}
		before(len(phases), 0)
	}
}

// ListedRow returns the row of a listed run without a result. index is its position in the list.
func ListedRow(e Evaluation, phase, index int) RunRow {
	runs := e.Plan.Runs
	run := runs.List[index]
	asked := runs.Models[run.Model]
	return RunRow{Run: record.Run{
		Phase: phase, Index: index, Kind: eval.KindRuns, Name: run.ID, State: stateWithoutResult(e),
		Judge: asked.Name, Model: asked.Target(), Trial: 1,
		Documents: []string{runs.Files[run.FileA].ID, runs.Files[run.FileB].ID},
	}}
}

// stateWithoutResult returns the state of a run without a result: none, or cancelled if the
// evaluation was cancelled.
func stateWithoutResult(e Evaluation) string {
	if !e.Cancelled.IsZero() {
		return eval.StateCancelled.String()
	}
	return eval.StateNone.String()
}
