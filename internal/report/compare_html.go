package report

import (
	"fmt"
	"html/template"
	"io"
	"strconv"

	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// comparedMarks is how many evaluations the plot draws.
const comparedMarks = 4

// comparePage is the data of the comparison template.
type comparePage struct {
	Style        template.CSS
	Title        string
	Headline     []string
	Reliances    []comparedReliance
	Evaluations  []comparedView
	Plot         *comparePlot // nil: no abilities to draw
	Open, Folded []compareRow
	Hidden       int // candidates beyond pageRows
	Settings     []Difference
	Method       []string
}

type comparedView struct {
	Number, Name, ID, Headline                                                string
	Candidates, Judges, Verdicts, Scores, Runs, Failed, Missing, Tokens, Cost string
	Submitted                                                                 string
	Value                                                                     string // the measure that ranks candidates
	Later                                                                     bool   // it is not the first
	Notes                                                                     []string
}

type compareRow struct {
	Name   string
	Places []placeView
}

type placeView struct {
	Rank, Value, Move string
	Later, Beyond     bool
}

// WriteHTML writes the comparison as one self-contained page, as Report.WriteHTML does.
func (c *Comparison) WriteHTML(w io.Writer) error {
	return writePage(w, fileTemplate(), "compare", c.page(), "a comparison")
}

// WriteServedHTML writes the page for the address /compare of the dashboard, with links to the evaluations' reports.
func (c *Comparison) WriteServedHTML(w io.Writer) error {
	return writePage(w, servedTemplate(), "compare", c.page(), "a comparison")
}

func (c *Comparison) page() *comparePage {
	p := &comparePage{
		Style: template.CSS(baseStyle + pageStyle), Title: wording.Counted(len(c.Reports), "evaluation") + " side by side",
		Headline: c.Headline(), Reliances: c.reliances(), Settings: c.Settings, Method: c.Method(), Plot: c.plot(),
	}
	for k, r := range c.Reports {
		p.Evaluations = append(p.Evaluations, r.comparedView(k))
	}
	shown := c.Candidates[:min(pageRows, len(c.Candidates))]
	p.Hidden = len(c.Candidates) - len(shown)
	for i, one := range shown {
		if i < openRows {
			p.Open = append(p.Open, c.row(one))
		} else {
			p.Folded = append(p.Folded, c.row(one))
		}
	}
	return p
}

func (r *Report) comparedView(k int) comparedView {
	runs, u := r.progress(), r.total()
	head, _ := r.scoreWords()
	return comparedView{
		Number: strconv.Itoa(k + 1), Name: r.Evaluation.Plan.Name, ID: string(r.Evaluation.ID), Headline: r.Headline(),
		Candidates: wording.Count(len(r.candidates)), Judges: wording.Count(len(r.Judges)),
		Verdicts: wording.Count(r.Verdicts), Scores: wording.Count(r.Scored),
		Runs: wording.Count(runs.Planned), Failed: wording.Count(runs.Failed), Missing: wording.Count(runs.Missing),
		Tokens: tokens(u.Input+u.Output, u), Cost: cost(u), Submitted: dateTime(r.Evaluation.Created),
		Value: head, Later: k > 0, Notes: r.Notes(),
	}
}

func (c *Comparison) row(one Compared) compareRow {
	row := compareRow{Name: one.Name}
	for k := range one.Places {
		row.Places = append(row.Places, c.place(one, k))
	}
	return row
}

// place returns the cells of a candidate in evaluation k: rank, value with its interval, and move.
func (c *Comparison) place(one Compared, k int) placeView {
	view := placeView{Rank: "–", Value: "–", Later: k > 0}
	if place := one.Places[k]; place != nil {
		view.Rank, view.Value = c.Reports[k].ranks(place.Ranked), c.Reports[k].score(place.Ranked)
		if interval := c.Reports[k].scoreInterval(place.Ranked); interval != "–" {
			view.Value += " (" + interval + ")"
		}
	}
	if k > 0 {
		view.Move, view.Beyond = one.Moves[k].meaning(one.steps[k]), one.Moves[k] == MoveBeyond
	}
	return view
}

// comparePlot is an interval plot with one mark for each evaluation in every candidate's row.
type comparePlot struct {
	plot
	Rows []compareMarks
}

type compareMarks struct {
	Name  string
	Top   float64 // of the name
	Marks []compareMark
}

type compareMark struct {
	Class, Number, Numbers string
	Low, X, High, Y, TextY float64
}

// measured returns the place's wins against the average, with their interval if it is known.
func (p *Place) measured() (one measured) {
	one.Low, one.Value, one.High = around(winPercent(p.Ability), winPercent(p.Low), winPercent(p.High))
	return one
}

// plot returns nil unless all drawn evaluations have abilities: win rates and means have no common scale. Without
// candidates that all evaluations rank, abilities have none either.
func (c *Comparison) plot() *comparePlot {
	if c.Shared == 0 {
		return nil
	}
	drawn := c.Reports[:min(comparedMarks, len(c.Reports))]
	for _, r := range drawn {
		if !r.abilities() {
			return nil
		}
	}

	shown := c.Candidates[:min(plotCandidates, len(c.Candidates))]
	var all []measured
	for _, one := range shown {
		for k := range drawn {
			if place := one.Places[k]; place != nil {
				all = append(all, place.measured())
			}
		}
	}

	if len(all) == 0 {
		return nil
	}
	m := axis{Title: "Wins against the average of the candidates that all evaluations rank, with 95 % intervals", Even: 50, Unit: " %"}
	p := &comparePlot{plot: plot{Axis: m.Title, Omitted: len(c.Candidates) - len(shown)}}
	at := p.scale(m, all)
	gap := plotRowGap * float64(1+len(drawn)) / 2
	names := namedApart(shown, func(c Compared) string { return c.Name }, plotName)
	for i, one := range shown {
		y := plotTop + gap*(float64(i)+0.5)
		row := compareMarks{Name: names[i], Top: y - plotRowGap/2}
		for k := range drawn {
			place := one.Places[k]
			if place == nil {
				continue
			}
			mark := place.measured()
			line := tenth(y + plotRowGap/2*(float64(k)-float64(len(drawn)-1)/2))
			row.Marks = append(row.Marks, compareMark{
				Class: "mark" + strconv.Itoa(k+1), Number: strconv.Itoa(k + 1), Y: line, TextY: line + 4,
				Low: at(mark.Low), X: at(mark.Value), High: at(mark.High),
				Numbers: c.label(k) + ", " + c.Reports[k].numbers(place.Ranked),
			})
		}
		p.Rows = append(p.Rows, row)
	}

	p.finish(gap * float64(len(shown)))
	p.Alternative = fmt.Sprintf("Wins of %s in %s against the average, side by side, with intervals. The table below has every number.",
		wording.Counted(len(shown), "candidate"), wording.Counted(len(drawn), "evaluation"))
	return p
}
