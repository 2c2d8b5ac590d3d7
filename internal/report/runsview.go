package report

import (
	"fmt"
	"time"

	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// runsView shows the planned and the recorded runs, by phase and judge.
type runsView struct {
	Missing string // describes the runs without a result
	When    string // explains the times
	Phases  []phaseView
	Total   *progressRow // nil: there is only one phase
	// Cancelled says whether the table has a column of cancelled runs.
	Cancelled bool
}

type phaseView struct {
	Title string
	Rows  []progressRow
}

type progressRow struct {
	Name, Planned, Succeeded, Failed, Cancelled, Missing, Rows string
	First, Last, Took, Calls, Input, Output, Cost              string
	Sum, Lacks                                                 bool // the row is a sum; runs are missing
}

// progressOfPage is a row with its table, from which the template learns which columns to show.
type progressOfPage struct {
	progressRow
	OfAll *runsView
}

func (r *Report) runsView() *runsView {
	if len(r.Progress) == 0 {
		return nil
	}
	total := r.progress()
	clock := "01-02 15:04:05"
	v := &runsView{Missing: missing(total, r.cancelled()), When: "Times are UTC."}
	if day := total.First.UTC().Format(time.DateOnly); !total.First.IsZero() && day == total.Last.UTC().Format(time.DateOnly) {
		clock, v.When = time.TimeOnly, "Times are UTC, on "+day+"."
	}
	v.Cancelled = total.Cancelled > 0
	for _, phase := range r.Progress {
		view := phaseView{Title: fmt.Sprintf("Phase %d: %s", phase.Phase, phase.Kind)}
		for _, judge := range phase.Judges {
			view.Rows = append(view.Rows, progressRowOf(judge.name(), judge, clock))
		}
		if len(phase.Judges) > 1 {
			view.Rows = append(view.Rows, sumRow("together", phase.Sum(), clock))
		}
		v.Phases = append(v.Phases, view)
	}

	if len(r.Progress) > 1 {
		row := sumRow("all phases", total, clock)
		v.Total = &row
	}

	return v
}

func sumRow(name string, p JudgeProgress, clock string) progressRow {
	row := progressRowOf(name, p, clock)
	row.Sum = true
	return row
}

func progressRowOf(name string, p JudgeProgress, clock string) progressRow {
	at := func(t time.Time) string {
		if t.IsZero() {
			return "–"
		}
		return t.UTC().Format(clock)
	}
	row := progressRow{
		Name: name, Planned: wording.Count(p.Planned), Succeeded: wording.Count(p.Succeeded),
		Failed: wording.Count(p.Failed), Cancelled: wording.Count(p.Cancelled),
		Missing: wording.Count(p.Missing), Lacks: p.Missing > 0, Rows: wording.Count(p.Rows), First: at(p.First), Last: at(p.Last), Took: "–",
		Calls: wording.Count(p.Used.Calls), Input: tokens(p.Used.Input, p.Used), Output: tokens(p.Used.Output, p.Used), Cost: cost(p.Used),
	}
	if took := p.took(); took > 0 {
		row.Took = span(took)
	}
	return row
}

// missing says how many runs have no result. It does not advise to submit a cancelled evaluation again, because a
// fleet refuses that.
func missing(p JudgeProgress, cancelled bool) string {
	switch lacking := p.Missing; {
	case p.Planned == 0:
		return "No runs are planned."
	case lacking+p.Failed+p.Cancelled == 0:
		return fmt.Sprintf("All of %s succeeded.", wording.Counted(p.Planned, "planned run"))
	case lacking+p.Cancelled == 0:
		return fmt.Sprintf(
			"Nothing is missing: of %s, %s succeeded and %s failed.", wording.Counted(p.Planned, "planned run"),
			wording.Count(p.Succeeded), wording.Count(p.Failed),
		)
	case cancelled:
		return fmt.Sprintf("The evaluation was cancelled: of %s, %s succeeded, %s failed and %s cancelled.",
			wording.Counted(p.Planned, "planned run"), wording.Count(p.Succeeded), wording.Count(p.Failed), wording.Count(p.Cancelled+lacking))
	default:
		return fmt.Sprintf("Of %s, %s succeeded, %s failed, %s cancelled and %s still missing. Submit the evaluation again "+
			"to run only what is missing.",
			wording.Counted(p.Planned, "planned run"), wording.Count(p.Succeeded), wording.Count(p.Failed), are(p.Cancelled), are(lacking))
	}
}

// are formats a number with its verb: "1 is", "2 are".
func are(n int) string {
	if n == 1 {
		return "1 is"
	}
	return wording.Count(n) + " are"
}

// span formats a duration to two or three digits: "50 ms", "1.5 s", "40 min".
func span(d time.Duration) string {
	unit, name := unitOf(d)
	value := float64(d) / float64(unit)
	digits := 0
	if value < 10 && value != float64(int(value)) {
		digits = 1
	}
	return fmt.Sprintf("%.*f %s", digits, value, name)
}

// units are the units of time, longest first.
var units = []struct {
	length time.Duration
	name   string
}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}, {time.Millisecond, "ms"}}

// unitOf returns the longest unit that is not longer than d, at least 1 ms.
func unitOf(d time.Duration) (length time.Duration, name string) {
	for _, unit := range units {
		if d >= unit.length {
			return unit.length, unit.name
		}
	}
	return time.Millisecond, "ms"
}
