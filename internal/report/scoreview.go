package report

import (
	"fmt"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// scoreView shows the mean scores of candidates, and those that each judge gave.
type scoreView struct {
	Criteria   []string
	Scale      string
	Candidates []scoreRow
	Left       int // candidates beyond openRows
	Judges     []scoreRow
	Spread     *histogram
}

type scoreRow struct {
	Name  string
	Cells []heatCell
}

// scoreTable is the data of a table of mean scores: one row for each name, with the mean of the row in the last cell.
type scoreTable struct {
	Rows        []scoreRow
	Columns     []string
	Of, Caption string
}

// scoreCells formats mean scores, shaded by their position on the scale.
func scoreCells(scale eval.Scale, scores ...Score) []heatCell {
	var row []heatCell
	for _, s := range scores {
		if s.N == 0 {
			row = append(row, heatCell{Text: "–", Shade: -1})
			continue
		}
		above := (s.Mean() - float64(scale.Min)) / max(float64(scale.Max-scale.Min), 1)
		row = append(row, heatCell{Text: mean(s), Title: "mean of " + wording.Counted(s.N, "score"), Shade: shade(above)})
	}
	return row
}

func scaleWords(s eval.Scale) string { return fmt.Sprintf("%d to %d", s.Min, s.Max) }

func (r *Report) scoreView() *scoreView {
	if r.Scored == 0 {
		return nil
	}
	scale := r.Evaluation.Plan.Single.Scale
	v := &scoreView{Criteria: r.Criteria, Scale: scaleWords(scale), Spread: r.spread.histogram()}
	for _, c := range r.inOrder() {
		if c.Overall.N == 0 {
			continue
		}
		if len(v.Candidates) == openRows {
			v.Left++
			continue
		}
		v.Candidates = append(v.Candidates, scoreRow{c.Name, append(scoreCells(scale, c.Scores...), scoreCells(scale, c.Overall)...)})
	}

	for _, j := range r.Judges {
		var all Score
		for _, s := range j.Scores {
			all.N += s.N
			all.sum += s.sum
		}
		v.Judges = append(v.Judges, scoreRow{j.Name, append(scoreCells(scale, j.Scores...), scoreCells(scale, all)...)})
	}

	return v
}

// inOrder returns all candidates: first the ranked ones, best first, then the others.
func (r *Report) inOrder() []Ranked {
	all := make([]Ranked, 0, r.ranked()+len(r.Unranked))
	for _, g := range r.Groups {
		all = append(all, g.Ranked...)
	}
	return append(all, r.Unranked...)
}

// panelView shows the mean scores of a panel, by candidate and by agent.
type panelView struct {
	Scale, Order string
	Dimensions   []string
	Candidates   []scoreRow
	Left         int // candidates beyond openRows
	Said         []panelSaid
	Agents       []string
	ByAgent      []agentRow // by dimension; the last row is over all
}

type agentRow struct {
	Name  string
	Cells []string
}

func (r *Report) panelView() *panelView {
	p := r.Panel
	if p == nil {
		return nil
	}
	scale := r.Evaluation.Plan.Panel.Scale
	v := &panelView{Scale: scaleWords(scale), Agents: p.Agents, Order: "Candidates, in the order of the ranking"}
	for _, d := range p.Dimensions {
		v.Dimensions = append(v.Dimensions, d.ID)
		v.ByAgent = append(v.ByAgent, agentRow{d.ID, meansOf(d.Scores)})
	}

	v.ByAgent = append(v.ByAgent, agentRow{"all", meansOf(p.All)})
	if len(r.Groups) == 0 {
		v.Order = "Candidates, the highest mean first"
	}
	for _, c := range r.byPanel() {
		scores := p.candidates[c.Candidate]
		if len(v.Candidates) == openRows {
			v.Left++
			continue
		}
		v.Candidates = append(v.Candidates, scoreRow{c.Name, scoreCells(scale, scores...)})
		v.Said = append(v.Said, panelSaid{c.Name, mean(scores[len(p.Dimensions)]), p.opinionsOf(c.Candidate)})
	}

	return v
}

func meansOf(scores []Score) []string {
	var cells []string
	for _, s := range scores {
		cells = append(cells, meanOf(s))
	}
	return cells
}
