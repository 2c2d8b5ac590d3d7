package report

import (
	"fmt"
	"io"
	"slices"

	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/lines"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// WriteText writes the comparison as tables for a terminal, as Report.WriteText does.
func (c *Comparison) WriteText(w io.Writer, options TextOptions) error {
	options = options.withDefaults()
	out := lines.New(w, options.Width, options.Colour)
	for k, line := range c.Head() {
		if k > 0 {
			out.Blank()
		}
		out.Line(line)
	}
	for _, s := range c.sections(options.Candidates, options.Width) {
		out.Blank()
		s.write(out)
	}
	return out.Flush()
}

// Head returns one line for each evaluation, with its id and what it asks, followed by the lines of Headline and how far
// each can be relied on.
func (c *Comparison) Head() []string {
	var lines []string
	for k, r := range c.Reports {
		lines = append(lines, fmt.Sprintf("%d  %s  %s: %s", k+1, named(r.Evaluation.Plan.Name), r.Evaluation.ID, r.asked()))
	}
	lines = append(lines, c.Headline()...)
	for _, one := range c.reliances() {
		lines = append(lines, one.Text)
	}
	return lines
}

// sections returns a table of at most `most` candidates side by side, and one of the settings that differ.
// Evaluations whose columns do not fit the width are omitted and counted.
func (c *Comparison) sections(most, width int) []section {
	shown := c.Candidates[:min(most, len(c.Candidates))]
	t := lines.Table{{Head: "candidate", Flexible: true}}
	for _, one := range shown {
		t.Add(harmless.Line(one.Name))
	}
	left := 0
	for k := range c.Reports {
		next := c.columns(k, shown)
		const readable = 16
		if wide := append(t[:len(t):len(t)], next...); left == 0 && (k == 0 || wide.FixedWidth()+readable <= width) {
			t = wide
			continue
		}
		left++
	}

	ranking := section{title: "Side by side", table: t}
	if n := len(c.Candidates) - len(shown); n > 0 {
		ranking.lines = append(ranking.lines, wording.Counted(n, "more candidate")+" in comparison.csv.")
	}
	if left > 0 {
		ranking.lines = append(ranking.lines, wording.Counted(left, "more evaluation")+" in comparison.csv.")
	}
	ranking.lines = append(ranking.lines, c.Method()...)
	sections := []section{ranking}
	if len(c.Settings) == 0 {
		return append(sections, section{title: "Settings", lines: []string{"No setting differs."}})
	}
	different := append(lines.Table{{Head: "setting", Flexible: true}}, make(lines.Table, len(c.Reports))...)
	for k := range c.Reports {
		different[k+1] = lines.Column{Head: fmt.Sprint(k + 1)}
	}
	each := max(12, (width-24)/len(c.Reports)-len(lines.Separator))
	for _, d := range c.Settings {
		cells := []string{harmless.Line(d.Name)}
		for _, value := range d.Values {
			if value == "" {
				value = "–"
			}
			cells = append(cells, wording.Clip(harmless.Line(value), each))
		}
		different.Add(cells...)
	}

	return append(sections, section{title: "Settings that differ", table: different})
}

// columns returns the columns of one evaluation: ranks, values and, for all but the first, moves.
func (c *Comparison) columns(k int, shown []Compared) lines.Table {
	head, _ := c.Reports[k].scoreWords()
	if head == winsHead {
		head = "wins" // short, because two evaluations must fit; Method has the words in full
	}
	t := lines.Heads(fmt.Sprintf("rank in %d", k+1), fmt.Sprintf("%s in %d", head, k+1))
	if k > 0 {
		t = append(t, lines.Column{Head: fmt.Sprintf("from 1 to %d", k+1)})
	}
	for _, one := range shown {
		place := c.place(one, k)
		t.Add([]string{place.Rank, place.Value, place.Move}[:len(t)]...)
	}
	return t
}

// Method returns the sentences that explain how to read a comparison.
func (c *Comparison) Method() []string {
	lines := []string{"Moves compare ranks among the candidates that the first evaluation and the other one rank. Overlap: the " +
		"95 % intervals of a candidate's wins in the two evaluations overlap; apart: they do not. Behind a value, its 95 % interval " +
		"is in brackets; behind a rank, its bounds for all candidates at once."}
	if slices.ContainsFunc(c.Reports, func(r *Report) bool { return len(r.Groups) > 1 }) {
		lines = append(lines, "For an evaluation with several groups, the largest is shown.")
	}

	switch {
	case !slices.ContainsFunc(c.Reports, (*Report).abilities):
	case c.Shared == 0:
		lines = append(lines, "No candidate is ranked in every evaluation, so wins are wins against the average of each evaluation "+
			"and not comparable between them.")
	default:
		lines = append(lines, fmt.Sprintf("All wins are wins against the average of the %s that every evaluation ranks. More "+
			"decisive judges spread them wider, so compare order rather than size.", wording.Counted(c.Shared, "candidate")))
	}
	return lines
}
