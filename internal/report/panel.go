package report

import (
	"fmt"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/lines"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Panel holds the scores that agents gave on each dimension, over all documents.
type Panel struct {
	Agents     []string
	Dimensions []PanelDimension // in the order of the plan
	All        []Score          // by agent; the last one is over all agents
	Scored     int
	candidates [][]Score   // by candidate and dimension; the last one is over all dimensions
	opinions   [][]opinion // by candidate; a random sample
	agent      map[string]int
	dimension  map[string]int
}

// PanelDimension holds the scores on one dimension by agent; the last one is over all agents.
type PanelDimension struct {
	ID     string
	Scores []Score
}

func newPanel(plan *eval.Panel, candidates int) *Panel {
	p := &Panel{
		agent: map[string]int{}, dimension: map[string]int{}, All: make([]Score, len(plan.Agents)+1),
		candidates: make([][]Score, candidates), opinions: make([][]opinion, candidates),
	}
	for i := range p.candidates {
		p.candidates[i] = make([]Score, len(plan.Dimensions)+1)
	}
	for i, agent := range plan.Agents {
		p.Agents = append(p.Agents, agent.Name)
		p.agent[agent.Name] = i
	}
	for i, d := range plan.Dimensions {
		p.Dimensions = append(p.Dimensions, PanelDimension{ID: d.ID, Scores: make([]Score, len(plan.Agents)+1)})
		p.dimension[d.ID] = i
	}
	return p
}

// addPanel counts a result row; one without a score counts in no mean.
func (b *builder) addPanel(row results.PanelRow) error {
	p := b.report.Panel
	agent, err := lookUp(p.agent, "agent", row.Agent, row.Phase, row.Index)
	if err != nil {
		return err
	}

	dimension, err := lookUp(p.dimension, "dimension", row.Dimension, row.Phase, row.Index)
	if err != nil {
		return err
	}
	candidate, err := lookUp(b.candidate, "candidate", row.Candidate, row.Phase, row.Index)
	if err != nil {
		return err
	}

	document, err := lookUp(b.document, "document", row.Document, row.Phase, row.Index)
	if err != nil {
		return err
	}
	b.recorded(row.Phase, row.Agent, row.Timestamp)
	if row.Score == nil {
		return nil
	}
	p.Scored++
	p.sample(candidate, row)
	b.opinions.add(document, agent, dimension, *row.Score)
	b.panelScores[document].add(*row.Score)
	for _, k := range []int{agent, len(p.Agents)} {
		p.Dimensions[dimension].Scores[k].add(*row.Score)
		p.All[k].add(*row.Score)
	}

	for _, k := range []int{dimension, len(p.Dimensions)} {
		p.candidates[candidate][k].add(*row.Score)
	}
	return nil
}

// PanelOnly reports whether the evaluation asks nothing but a panel.
func (r *Report) PanelOnly() bool {
	plan := r.Evaluation.Plan
	return plan.Panel != nil && plan.Single == nil && plan.Pairwise == nil && plan.Runs == nil && plan.Prompts == nil
}

// meanOf formats a mean and the number of scores, such as "3.50 (12)".
func meanOf(s Score) string {
	if s.N == 0 {
		return "–"
	}
	return fmt.Sprintf("%s (%s)", mean(s), wording.Count(s.N))
}

func (r *Report) panelSection() section {
	p := r.Panel
	t := lines.Table{{Head: "dimension", Flexible: true}}
	t = append(append(t, lines.Heads(namedApart(p.Agents, itself, 16)...)...), lines.Heads("all")...)
	row := func(name string, scores []Score) { t.Add(append([]string{name}, meansOf(scores)...)...) }
	for _, d := range p.Dimensions {
		row(harmless.Line(d.ID), d.Scores)
	}
	row("all", p.All)
	return section{title: "Panel: mean score by agent (number of scores)", table: t}
}
