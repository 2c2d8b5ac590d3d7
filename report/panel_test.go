package report

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/results"
)

func TestPanelIsToldByDimensionAgentAndCandidate(t *testing.T) {
	t.Parallel()
	candidates := []string{"a", "b"}
	asked := plan(candidates, []string{"q"})
	asked.Judges, asked.Single, asked.Pairwise = nil, nil, nil
	asked.Panel = &eval.Panel{
		Agents:     []eval.Judge{{Name: "prosecutor"}, {Name: "<defender>\x1b"}},
		Dimensions: []eval.Dimension{{ID: "clarity"}, {ID: "depth"}},
	}
	m := sourceOf(asked)
	add := func(agent, dimension string, scores ...float64) {
		for _, score := range scores {
			m.panel = append(m.panel, results.PanelRow{Document: "q/" + candidates[len(m.panel)%2], Candidate: candidates[len(m.panel)%2], Agent: agent, Dimension: dimension, Score: &score, Argument: "r"})
		}
	}
	add("prosecutor", "clarity", 1, 2)
	add("<defender>\x1b", "clarity", 5, 4)
	add("prosecutor", "depth", 0) // a score like any
	m.panel = append(m.panel, results.PanelRow{Document: "q/b", Candidate: "b", Agent: "<defender>\x1b", Dimension: "depth", Argument: "Evaluation failed after 3 retries"})
	r, err := Build(context.Background(), m, m.evaluation.ID, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var text, page bytes.Buffer
	if err := r.WriteText(&text, TextOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := r.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"clarity 1.50 (2) 4.50 (2) 3.00 (4)", "depth 0.00 (1) – 0.00 (1)", "all 1.00 (3) 4.50 (2) 2.40 (5)",
	} {
		if !strings.Contains(strings.Join(strings.Fields(text.String()), " "), line) {
			t.Errorf("the text lacks %q:\n%s", line, text.String())
		}
	}
	if !strings.Contains(page.String(), "<td>1.50 (2)</td><td>4.50 (2)</td><td>3.00 (4)</td>") || strings.Contains(page.String(), "<defender>") {
		t.Errorf("the page lacks a row, or shows an agent's name as it is")
	}
	if strings.Contains(text.String(), "\x1b") || strings.Contains(text.String(), "no ranking") {
		t.Errorf("the text is not harmless, or tells of a ranking that was not asked:\n%s", text.String())
	}
	m.panel[0].Dimension = "unknown"
	if _, err := Build(context.Background(), m, m.evaluation.ID, Options{}); err == nil || !strings.Contains(err.Error(), `dimension "unknown"`) {
		t.Errorf("a row of another plan: %v", err)
	}
}
