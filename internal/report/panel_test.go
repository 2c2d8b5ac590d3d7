package report

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
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
	for form, said := range map[string]string{"text": strings.Join(strings.Fields(text.String()), " "), "page": page.String()} {
		if !strings.Contains(said, "Nothing is ranked, so there is no line of trust") {
			t.Errorf("the %s does not say why there is no line of trust", form)
		}
	}
	if strings.Contains(text.String(), "\x1b") || strings.Contains(text.String(), "no ranking") {
		t.Errorf("the text is not harmless, or tells of a ranking that was not asked:\n%s", text.String())
	}
	m.panel[0].Dimension = "unknown"
	if _, err := Build(context.Background(), m, m.evaluation.ID, Options{}); err == nil || !strings.Contains(err.Error(), `dimension "unknown"`) {
		t.Errorf("a row of another plan: %v", err)
	}
}

func TestPanelHeadlineSaysWhoScoredWhat(t *testing.T) {
	t.Parallel()
	asked := plan([]string{"plain.md", "muddled.md"}, []string{""})
	asked.Judges, asked.Single, asked.Pairwise = nil, nil, nil
	asked.Panel = &eval.Panel{Scale: eval.Scale{Min: 1, Max: 5}, Agents: []eval.Judge{{Name: "editor"}, {Name: "reader"}}, Dimensions: []eval.Dimension{{ID: "clarity"}}}
	m := sourceOf(asked)
	m.counts = []results.PhaseCounts{{Kind: eval.KindPanel, Runs: 4, Succeeded: 4}}
	for k, score := range []float64{2, 3.6, 1.5, 2.1} {
		document := []string{"plain.md", "plain.md", "muddled.md", "muddled.md"}[k]
		m.panel = append(m.panel, results.PanelRow{Index: k, Document: document, Candidate: document, Agent: []string{"editor", "reader"}[k%2], Dimension: "clarity", Score: &score, Argument: "Because <i> of " + document + "\x1b[2J"})
	}
	r := built(t, m, Options{})
	if got, want := r.Headline(), "“plain.md” 2.8, “muddled.md” 1.8, on a scale of 1 to 5."; got != want {
		t.Errorf("headline %q, want %q", got, want)
	}
	var text bytes.Buffer
	if err := r.WriteText(&text, TextOptions{Width: 80}); err != nil {
		t.Fatal(err)
	}
	if lines := text.String(); !strings.Contains(lines, "plain.md, clarity, editor: 2. Because <i> of plain.md") || strings.Contains(lines, "\x1b") {
		t.Errorf("the text lacks an argument, or is not harmless:\n%s", lines)
	}
	if page := pageOf(t, r); !strings.Contains(page, "Because &lt;i&gt; of muddled.md") || !strings.Contains(page, "<bdi>reader</bdi> on <bdi>clarity</bdi>: 2.1;") {
		t.Errorf("the page lacks an argument")
	}
	m.counts[0].Runs = 6
	if got, want := built(t, m, Options{}).Headline(), "So far, “plain.md” 2.8, “muddled.md” 1.8, on a scale of 1 to 5. 4 of 6 runs have a score."; got != want {
		t.Errorf("headline %q, want %q", got, want)
	}
}
