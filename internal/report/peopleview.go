package report

import (
	"cmp"
	"fmt"

	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// peopleView shows how people voted, and how far the judges agree with them.
type peopleView struct {
	Said              string
	Judges            []againstView
	Ranks             *ownView // nil: see ownView
	Corrected         *sectionView
	Annotators        []annotatorView
	Agreed            string  // empty: no pair was judged by two annotators
	Matrix            *matrix // nil: see raterMatrix
	Among, WithJudges raterView
}

type againstView struct {
	Name, Pairs, Accuracy, Mostly, Precision, Recall, F1, Cohen string
}

type annotatorView struct {
	Name, Votes, Ties string
}

// peopleView returns nil if there are no votes.
func (r *Report) peopleView() *peopleView {
	people := r.People
	if people == nil {
		return nil
	}
	v := &peopleView{
		Said:       people.summary(),
		Judges:     people.againstRows(),
		Ranks:      r.peopleRanks(),
		Matrix:     raterMatrix(cmp.Or(people.Everyone, people.Agreement)),
		Among:      raterViewOf("Two annotators at a time", people.Agreement, 0, raterPairs),
		WithJudges: raterViewOf("A judge and an annotator at a time", people.Everyone, len(r.Judges), raterPairs),
	}
	if s, ok := r.correctedSection(openRows, pageColumns); ok {
		corrected := s.view()
		v.Corrected = &corrected
	}

	for _, a := range people.Annotators {
		v.Annotators = append(v.Annotators, annotatorView{a.Name, wording.Count(a.Votes), wording.Count(a.Ties)})
	}
	if a := people.Agreement; a != nil {
		v.Agreed = fmt.Sprintf("Annotators together: Krippendorff’s alpha %s over %s, Fleiss’ kappa %s over the %s that all of them decided.",
			coefficientLimits(a.Alpha, a.AlphaLimits), wording.Counted(a.Units, "pair"),
			coefficientLimits(a.Fleiss, a.FleissLimits), wording.Count(a.Complete))
	}
	return v
}

// againstRows returns a row for each judge, comparing it with the majority of people.
func (p *People) againstRows() []againstView {
	var rows []againstView
	for _, j := range p.Judges {
		rows = append(rows, againstView{
			j.Judge, wording.Count(j.Pairs), shareOf(j.Accuracy), shareOf(j.Mostly), shareOf(j.Precision), shareOf(j.Recall),
			shareOf(j.F1), coefficientLimits(j.Cohen, j.CohenLimits),
		})
	}
	return rows
}

// peopleRanks shows the ranking by all people beside that of the judges and those of single annotators. It returns
// nil if people's votes do not relate all candidates, if there is no other ranking, or if correctedSection shows them.
func (r *Report) peopleRanks() *ownView {
	people := r.People
	if len(people.Groups) != 1 || people.Corrected.ranks() {
		return nil
	}
	names, rankings := []string{"all people"}, [][]Group{people.Groups}
	if len(r.Judges) > 0 && r.Fit != nil {
		names, rankings = append(names, "all judges"), append(rankings, r.Groups)
	}
	for _, a := range people.Annotators {
		if len(a.Groups) > 0 {
			names, rankings = append(names, a.Name), append(rankings, a.Groups)
		}
	}
	return ownViewOf("Ranks by people, with the limits at 95 %", people.Groups[0].Ranked, names, rankings)
}
