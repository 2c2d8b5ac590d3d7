package report

import (
	"fmt"
	"strings"

	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/lines"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// peopleSections returns the tables about people: their votes, their ranking, how far they agree, and how far judges
// agree with them.
func (r *Report) peopleSections(candidates, width int) []section {
	people := r.People
	if people == nil {
		return nil
	}

	t := append(lines.Table{{Head: "annotator", Flexible: true}}, lines.Heads("votes", "ties")...)
	shown := people.Annotators[:min(mostAnnotators, len(people.Annotators))]
	for _, a := range shown {
		t.Add(harmless.Line(a.Name), wording.Count(a.Votes), wording.Count(a.Ties))
	}
	said := section{title: "People", table: t}
	if left := len(people.Annotators) - len(shown); left > 0 {
		said.lines = append(said.lines, wording.Counted(left, "more annotator")+" in report.json.")
	}
	said.lines = append(said.lines, people.summary())
	sections := []section{said}
	if s, ok := r.ranksByPeople(candidates, width); ok {
		sections = append(sections, s)
	}
	if s, ok := r.correctedSection(candidates, width); ok {
		sections = append(sections, s)
	}
	if people.Agreement != nil {
		sections = append(sections, r.agreementSection("Agreement of people on pairs", "annotators", people.Agreement, 0))
	}
	if people.Everyone != nil {
		sections = append(
			sections,
			r.agreementSection("Agreement of judges with people on pairs", "judge", people.Everyone, len(r.Judges)),
		)
	}
	if len(people.Judges) > 0 {
		sections = append(sections, people.judgesSection())
	}
	return sections
}

// peopleLine says in a line how much people voted, and whom they rank first; empty without votes. Where there are no judges,
// people's ranking is that of the headline.
func (r *Report) peopleLine() string {
	p := r.People
	if p == nil || p.Votes == 0 {
		return ""
	}
	words := fmt.Sprintf("%s by %s on %s of texts.", wording.Counted(p.Votes, "vote"),
		wording.Either(len(p.Annotators), "person", "people"), wording.Counted(p.Pairs, "pair"))
	switch c := p.Corrected; {
	case c.ranks():
		words += " On all pairs, people would rank " + firstOf(c.Groups[0]) + " first" + asJudges(c.Groups[0], r.Groups) + "." +
			openWords(c.Groups[0])
	case len(r.Judges) > 0 && len(p.Groups) == 1 && p.Pairs >= fewest && contenders(p.Groups[0]) > 0:
		words += " They rank " + firstOf(p.Groups[0]) + " first" + asJudges(p.Groups[0], r.Groups) + "." + openWords(p.Groups[0])
	}
	return words
}

// mostAnnotators bounds the rows of annotators.
const mostAnnotators = 20

// summary returns how much people voted, in words.
func (p *People) summary() string {
	said := fmt.Sprintf("%s on %s of texts, %s of them without a majority.",
		wording.Counted(p.Votes, "vote"), wording.Counted(p.Pairs, "pair"), wording.Count(p.Undecided))
	if p.Pooled > 0 {
		said += fmt.Sprintf(
			" %s with fewer than %d votes, or not among the %d with the most votes, share one propensity to tie.",
			wording.Counted(p.Pooled, "annotator"), fewVotes, mostTies,
		)
	}
	return said + p.chosenWords()
}

// chosenWords says in a sentence, after a space, why the pairs of votes were shown; empty if all votes are from a file.
func (p *People) chosenWords() string {
	var parts []string
	for _, of := range []struct {
		votes int
		words string
	}{
		{p.Sample, "on a random sample of pairs"},
		{p.Contested, "on pairs that judges contest"},
		{p.Narrow, "on pairs of neighbours whose order is open"},
	} {
		if of.votes > 0 {
			parts = append(parts, wording.Counted(of.votes, "vote")+" "+of.words)
		}
	}
	if len(parts) == 0 {
		return ""
	}

	words := " From the page where people vote: " + strings.Join(parts, ", ") + "."
	if p.Contested+p.Narrow > 0 {
		words += " Chosen pairs are harder than others: only a random sample shows without bias how far judges agree with people."
	}
	return words
}

func (p *People) judgesSection() section {
	t := append(lines.Table{{Head: "judge", Flexible: true}}, lines.Heads(
		"pairs of texts", "accuracy", "mostly right", "precision", "recall", "F1", "Cohen's kappa",
	)...)
	for _, j := range p.againstRows() {
		t.Add(harmless.Line(j.Name), j.Pairs, j.Accuracy, j.Mostly, j.Precision, j.Recall, j.F1, j.Cohen)
	}
	return section{title: "Judges against the majority of people", table: t, lines: []string{
		"On the pairs that both decided, over all verdicts; mostly right: share of pairs on which more verdicts were right " +
			"than wrong. Precision, recall and F1 are means over the outcomes: either text, or a tie.",
	}}
}

// ranksByPeople shows the ranking by all people beside that of the judges and those of single annotators. ok is false
// if people's votes do not relate all candidates, if there is no ranking to compare with, or if correctedSection shows them.
func (r *Report) ranksByPeople(candidates, width int) (section, bool) {
	people := r.People
	if len(people.Groups) != 1 || people.Corrected.ranks() {
		return section{}, false
	}
	shown := people.Groups[0].Ranked[:min(candidates, len(people.Groups[0].Ranked))]
	t := lines.Table{{Head: "candidate", Flexible: true}, rankColumn("all people", shown, people.Groups)}
	for _, c := range shown {
		t[0].Cells = append(t[0].Cells, harmless.Line(c.Name))
	}
	var others []lines.Column
	if len(r.Judges) > 0 { // otherwise, the main ranking is this one
		wins, limits := lines.Column{Head: winsHead, Right: true}, lines.Column{Head: "95 % interval", Right: true}
		for _, c := range shown {
			wins.Cells, limits.Cells = append(wins.Cells, winsOf(c)), append(limits.Cells, winsInterval(c))
		}
		others = append(others, wins, limits)
		if r.Fit != nil {
			others = append(others, rankColumn("all judges", shown, r.Groups))
		}
	}

	others = append(others, people.ownColumns(shown)...)
	if len(others) == 0 {
		return section{}, false
	}
	t, left := t.Widened(others, width)
	s := section{title: "Rank by people", table: t}
	if left > 0 {
		s.lines = append(s.lines, wording.Counted(left, "more ranking")+" by one of them in report.json.")
	}
	return s, true
}

// ownColumns returns the ranks by each person alone who has a ranking.
func (p *People) ownColumns(shown []Ranked) (own []lines.Column) {
	names := namedApart(p.Annotators, func(a Annotator) string { return a.Name }, 20)
	for k, a := range p.Annotators {
		if len(a.Groups) > 0 {
			own = append(own, rankColumn(names[k], shown, a.Groups))
		}
	}
	return own
}

func rankColumn(head string, shown []Ranked, groups []Group) lines.Column {
	c := lines.Column{Head: head, Right: true}
	for _, one := range shown {
		c.Cells = append(c.Cells, rankIn(groups, one.Name))
	}
	return c
}

// The JSON form of People; docs/formats.md describes its fields.
type (
	peopleJSON struct {
		Votes      int                      `json:"votes"`
		Pairs      int                      `json:"pairs"`
		Undecided  int                      `json:"undecided"`
		Pooled     int                      `json:"pooled"`
		Sample     int                      `json:"sample"`
		Contested  int                      `json:"contested"`
		Narrow     int                      `json:"narrow"`
		Annotators array[annotatorJSON]     `json:"annotators"`
		Rankings   array[groupJSON]         `json:"rankings"`
		Agreement  *agreementJSON           `json:"agreement"`
		Everyone   *agreementJSON           `json:"everyone"`
		Judges     array[againstPeopleJSON] `json:"judges"`
		Corrected  *correctedJSON           `json:"corrected"`
	}
	annotatorJSON struct {
		Name     string           `json:"name"`
		Votes    int              `json:"votes"`
		Ties     int              `json:"ties"`
		Own      int              `json:"own"`
		Rankings array[groupJSON] `json:"rankings"`
	}
	againstPeopleJSON struct {
		Judge     string `json:"judge"`
		Pairs     int    `json:"pairs"`
		Accuracy  number `json:"accuracy"`
		Mostly    number `json:"mostly_right"`
		Precision number `json:"precision"`
		Recall    number `json:"recall"`
		F1        number `json:"f1"`
		Cohen     number `json:"cohen"`
		CohenLow  number `json:"cohen_low"`
		CohenHigh number `json:"cohen_high"`
	}
)

func (r *Report) peopleJSON() *peopleJSON {
	people := r.People
	if people == nil {
		return nil
	}
	rankings := func(groups []Group) (out []groupJSON) {
		for _, g := range groups {
			out = append(out, r.groupJSON(g, true))
		}
		return out
	}
	out := &peopleJSON{
		Votes: people.Votes, Pairs: people.Pairs, Undecided: people.Undecided, Pooled: people.Pooled,
		Sample: people.Sample, Contested: people.Contested, Narrow: people.Narrow, Rankings: rankings(people.Groups),
		Agreement: agreementOf(people.Agreement, false), Everyone: agreementOf(people.Everyone, false), Corrected: r.correctedJSON(),
	}
	for _, a := range people.Annotators {
		out.Annotators = append(out.Annotators, annotatorJSON{a.Name, a.Votes, a.Ties, a.Own, rankings(a.Groups)})
	}
	for _, j := range people.Judges {
		out.Judges = append(out.Judges, againstPeopleJSON{
			j.Judge, j.Pairs, number(j.Accuracy), number(j.Mostly), number(j.Precision), number(j.Recall), number(j.F1),
			number(j.Cohen), number(j.CohenLimits.Low), number(j.CohenLimits.High),
		})
	}

	return out
}
