package report

import "github.com/evalfleet/evalfleet/internal/text/wording"

// mostRubricParts bounds the parts of rubrics that texts and pages show. The JSON has all.
const mostRubricParts = 20

// rubricSection returns a table of how often candidates meet the criteria of each part of the rubrics, with at most `most`
// candidates each. ok is false without rubrics.
func (r *Report) rubricSection(most int) (s section, ok bool) {
	var rows []sharedBy
	for _, part := range r.Rubric[:min(mostRubricParts, len(r.Rubric))] {
		rows = append(rows, sharedBy{wording.Clip(part.Name, 60), part.Candidates})
	}
	s = r.shareSection("Rubric", "part of the rubric", "met", "report.json", rows, most)
	if left := len(r.Rubric) - mostRubricParts; left > 0 {
		s.lines = append(s.lines, wording.Counted(left, "more part")+" in report.json.")
	}
	return s, len(rows) > 0
}

type rubricPartJSON struct {
	Name       string               `json:"name"`
	Criteria   int                  `json:"criteria"`
	Candidates array[rubricMetJSON] `json:"candidates"`
	Agreement  *agreementJSON       `json:"agreement,omitempty"`
}

type rubricMetJSON struct {
	Candidate string `json:"candidate"`
	Verdicts  int    `json:"verdicts"`
	Met       int    `json:"met"`
	Share     number `json:"share"`
	Low       number `json:"share_low"`
	High      number `json:"share_high"`
}

func (r *Report) rubricJSON() []rubricPartJSON {
	var all []rubricPartJSON
	for _, part := range r.Rubric {
		one := rubricPartJSON{Name: part.Name, Criteria: part.Criteria, Agreement: agreementOf(part.Agreement, false)}
		for i, of := range part.Candidates {
			one.Candidates = append(one.Candidates, rubricMetJSON{
				r.candidates[i], of.Of, of.Met, number(of.Share), number(of.Low), number(of.High),
			})
		}
		all = append(all, one)
	}
	return all
}
