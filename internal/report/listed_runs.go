package report

import (
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/lines"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// ListedRun is the outcome of one listed run.
type ListedRun struct {
	ID    string // the run's own name
	Model string // provider:model
	// State is that of record.Run. A run without a result has the state "none", or "cancelled" if the evaluation was
	// cancelled.
	State string
	Row   results.RunRow // zero without a result
}

// shownListed bounds the listed runs that are shown individually.
const shownListed = 50

// newListedRuns lists the runs that the evaluation's limit leaves, still without results.
func newListedRuns(e results.Evaluation, phases []results.PhaseCounts) []ListedRun {
	runs := e.Plan.Runs
	if runs == nil {
		return nil
	}
	var listed []ListedRun
	for _, phase := range phases {
		if phase.Kind != eval.KindRuns {
			continue
		}
		for i := range min(phase.Runs, len(runs.List)) {
			row := results.ListedRow(e, phase.Phase, i)
			listed = append(listed, ListedRun{ID: row.Name, Model: row.Model, State: row.State})
		}
	}
	return listed
}

func (r *Report) addListedRun(row results.RunRow) {
	if row.Kind == eval.KindRuns && row.Index >= 0 && row.Index < len(r.ListedRuns) {
		run := &r.ListedRuns[row.Index]
		run.State, run.Row = row.State, row
	}
}

// result returns the run's state in words, followed by the class of a failure.
func (l ListedRun) result() string {
	switch {
	case l.State == eval.StateNone.String():
		return "no result"
	case l.Row.Class != "":
		return l.State + ": " + string(l.Row.Class)
	}
	return l.State
}

// listedRunRow holds the cells of one row of the table of runs. Attempts, Time and Cost are empty without a result.
type listedRunRow struct {
	ID, Model, Result, Attempts, Time, Cost string
}

// listedRunRows returns a row for each of the first listed runs. more is how many it leaves out.
func (r *Report) listedRunRows() (rows []listedRunRow, more int) {
	shown := min(len(r.ListedRuns), shownListed)
	for _, run := range r.ListedRuns[:shown] {
		line := listedRunRow{ID: named(run.ID), Model: harmless.Line(run.Model), Result: run.result()}
		if row := run.Row; row.State != "" {
			line.Attempts, line.Time, line.Cost = wording.Count(row.Attempts), span(row.Ended.Sub(row.Started)), cost(row.Used)
		}
		rows = append(rows, line)
	}
	return rows, len(r.ListedRuns) - shown
}

func (r *Report) listedRunsSection() section {
	t := lines.Table{{Head: "run"}, {Head: "model", Flexible: true}, {Head: "result"}}
	t = append(t, lines.Heads("attempts", "time", "cost")...)
	rows, more := r.listedRunRows()
	for _, row := range rows {
		t.Add(row.ID, row.Model, row.Result, row.Attempts, row.Time, row.Cost)
	}
	s := section{title: "Each run", table: t}
	if more > 0 {
		s.lines = append(s.lines, wording.Counted(more, "more run")+" in manifest.json.")
	}
	return s
}
