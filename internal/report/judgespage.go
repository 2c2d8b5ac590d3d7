package report

import (
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// judgesPage is the data of the page of judges over time.
type judgesPage struct {
	Style    template.CSS
	Title    string
	Headline string
	Warnings []string
	Series   []judgeSeries
}

// judgeSeries is what judges said about one set of anchors, as the last evaluation that asked them has it.
type judgeSeries struct {
	Name, ID, Words string
	Pictures        []*scatter
	Table           sectionView
}

// WriteServedJudges writes the page of judges over time for the dashboard: the reports of evaluations of anchors, newest
// first. Of evaluations that a later one continues, only what it does not have is shown.
func WriteServedJudges(w io.Writer, anchored []*Report) error {
	p := judgesPage{Style: template.CSS(baseStyle + pageStyle), Title: "Judges over time"}
	known := map[eval.ID]map[string]bool{} // judges of evaluations that are shown
	judges := 0
	for _, r := range anchored {
		o := r.OverTime
		if o == nil {
			continue
		}
		own := *o
		own.Judges = slices.DeleteFunc(slices.Clone(o.Judges), func(j JudgeOverTime) bool { return known[o.Evaluation][j.Model] })
		if len(own.Judges) == 0 {
			continue
		}

		for _, j := range own.Judges {
			for _, at := range j.Times {
				if known[at.Evaluation] == nil {
					known[at.Evaluation] = map[string]bool{}
				}
				known[at.Evaluation][j.Model] = true
			}
		}
		judges += len(own.Judges)
		view := own.view()
		p.Warnings = append(p.Warnings, own.Warnings()...)
		p.Series = append(p.Series, judgeSeries{
			Name: r.Evaluation.Plan.Name, ID: string(r.Evaluation.ID), Pictures: view.Pictures, Table: view.Table,
			Words: fmt.Sprintf("%s, last asked %s", wording.Counted(o.Anchors, "anchor"), dateTime(r.Evaluation.Created.In(time.UTC))),
		})
	}

	switch {
	case judges == 0:
		p.Headline = "No judge was asked about anchors yet. Add anchors to an evaluation file to see whether judges change."
	case len(p.Warnings) == 0:
		p.Headline = fmt.Sprintf("%s; none is known to have changed.", wording.Counted(judges, "judge"))
	default:
		p.Headline = fmt.Sprintf("%s; %s.", wording.Counted(judges, "judge"), wording.Counted(len(p.Warnings), "warning"))
	}
	return writePage(w, servedTemplate(), "judgespage", &p, "judges over time")
}
