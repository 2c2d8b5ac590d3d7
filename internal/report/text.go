package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/lines"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// TextOptions are the options of WriteText. The zero value means 100 columns, 50 candidates and no colour.
type TextOptions struct {
	Width      int // columns; 0: 100
	Candidates int // maximum number of candidates in the rankings; 0: 50
	Colour     bool
}

func (o TextOptions) withDefaults() TextOptions {
	o.Width = cmp.Or(o.Width, 100)
	o.Candidates = cmp.Or(o.Candidates, 50)
	return o
}

// WriteText writes the report as a few aligned tables for a terminal. No line exceeds the width, long names are
// clipped, and recorded texts cannot control the terminal.
func (r *Report) WriteText(w io.Writer, options TextOptions) error {
	options = options.withDefaults()
	out := lines.New(w, options.Width, options.Colour)
	out.Heading(named(r.Evaluation.Plan.Name) + "  " + string(r.Evaluation.ID))
	out.Line(r.asked())
	out.Line(r.Headline())
	if words := r.EscalationLine(); words != "" {
		out.Line(words)
	}
	if t := r.Reliance(); t != nil {
		out.Line(t.Line())
	}
	for _, s := range append(r.withScoreTables(r.sections(options.Candidates, options.Width)), r.listedSections()...) {
		out.Blank()
		s.write(out)
	}

	out.Blank()
	for _, line := range r.totals() {
		out.Line(line)
	}
	if notes := r.Notes(); len(notes) > 0 {
		out.Blank()
		for _, note := range notes {
			out.Item(note)
		}
	}

	return out.Flush()
}

// asked returns one line of counts: candidates, documents, judges and verdicts, with the time span.
func (r *Report) asked() string {
	plan := r.Evaluation.Plan
	parts := []string{
		wording.Counted(len(r.candidates), "candidate"),
		wording.Counted(len(plan.Documents), "document"),
		wording.Counted(len(r.Judges), "judge"),
	}
	if plan.Pairwise != nil {
		parts = append(parts, wording.Counted(r.Verdicts, "verdict")+" on pairs")
	}
	if plan.Single != nil {
		parts = append(parts, wording.Counted(r.Scored, "score"))
	}
	if r.Panel != nil {
		if len(r.Judges) == 0 {
			parts = parts[:2] // there are none
		}
		parts = append(parts, wording.Counted(len(r.Panel.Agents), "agent"), wording.Counted(len(r.Panel.Dimensions), "dimension"),
			wording.Counted(r.Panel.Scored, "score")+" of the panel")
	}

	if r.People != nil {
		if len(r.Judges) == 0 && r.Panel == nil {
			parts = parts[:2]
		}
		parts = append(parts, wording.Counted(len(r.People.Annotators), "annotator"), wording.Counted(r.People.Votes, "vote"))
	}

	if r.ListedOnly() {
		parts = r.listedAsked()
	}
	if when := r.period(); when != "" {
		parts = append(parts, when)
	}
	return strings.Join(parts, " · ")
}

// section is a table with a title, and notes and the table's legend below it. It is written as text, Markdown or HTML.
type section struct {
	title string
	table lines.Table
	lines []string
}

// mostMissing bounds the rows of candidates with missing verdicts.
const mostMissing = 20

// notes returns the lines below the table, in which columns have the heads that head returns.
func (s section) notes(head func(lines.Column) string) []string {
	if legend := s.table.Legend(head); legend != "" {
		return append(s.lines[:len(s.lines):len(s.lines)], legend)
	}
	return s.lines
}

func (s section) write(out *lines.Writer) {
	out.Heading(s.title)
	if len(s.table) > 0 {
		s.table.Write(out)
	}
	for _, line := range s.notes(func(c lines.Column) string { return c.Head }) {
		out.Line(line)
	}
}

// sections returns the tables of a report, with at most `candidates` candidates each, that fit a width in columns.
func (r *Report) sections(candidates, width int) []section {
	sections := r.rankings(candidates, width)
	if s, ok := r.historySection(mostHistory); ok {
		sections = append(sections, s)
	}
	if s, ok := r.enoughSection(candidates); ok {
		sections = append(sections, s)
	}
	sections = append(sections, r.criteriaSections(candidates, width)...)
	sections = append(sections, r.effectSections(candidates)...)

	if r.Missing != nil {
		sections = append(sections, r.missingSection(mostMissing))
	}
	if s, ok := r.categorySection(candidates, width); ok {
		sections = append(sections, s)
	}
	if s, ok := r.itemSection(); ok {
		sections = append(sections, s)
	}
	if s, ok := r.checkSection(candidates); ok {
		sections = append(sections, s)
	}
	if s, ok := r.rubricSection(candidates); ok {
		sections = append(sections, s)
	}

	sections = append(sections, r.judgeSections(candidates, width)...)
	if r.OverTime != nil {
		sections = append(sections, r.OverTime.section())
	}
	sections = append(sections, r.peopleSections(candidates, width)...)
	if r.Panel != nil {
		sections = append(sections, r.panelSections(candidates)...)
	}
	return sections
}

// rankings returns a table for each group, with at most `most` candidates in all. The last one states how many are
// left out.
func (r *Report) rankings(most, width int) []section {
	var sections []section
	left := most
	for g, group := range r.Groups {
		shown := group.Ranked[:min(left, len(group.Ranked))]
		left -= len(shown)
		if len(shown) > 0 {
			sections = append(sections, section{
				title: r.groupTitle(g), table: r.rankingTable(group, len(shown), width), lines: group.tierLines(),
			})
		}
	}
	if words := r.choiceSentence(); words != "" && len(sections) > 0 {
		last := &sections[len(sections)-1]
		last.lines = append(last.lines, words)
	}
	if hidden := r.ranked() - (most - left); hidden > 0 {
		last := &sections[len(sections)-1]
		last.lines = append(last.lines, wording.Counted(hidden, "more candidate")+" in ranking.csv.")
	}
	return sections
}

// ranked returns the number of candidates in all groups.
func (r *Report) ranked() int {
	n := 0
	for _, g := range r.Groups {
		n += len(g.Ranked)
	}
	return n
}

func (r *Report) groupTitle(g int) string {
	title := "Ranking"
	switch group := r.Groups[g]; {
	case group.Item != "":
		title += " of item " + called(group.Item)
	case len(r.Groups) > 1:
		title += fmt.Sprintf(" of group %d of %d", g+1, len(r.Groups))
	}
	return title
}

// rankingTable returns the first `most` candidates of a group, omitting optional columns that do not fit the width.
func (r *Report) rankingTable(group Group, most, width int) lines.Table {
	ranked := group.Ranked[:most]
	t := lines.Table{{Head: "rank"}, {Head: "candidate", Flexible: true}}
	if r.abilities() {
		t = append(t, lines.Heads("strength ± SE", "95 % interval")...)
	}
	if r.Verdicts > 0 {
		t = append(t, lines.Heads("win rate", "W–L–T")...)
	}
	if r.softly() {
		t = append(t, lines.Heads("weighted win rate")...)
	}
	if r.Scored > 0 {
		t = append(t, lines.Heads("mean")...)
	}
	for _, c := range ranked {
		cells := []string{r.ranks(c), harmless.Line(c.Name)}
		if r.abilities() {
			cells = append(cells, plusMinus(signed(c.Ability), c.SE), between(c.Low, c.High))
		}
		if r.Verdicts > 0 {
			cells = append(cells, percent(c.WinRate()), tally(c))
		}
		if r.softly() {
			cells = append(cells, softCell(c))
		}
		if r.Scored > 0 {
			cells = append(cells, mean(c.Overall))
		}
		t.Add(cells...)
	}

	var more []lines.Column
	if r.tested() {
		best := lines.Column{Head: "P(best)", Right: true}
		lead := lines.Column{Head: "lead over next", Right: true}
		elo := lines.Column{Head: "Elo", Right: true}
		for k, c := range ranked {
			best.Cells = append(best.Cells, probability(c.Best))
			lead.Cells = append(lead.Cells, group.leadWords(k))
			elo.Cells = append(elo.Cells, eloOf(c))
		}
		if more = append(more, best, lead); r.abilities() {
			more = append(more, elo)
		}
	}

	if r.Scored == 0 {
		t, _ = t.Widened(more, width)
		return t
	}

	for k, name := range namedApart(r.Criteria, itself, 12) {
		next := lines.Column{Head: name, Right: true}
		for _, c := range ranked {
			next.Cells = append(next.Cells, mean(c.Scores[k]))
		}
		more = append(more, next)
	}

	t, _ = t.Widened(more, width)
	return t
}

// firstShare returns the share of a judge's verdicts for the text shown first, without ties.
func (r *Report) firstShare(j Judge) string {
	if !r.ordered() {
		return "–"
	}
	return percentOf(j.Positions.FirstWins, j.Positions.FirstWins+j.Positions.SecondWins)
}

func (j Judge) orderEffect() string {
	if !j.Effect.HasOrder {
		return "–"
	}
	return plusMinus(signed(j.Effect.Order), j.OrderLimits.SE)
}

// totals returns the lines that sum up runs, tokens, cost and budget.
func (r *Report) totals() []string {
	if r.given() {
		return []string{"Read    " + r.givenWords()}
	}
	planned, succeeded, failed, _ := r.runs()
	runs := fmt.Sprintf("%s planned, %s succeeded, %s failed", wording.Count(planned), wording.Count(succeeded), wording.Count(failed))
	var classes []string
	for _, f := range r.Failures {
		classes = append(classes, fmt.Sprintf("%s %s", f.Class, wording.Count(f.Runs)))
	}
	if len(classes) > 0 {
		runs += " (" + strings.Join(classes, ", ") + ")"
	}
	u := r.total()
	lines := []string{
		"Runs    " + runs,
		"Tokens  " + tokens(u.Input, u) + " in, " + tokens(u.Output, u) + " out, in " + made(u),
		"Cost    " + cost(u) + costGap(u) + r.atPrices(),
	}
	if words := r.PromptCache(); words != "" {
		lines = append(lines, "Cache   "+words)
	}

	if len(r.Calls) > 1 && u.CostUSD > 0 { // otherwise the sum says that the cost is unknown
		for _, c := range r.Calls {
			lines = append(lines, fmt.Sprintf("        %s, %s: %s in %s", named(c.Model), harmless.Line(c.Stage), cost(c.Usage), made(c.Usage)))
		}
	}

	if budget := r.budget(); budget != "" {
		lines = append(lines, "Budget  "+budget)
	}
	return lines
}

func (r *Report) atPrices() string {
	if table := r.priceTable(); table != "" {
		return ", " + table + " where none were written"
	}
	return ""
}

// costGap says why a cost is incomplete; empty if it is complete.
func costGap(u results.Usage) string {
	if u.Unpriced == 0 {
		return ""
	}
	return " (" + wording.Counted(u.Unpriced, "call") + " without a price)"
}
