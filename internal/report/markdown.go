package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/lines"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Bounds of the Markdown form, which is meant for reading. The text states how much is left out.
const (
	markdownCandidates = 500
	markdownReasons    = 20 // candidates with reasons
)

// unbounded is a width that fits the columns of any table.
const unbounded = 1 << 20

// WriteMarkdown writes the report as GitHub-flavoured Markdown. Recorded texts are escaped, so that none makes a
// link, an image, a mention or a tag, or leaves its table cell.
func (r *Report) WriteMarkdown(w io.Writer) error {
	out := &markdownWriter{bufio.NewWriter(w)}
	out.heading(1, named(r.Evaluation.Plan.Name))
	out.paragraph(string(r.Evaluation.ID) + " · " + r.asked())
	out.bold(r.Headline())
	if words := r.EscalationLine(); words != "" {
		out.paragraph(words)
	}
	if t := r.Reliance(); t != nil {
		out.paragraph(t.Line())
	}
	if notes := r.Notes(); len(notes) > 0 {
		out.heading(2, "Before you rely on this")
		out.items(notes)
	}

	sections := r.withScoreTables(r.sections(markdownCandidates, unbounded))
	if r.Panel != nil {
		if s := r.panelCandidates(); len(s.table[0].Cells) > 0 {
			sections = append(sections, s)
		}
	}

	sections = append(sections, r.listedSections()...)
	for _, s := range append(sections, r.progressSection()) {
		out.section(s)
	}
	r.writeReasons(out)
	r.writeFailures(out)
	out.heading(2, "Totals")
	out.items(compact(r.totals()))
	settings := lines.Table{{Head: "setting"}, {Head: "value"}}
	for _, s := range r.settings() {
		settings.Add(named(s.Name), wording.Clip(harmless.Line(s.Value), 2*reasonRunes))
	}
	out.section(section{title: "Settings in force", table: settings})
	if method := r.method(); len(method) > 0 {
		out.heading(2, "How to read this")
		out.items(method)
	}

	return out.w.Flush()
}

// WriteMarkdown writes the comparison as Report.WriteMarkdown writes a report.
func (c *Comparison) WriteMarkdown(w io.Writer) error {
	out := &markdownWriter{bufio.NewWriter(w)}
	out.heading(1, fmt.Sprintf("%d evaluations side by side", len(c.Reports)))
	out.items(c.Head())
	for _, s := range c.sections(markdownCandidates, unbounded) {
		out.section(s)
	}
	return out.w.Flush()
}

// compact replaces the spaces that align lines on a terminal by single ones.
func compact(lines []string) []string {
	var out []string
	for _, line := range lines {
		out = append(out, strings.Join(strings.Fields(line), " "))
	}
	return out
}

// panelCandidates returns a table of the candidates' mean scores on each dimension.
func (r *Report) panelCandidates() section {
	t := lines.Table{{Head: "candidate"}}
	for _, d := range r.Panel.Dimensions {
		t = append(t, lines.Heads(named(d.ID))...)
	}
	t = append(t, lines.Heads("all")...)
	for i, scores := range r.Panel.candidates {
		if scores[len(scores)-1].N == 0 {
			continue
		}
		cells := []string{named(r.candidates[i])}
		for _, s := range scores {
			cells = append(cells, mean(s))
		}
		t.Add(cells...)
	}
	return section{title: "Panel: mean score of each candidate", table: t}
}

// progressSection shows how many runs are planned and recorded, by phase and judge.
func (r *Report) progressSection() section {
	t := append(lines.Table{{Head: "phase"}, {Head: "asked"}}, lines.Heads(
		"planned", "succeeded", "failed", "cancelled", "missing", "rows", "tokens in", "tokens out", "cost",
	)...)
	for _, phase := range r.Progress {
		for _, j := range phase.Judges {
			row := progressRowOf(j.name(), j, time.DateTime)
			t.Add(
				fmt.Sprintf("%d %s", phase.Phase, phase.Kind), named(row.Name), row.Planned, row.Succeeded, row.Failed,
				row.Cancelled, row.Missing, row.Rows, row.Input, row.Output, row.Cost,
			)
		}
	}
	return section{title: "Planned and recorded", table: t}
}

func (r *Report) writeReasons(out *markdownWriter) {
	reasoned, left := r.reasoned()
	if len(reasoned) == 0 {
		return
	}
	out.heading(2, "Reasons")
	for k, c := range reasoned {
		if k == markdownReasons {
			left += len(reasoned) - k
			break
		}
		out.heading(3, named(c.Name))
		var items []string
		for _, reasons := range []struct {
			word string
			of   []Reason
		}{{"Won", c.For}, {"Lost", c.Against}} {
			for _, one := range reasons.of[:min(2, len(reasons.of))] {
				items = append(
					items,
					fmt.Sprintf(
						"%s against %s, by judge %s, run %s: %s", reasons.word, called(one.Opponent), called(one.Judge), one.Run,
						harmless.Line(one.Text),
					),
				)
			}
		}
		out.items(items)
	}

	if left > 0 {
		out.paragraph(wording.Counted(left, "more candidate") + " with reasons in report.json.")
	}
}

func (r *Report) writeFailures(out *markdownWriter) {
	if len(r.Failures) == 0 {
		return
	}
	out.heading(2, "Failures")
	for _, f := range r.Failures {
		out.paragraph(fmt.Sprintf("%s: %s", harmless.Line(f.Class), wording.Counted(f.Runs, "run")))
		t := lines.Table{{Head: "run"}, {Head: r.Asked()}, {Head: "error"}}
		for _, run := range f.Examples {
			t.Add(named(shortRun(run)), named(run.Judge), wording.Clip(harmless.Line(run.Error), reasonRunes))
		}
		out.table(t)
	}
}

// markdownWriter escapes its input; its writer keeps the first error.
type markdownWriter struct{ w *bufio.Writer }

func (o *markdownWriter) print(format string, args ...any) { _, _ = fmt.Fprintf(o.w, format, args...) }

func (o *markdownWriter) heading(level int, text string) {
	o.print("%s %s\n\n", strings.Repeat("#", level), escaped(text))
}

func (o *markdownWriter) paragraph(text string) { o.print("%s\n\n", escaped(text)) }
func (o *markdownWriter) bold(text string)      { o.print("**%s**\n\n", escaped(text)) }

func (o *markdownWriter) items(lines []string) {
	for _, line := range lines {
		o.print("- %s\n", escaped(line))
	}
	o.print("\n")
}

func (o *markdownWriter) section(s section) {
	o.heading(2, s.title)
	o.table(s.table)
	for _, line := range s.notes(lines.Column.FullHead) {
		o.paragraph(line)
	}
}

func (o *markdownWriter) table(t lines.Table) {
	if len(t) == 0 {
		return
	}
	row := func(cell func(lines.Column) string) {
		for _, c := range t {
			o.print("| %s ", cell(c))
		}
		o.print("|\n")
	}
	row(func(c lines.Column) string { return escaped(harmless.Short(c.FullHead(), nameRunes)) })
	row(func(c lines.Column) string {
		if c.Right {
			return "---:"
		}
		return "---"
	})
	for i := range t[0].Cells {
		row(func(c lines.Column) string { return escaped(wording.Clip(c.Cells[i], 2*reasonRunes)) })
	}
	o.print("\n")
}

// escaped escapes text that is already safe for a terminal, so that Markdown gives it no meaning. It covers
// punctuation (CommonMark 0.31, §2.4), and what GitHub turns into links and mentions by itself.
func escaped(text string) string {
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		switch {
		case strings.IndexByte("\\`*_{}[]<>#|~&!@$", c) >= 0,
			c == ':' && strings.HasPrefix(text[i:], "://"),
			c == '.' && i >= 3 && strings.EqualFold(text[i-3:i], "www"):
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}
