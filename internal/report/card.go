package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/lines"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// cardCandidates is how many candidates a card lists.
const cardCandidates = 5

// CardOptions are the options of WriteCard.
type CardOptions struct {
	TextOptions
	Page    string   // path of the report
	Beside  []string // names of the files beside it
	Details string   // command that prints all tables
}

// WriteCard writes the result in some 15 lines: the leader, whether the judges can be relied on, the cost, the first
// note, and the files. The output is safe to print on a terminal and fits the width as that of WriteText does.
func (r *Report) WriteCard(w io.Writer, options CardOptions) error {
	options.TextOptions = options.withDefaults()
	out := lines.New(w, options.Width, options.Colour)
	out.Heading(named(r.Evaluation.Plan.Name) + "  " + string(r.Evaluation.ID))
	out.Line(r.Headline())
	out.Blank()
	if s, ok := r.cardTable(); ok {
		s.table.Write(out)
		for _, line := range s.lines {
			out.Line(line)
		}
		out.Blank()
	}

	if words := r.addedWords(); words != "" {
		out.Entry("Added", words, lines.Plain)
	}
	if words := r.EscalationLine(); words != "" {
		out.Entry("Ranking", words, lines.Plain)
	}
	if t := r.Reliance(); t != nil {
		out.Entry("Trust", t.Line(), map[Level]string{Sound: lines.Green, Caution: lines.Yellow, Unsound: lines.Red}[t.Level])
	}
	if words := r.peopleLine(); words != "" {
		out.Entry("People", words, lines.Plain)
	}
	if words := r.OverTime.Line(); words != "" {
		colour := lines.Plain
		if len(r.OverTime.Warnings()) > 0 {
			colour = lines.Yellow
		}
		out.Entry("Judges", words, colour)
	}
	if r.Effects != nil {
		out.Entry("Effects", r.effectsHeadline(), lines.Plain)
	}
	if words := r.enough(); words != "" && r.trust() != Unsound {
		out.Entry("Enough?", words, lines.Plain)
	}
	if r.Evaluation.Plan.Given != nil {
		out.Entry("Read", r.givenWords(), lines.Plain)
	} else {
		r.cardCost(out)
	}
	if budget := r.budget(); budget != "" {
		out.Entry("Budget", budget, lines.Plain)
	}
	if why := r.Evaluation.Stopped; why != nil {
		colour := lines.Red
		if r.known() {
			colour = lines.Green
		}
		out.Entry("Stopped", harmless.Line(why.String()), colour)
	}

	if notes := r.Notes()[len(r.OverTime.Warnings()):]; len(notes) > 0 { // those are above
		text := notes[0]
		if more := len(notes) - 1; more > 0 {
			first, _, _ := strings.Cut(text, ". ")
			text = strings.TrimSuffix(first, ".") + ". " + wording.Counted(more, "more note") + " in the report."
		}
		out.Entry("Note", text, lines.Plain)
	}
	if options.Page != "" {
		out.Path("Report", options.Page)
	}
	if len(options.Beside) > 0 {
		out.Entry("Files", fileWords(options.Beside, out.Width-lines.LabelWidth), lines.Plain)
	}
	if options.Details != "" {
		out.Path("Details", options.Details)
	}
	return out.Flush()
}

// fileWords lists files by name in as many columns, and counts those that do not fit. It names a CSV file and the same
// rows as JSON lines together: "ranking.csv/.jsonl".
func fileWords(names []string, columns int) string {
	text, left := "", len(names)
	for _, name := range names {
		stem, ending, _ := strings.Cut(name, ".")
		files := 1
		switch {
		case ending == "jsonl" && slices.Contains(names, stem+".csv"):
			continue
		case ending == "csv" && slices.Contains(names, stem+".jsonl"):
			name, files = name+"/.jsonl", 2
		}

		longer, rest := name, ""
		if text != "" {
			longer = text + ", " + name
		}
		if left > files {
			rest = fmt.Sprintf(" and %d more", left-files)
		}
		if text != "" && wording.Columns.StringWidth(longer+rest) > columns {
			return fmt.Sprintf("%s and %d more", text, left)
		}
		text, left = longer, left-files
	}
	return text
}

// cardCost writes how many runs there were, and what they cost.
func (r *Report) cardCost(out *lines.Writer) {
	out.Entry("Runs", r.runWords(), lines.Plain)
	u := r.total()
	out.Entry(
		"Cost",
		cost(u)+costGap(u)+r.atPrices()+": "+tokens(u.Input, u)+" tokens in, "+tokens(u.Output, u)+" out, in "+made(u),
		lines.Plain,
	)
	if words := r.PromptCache(); words != "" {
		out.Entry("Cache", words, lines.Plain)
	}
}

// cardTable returns the top of the ranking, or the answers or panel means if the evaluation asks for nothing else. ok
// is false if there is nothing to rank.
func (r *Report) cardTable() (s section, ok bool) {
	switch {
	case r.ListedOnly():
		return r.listedSection(), true
	case r.PanelOnly():
		return r.panelMeans(cardCandidates), true
	case len(r.Groups) == 0:
		return section{}, false
	case len(r.Groups) > 1:
		t := lines.Table{{Head: "best of each group", Flexible: true}, {Head: "candidates", Right: true}}
		for _, g := range r.Groups[:min(cardCandidates, len(r.Groups))] {
			t.Add(harmless.Line(g.Ranked[0].Name), wording.Count(len(g.Ranked)))
		}
		s = section{table: t}
		if hidden := len(r.Groups) - cardCandidates; hidden > 0 {
			s.lines = []string{wording.Counted(hidden, "more group") + " in the report."}
		}
		return s, true
	}

	group := r.Groups[0]
	shown := min(cardCandidates, len(group.Ranked))
	t := lines.Table{{Head: "rank"}, {Head: "candidate", Flexible: true}}
	head, means := r.scoreWords()
	t = append(t, lines.Heads(head, "95 % interval")...)
	certain := r.tested() && r.doubt() == "" // the headline does not say how certain it is otherwise, so nor does the table
	if certain {
		t = append(t, lines.Heads("P(best)")...)
	}
	if r.Scored > 0 && !r.ByScore() {
		t = append(t, lines.Heads("mean score")...)
	}
	for _, c := range group.Ranked[:shown] {
		cells := []string{r.ranks(c), harmless.Line(c.Name), r.score(c), r.scoreInterval(c)}
		if certain {
			cells = append(cells, probability(c.Best))
		}
		if r.Scored > 0 && !r.ByScore() {
			cells = append(cells, mean(c.Overall))
		}
		t.Add(cells...)
	}

	if r.abilities() {
		means = strings.TrimSpace("50 % is the average candidate. " + r.winsOfTwo())
	}
	about := []string{means}
	if hidden := len(group.Ranked) - shown; hidden > 0 {
		about = append([]string{wording.Counted(hidden, "more candidate") + " in the report."}, about...)
	}
	if group.tiered() {
		about = append(about, group.tierLines()[0])
	} else if r.tested() && slices.ContainsFunc(group.Ranked[:shown], func(c Ranked) bool { return c.RankLow != c.RankHigh }) {
		about = append(about, "Ranks in brackets hold for all candidates at once, at 95 %.")
	}
	s = section{table: t, lines: []string{strings.Join(about, " ")}}

	return s, true
}

// runWords returns how many runs succeeded, failed (by class), were cancelled have no result yet or are not needed, in words.
func (r *Report) runWords() string {
	planned, succeeded, failed, cancelled := r.runs()
	words := []string{fmt.Sprintf("%s of %s succeeded", wording.Count(succeeded), wording.Count(planned))}
	if failed > 0 {
		var classes []string
		for _, f := range r.Failures {
			classes = append(classes, fmt.Sprintf("%s %s", f.Class, wording.Count(f.Runs)))
		}
		words = append(words, wording.Count(failed)+" failed ("+strings.Join(classes, ", ")+")")
	}

	missing := planned - succeeded - failed - cancelled
	if r.cancelled() {
		cancelled, missing = cancelled+missing, 0
	}
	if cancelled > 0 {
		words = append(words, wording.Count(cancelled)+" cancelled")
	}

	if missing > 0 {
		why := " without a result yet"
		if r.known() { // early, because the best candidates are
			why = " not needed"
		}
		words = append(words, wording.Count(missing)+why)
	}
	return strings.Join(words, ", ")
}
