package config

import (
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval/prompt"
)

func TestScaleOfComparisons(t *testing.T) {
	t.Parallel()
	const head = "documents: [docs/*.md]\njudges: [simulator:careful]\npairwise: "
	ids := map[string]string{}
	for _, tt := range []struct {
		block   string
		degrees int
		ties    bool
	}{
		{"{}", 0, false},
		{"{scale: 2}", 0, false},
		{"{ties: true}", 0, true},
		{"{scale: 3}", 0, true},
		{"{scale: 4}", 2, false},
		{"{scale: 5}", 2, true},
		{"{ties: true, scale: 5}", 2, true},
		{"{scale: 6, ties: false}", 3, false},
		{"{scale: 7}", 3, true},
	} {
		s := load(t, with(two, "eval.yaml", head+tt.block+"\n"), Options{})
		if p := s.Evaluation.Pairwise; p.Degrees != tt.degrees || p.Ties != tt.ties {
			t.Errorf("%s: %d degrees, ties %t, want %d, %t", tt.block, p.Degrees, p.Ties, tt.degrees, tt.ties)
		}
		ids[tt.block] = string(s.Evaluation.ID())
	}
	if ids["{}"] != ids["{scale: 2}"] || ids["{ties: true}"] != ids["{scale: 3}"] || ids["{scale: 5}"] != ids["{ties: true, scale: 5}"] {
		t.Errorf("the same question has several identities: %v", ids)
	}
	if ids["{ties: true}"] == ids["{scale: 5}"] || ids["{scale: 4}"] == ids["{}"] {
		t.Errorf("different questions have one identity: %v", ids)
	}
}

func TestCriteriaOfComparisonsAreRefused(t *testing.T) {
	t.Parallel()
	const head = "documents: [docs/*.md]\njudges: [simulator:careful]\npairwise: "
	for _, tt := range []struct{ name, block, place, says string }{
		{"one verdict", "{scale: 1}", "eval.yaml:3:19: pairwise.scale: ", "want 5"},
		{"too many", "{scale: 9}", "eval.yaml:3:19: pairwise.scale: ", "want 5"},
		{"a range", "{scale: [1, 5]}", "eval.yaml:3:19: pairwise.scale: ", "want 5"},
		{"a word", "{scale: five}", "eval.yaml:3:19: pairwise.scale: ", "want 5"},
		{"no ties", "{scale: 5, ties: false}", "eval.yaml:3:28: pairwise.ties: ", "omit ties, or set scale: 6"},
		{"ties", "{scale: 4, ties: true}", "eval.yaml:3:28: pairwise.ties: ", "omit ties, or set scale: 5"},
		{"no criterion", "{criteria: []}", "eval.yaml:3:22: pairwise.criteria: ", "for example"},
		{"twice", "{criteria: [style, style]}", "eval.yaml:3:30: pairwise.criteria[1]: ", "name each criterion once"},
		{"not shown", "{criteria: [style], template: p.md}", "eval.yaml:3:41: pairwise.template: ", "add a line with [[criteria]]"},
		{"shown, but none", "{template: c.md}", "eval.yaml:3:22: pairwise.template: ", "add criteria"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			problems, got := problemsOf(t, with(
				two, "eval.yaml", head+tt.block+"\n", "p.md", "Judge: [[documents]]", "c.md", "[[criteria]] [[documents]]",
			), Options{})
			if len(problems) != 1 || !strings.HasPrefix(got, tt.place) || !strings.Contains(got, tt.says) {
				t.Errorf("got %d problems\n%s\nwant one at %s that says %s", len(problems), got, tt.place, tt.says)
			}
		})
	}
}

// TestCriteriaReachTheTemplate: the built-in template shows criteria, with reference answers, too; an own one is kept.
func TestCriteriaReachTheTemplate(t *testing.T) {
	t.Parallel()
	const head = "documents: [docs/*.md]\njudges: [simulator:careful]\npairwise: "
	s := load(t, with(two, "eval.yaml", head+"{criteria: [accuracy, {name: style, description: How it reads.}]}\n"), Options{})
	p := s.Evaluation.Pairwise
	if !prompt.Shows(p.Template, "criteria") || !prompt.BuiltIn("pairwise", p.Template) || len(p.Criteria) != 2 || p.Criteria[1].Description == "" {
		t.Errorf("criteria %+v, template:\n%s", p.Criteria, p.Template)
	}
	own := "Compare by [[criteria]]\n[[documents]]"
	s = load(t, with(two, "eval.yaml", head+"{criteria: [style], template: c.md}\n", "c.md", own), Options{})
	if s.Evaluation.Pairwise.Template != own {
		t.Errorf("template %q, want %q", s.Evaluation.Pairwise.Template, own)
	}
}
