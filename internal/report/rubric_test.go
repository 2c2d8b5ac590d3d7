package report

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/prompt"
	"github.com/evalfleet/evalfleet/internal/results"
)

// byRubric returns an evaluation of two candidates on some items with rubrics of three criteria; the last is a fault. x
// meets the first two everywhere, y the first and the fault. The second judge denies the first criterion.
func byRubric(items int, tags ...string) *memory {
	e := plan([]string{"x", "y"}, names(items), "strict", "blind")
	e.Pairwise = nil
	for i := range e.Items {
		e.Items[i].Rubric = []eval.RubricCriterion{
			{Text: "names it", Points: 6, Tags: tags}, {Text: "explains it", Points: 4}, {Text: "invents a source", Points: -5, Tags: tags},
		}
	}
	e.Single = &eval.Single{Rubric: true, Criteria: []eval.Criterion{{Name: eval.RubricName}}, Scale: eval.RubricScale(e.Items), Trials: 1}
	m := sourceOf(e)
	for d, document := range e.Documents {
		for j, judge := range e.Judges {
			met := map[string][]float64{"x": {1, 1, 0}, "y": {1, 0, 1}}[document.Candidate]
			for k := range met {
				value := met[k]
				if j == 1 && k == 0 {
					value = 0
				}
				m.singles = append(m.singles, results.SingleRow{
					Index: d*len(e.Judges) + j, Document: document.ID, Candidate: document.Candidate, Item: e.Items[document.Item].ID,
					Judge: judge.Name, Model: judge.Target(), AnsweredBy: judge.Target(), Trial: 1,
					Criterion: eval.RubricID(k), Score: value, Reason: "because", Timestamp: m.evaluation.Created,
				})
			}
		}
	}
	runs := len(e.Documents) * len(e.Judges)
	m.counts = []results.PhaseCounts{{Kind: eval.KindSingle, Runs: runs, Succeeded: runs, Classes: map[string]int{}}}
	return m
}

// TestRubricReport: candidates are ranked by their points, and each part of the rubrics says what they meet.
func TestRubricReport(t *testing.T) {
	t.Parallel()
	r := built(t, byRubric(8, "facts"), Options{})
	best, last := r.Groups[0].Ranked[0], r.Groups[0].Ranked[1]
	if best.Name != "x" || math.Abs(best.Overall.Mean()-70) > 1e-9 || math.Abs(last.Overall.Mean()+20) > 1e-9 {
		t.Errorf("%s has %g %%, and %s %g %%; want x with 70 and y with -20", best.Name, best.Overall.Mean(), last.Name, last.Overall.Mean())
	}
	if r.Scored != 32 {
		t.Errorf("%d scores, want 32: one of each run", r.Scored)
	}

	for k, want := range []struct {
		name     string
		criteria int
		met      [2]int // of x and y
		of       int
		kappa    float64
	}{
		{"criteria that earn points", 16, [2]int{24, 8}, 32, 0},
		{"criteria that cost points", 8, [2]int{0, 16}, 16, 1},
		{"facts", 16, [2]int{8, 24}, 32, 0},
	} {
		part := r.Rubric[k]
		if part.Name != want.name || part.Criteria != want.criteria {
			t.Errorf("part %d is %q of %d criteria, want %q of %d", k, part.Name, part.Criteria, want.name, want.criteria)
		}
		for c, met := range want.met {
			if of := part.Candidates[c]; of.Met != met || of.Of != want.of || math.Abs(of.Share-float64(met)/float64(want.of)) > 1e-9 {
				t.Errorf("%s: candidate %d meets %d of %d (%g), want %d of %d", part.Name, c, of.Met, of.Of, of.Share, met, want.of)
			}
		}
		if a := part.Agreement; a == nil || want.kappa == 1 && a.Fleiss != 1 || want.kappa == 0 && a.Fleiss > 0.5 {
			t.Errorf("%s: agreement %+v", part.Name, a)
		}
	}
	m := byRubric(8)
	m.evaluation.Plan.Single.Template = prompt.RubricTemplate()
	at := built(t, m, Options{}).settings()
	if k := slices.IndexFunc(at, func(s setting) bool { return s.Name == "single" }); k < 0 || !strings.Contains(at[k].Value, ", built-in template ") {
		t.Errorf("settings %+v, want a built-in template", at)
	}
	if len(r.Rubric) != 3 {
		t.Errorf("%d parts, want 3", len(r.Rubric))
	}
}

// TestRubricWithoutTags: the parts are the texts of criteria, which items may share.
func TestRubricWithoutTags(t *testing.T) {
	t.Parallel()
	r := built(t, byRubric(8), Options{})
	var parts []string
	for _, part := range r.Rubric {
		parts = append(parts, part.Name)
	}
	if got, want := strings.Join(parts, ", "), "criteria that earn points, criteria that cost points, explains it, invents a source, names it"; got != want {
		t.Errorf("parts %s\nwant %s", got, want)
	}
	if page := pageOf(t, r); !strings.Contains(page, `id="rubric"`) || !strings.Contains(page, "invents a source") {
		t.Error("the page has no section of the rubric")
	}
	var text strings.Builder
	if err := r.WriteCard(&text, CardOptions{}); err != nil || !strings.Contains(text.String(), "percent of those that the rubric offers, from -50 to 100") {
		t.Errorf("%v, the text does not say what a score is:\n%s", err, text.String())
	}

	if one := built(t, byRubric(1), Options{}).Rubric; one[0].Criteria != 2 || one[1].Criteria != 1 {
		t.Errorf("the rubric of one item has %d and %d criteria, want 2 and 1: they are not those of each document", one[0].Criteria, one[1].Criteria)
	}

	raw, err := json.Marshal(r.rubricJSON())
	if err != nil || !strings.Contains(string(raw), `{"name":"names it","criteria":8,"candidates":[{"candidate":"x","verdicts":16,"met":8,"share":0.5`) {
		t.Errorf("%v, JSON %s", err, raw)
	}
}

// TestFallbackOnRubrics: what another model said is left out of all parts, as it is of the ranking.
func TestFallbackOnRubrics(t *testing.T) {
	t.Parallel()
	m := byRubric(8, "facts")
	for k := range m.singles {
		if m.singles[k].Judge == "blind" {
			m.singles[k].AnsweredBy = "simulator:other"
		}
	}
	for fallback, want := range map[bool]int{false: 16, true: 32} {
		r := built(t, m, Options{Fallback: fallback})
		if got := r.Rubric[0].Candidates[0].Of; got != want {
			t.Errorf("fallback %t: %d verdicts, want %d", fallback, got, want)
		}
	}
}
