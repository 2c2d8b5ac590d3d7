package report

import (
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Bounds of the page of answers, so that a file can be sent by mail and a browser shows it at once. The page says what
// it leaves out.
const (
	answerColumns    = 40        // candidates
	answerRows       = 500       // questions or prompts
	answerCells      = 10_000    // answers
	answerRunes      = 100_000   // of a text
	answersFileBytes = 4_000_000 // of all texts in a file
	answersPageBytes = 1_000_000 // of all texts of a served page
)

// AnswersPolicy returns the content security policy of the page of answers. It permits the page's own script, and nothing
// else to run or load.
func AnswersPolicy() string {
	sum := sha256.Sum256([]byte(answersScript))
	return "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-" +
		base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"
}

//go:embed page/answers/answers.js
var answersScript string

//go:embed page/answers/answers.css
var answersStyle string

//go:embed page/answers/answers.html
var answersForm string

var answersTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(pageTemplate(false).New("answers.html").Parse(answersForm))
})

// AnswersWindow selects the part of the grid that a page shows: the first row and column, from 0.
type AnswersWindow struct{ Row, Column int }

// answersView is the data of the page of answers.
type answersView struct {
	Report         *Report
	Style          template.CSS
	Script         template.JS
	Policy         string
	Title          string
	Words          string
	Row            string // what a row is
	Rows           []answersRow
	Columns        []string
	Served         bool
	Earlier, Later string // addresses of the pages before and after; empty: there is none
	Better, Worse  string // likewise, of other candidates
	window         AnswersWindow
	left           int // bytes of texts that may still be shown
}

// answersRow is one question or prompt with its answers.
type answersRow struct {
	ID, Title, Number string
	Words             string        // the beginning of the question; empty: there is none, or it is the title
	Sent              []answersText // question, reference answer, or prompt
	Answers           []answersText
	Cells             [][]answersText // by column, for the grid; without texts
}

// answersText is a text with what belongs to it.
type answersText struct {
	ID     string
	Name   string
	Hint   string // the document's own name
	Result string // wins, scores
	Shade  int    // of the result, as heatCell.Shade
	Text   string
	Note   string
	Run    string // <phase>.<index>; empty: it is a document
}

// AnswersFile is the name of the page of answers, to which the report links.
const AnswersFile = "answers.html"

// HasAnswers reports whether there are answers to show.
func (r *Report) HasAnswers() bool { return HasAnswers(r.Evaluation.Plan) }

// HasAnswers reports whether an evaluation has answers to show: documents whose texts are known, listed runs, or
// prompts.
func HasAnswers(plan *eval.Evaluation) bool {
	return lists(plan) || slices.ContainsFunc(plan.Documents, func(d eval.Document) bool { return d.Hash != "" })
}

// WriteAnswers writes one self-contained page with the questions, the prompts and the candidates' answers side by
// side. Everything recorded is escaped, and a content security policy permits only the page's own script.
func (r *Report) WriteAnswers(ctx context.Context, w io.Writer, source AnswerSource) error {
	return r.writeAnswers(ctx, w, source, &answersView{left: answersFileBytes})
}

// WriteServedAnswers writes a part of that page for the address /evaluations/ID/answers of the dashboard, with links
// to the other parts.
func (r *Report) WriteServedAnswers(ctx context.Context, w io.Writer, source AnswerSource, window AnswersWindow) error {
	return r.writeAnswers(ctx, w, source, &answersView{Served: true, window: window, left: answersPageBytes})
}

func (r *Report) writeAnswers(ctx context.Context, w io.Writer, source AnswerSource, v *answersView) error {
	g, err := r.grid(ctx, source)
	if err == nil {
		err = v.fill(ctx, r, g, source)
	}
	if err != nil {
		return fmt.Errorf("answers of %s: %w", r.Evaluation.ID, err)
	}
	return writePage(w, answersTemplate(), "answers.html", v, string(r.Evaluation.ID))
}

// fill adds rows from the window's first, until the page is full.
func (v *answersView) fill(ctx context.Context, r *Report, g *grid, source AnswerSource) error {
	v.Report, v.Title, v.Policy = r, named(r.Evaluation.Plan.Name), AnswersPolicy()
	v.Style, v.Script = template.CSS(baseStyle+pageStyle+answersStyle), template.JS(answersScript)
	first := AnswersWindow{min(max(0, v.window.Row), len(g.rows)), min(max(0, v.window.Column), len(g.columns))}
	last := AnswersWindow{first.Row, min(first.Column+answerColumns, len(g.columns))}
	v.Columns = g.columns[first.Column:last.Column]

	most := min(answerRows, answerCells/max(1, len(v.Columns)))
	for v.left > 0 && last.Row < len(g.rows) && last.Row-first.Row < most {
		row, err := v.row(ctx, r, source, g.rows[last.Row], last.Row, first.Column)
		if err != nil {
			return err
		}
		v.Rows = append(v.Rows, row)
		last.Row++
	}

	v.Row, v.Words = g.row, answersWords(first, last, g, v.Served)
	if v.Served {
		v.link(first, last, g)
	}
	return nil
}

// link adds the addresses of the parts of the grid around the window.
func (v *answersView) link(first, last AnswersWindow, g *grid) {
	to := func(row, column int) string { return fmt.Sprintf("answers?row=%d&column=%d", row, column) }
	if first.Row > 0 {
		v.Earlier = to(max(0, first.Row-max(1, last.Row-first.Row)), first.Column)
	}
	if last.Row < len(g.rows) {
		v.Later = to(last.Row, first.Column)
	}
	if first.Column > 0 {
		v.Better = to(first.Row, max(0, first.Column-answerColumns))
	}
	if last.Column < len(g.columns) {
		v.Worse = to(first.Row, last.Column)
	}
}

// answersWords says what the page shows of how much.
func answersWords(first, last AnswersWindow, g *grid, served bool) string {
	part := func(from, to, all int, one, many string) string {
		if to-from == all {
			return wording.Either(all, one, many)
		}
		return fmt.Sprintf("%s to %s of %s", wording.Count(from+1), wording.Count(to), wording.Either(all, one, many))
	}
	words := "Here are " + part(first.Row, last.Row, len(g.rows), g.row, g.row+"s") +
		" with the answers of " + part(first.Column, last.Column, len(g.columns), g.column, g.column+"s") + "."
	whole := last.Row-first.Row == len(g.rows) && last.Column-first.Column == len(g.columns)
	if !whole && !served {
		words += " The file is limited to keep it small; the pages of evalfleet ui, and responses.jsonl or the documents, have all."
	}
	return words
}

func (v *answersView) row(ctx context.Context, r *Report, source AnswerSource, from gridRow, number, column int) (answersRow, error) {
	row := answersRow{ID: "item-" + strconv.Itoa(number+1), Title: from.title, Number: wording.Count(number + 1),
		Cells: make([][]answersText, len(v.Columns))}
	if err := v.sent(ctx, r, source, from, &row); err != nil {
		return row, err
	}
	if len(row.Sent) > 0 {
		if words := wording.Clip(harmless.OneLine(row.Sent[0].Text), sharedTitleRunes); words != row.Title {
			row.Words = words
		}
	}

	for _, of := range from.answers {
		at := of.column - column
		if at < 0 || at >= len(v.Columns) {
			continue
		}
		one := answersText{ID: fmt.Sprintf("%s-%d", row.ID, len(row.Answers)+1), Name: v.Columns[at], Shade: -1}
		failed := ""
		if of.document >= 0 {
			one.Result, one.Shade = r.documents[of.document].words(), r.shadeOf(r.documents[of.document])
			failed = r.failedWords(r.Evaluation.Plan.Documents[of.document])
			if id := r.Evaluation.Plan.Documents[of.document].ID; id != one.Name && id != from.title+"/"+one.Name {
				one.Hint = id
			}
		} else {
			one.Run, one.Hint = of.run.Short(), of.name
		}

		text, note, err := r.answerOf(ctx, source, of)
		if err != nil {
			return row, err
		}
		one.Note, one.Result = cmp.Or(note, failed), cmp.Or(one.Result, note, failed, "answered")
		v.show(&one, text)
		row.Answers = append(row.Answers, one)
		row.Cells[at] = append(row.Cells[at], answersText{ID: one.ID, Name: one.Name, Result: wording.Clip(one.Result, 40), Shade: one.Shade})
	}
	slices.SortStableFunc(row.Answers, func(x, y answersText) int {
		return slices.Index(v.Columns, x.Name) - slices.Index(v.Columns, y.Name)
	})
	return row, nil
}

// show adds a text, as far as the page has room for it.
func (v *answersView) show(one *answersText, text string) {
	one.Text = wording.Clip(text, answerRunes)
	if len(one.Text) > v.left {
		one.Text = wording.Clip(text, max(0, v.left/4))
	}
	if one.Text != text {
		one.Note = "The text is longer."
	}
	v.left -= len(one.Text)
}

// sent adds the question and the reference answer, or the prompt.
func (v *answersView) sent(ctx context.Context, r *Report, source AnswerSource, from gridRow, row *answersRow) error {
	add := func(name, text string) {
		if text != "" {
			one := answersText{ID: fmt.Sprintf("%s-sent-%d", row.ID, len(row.Sent)+1), Name: name}
			v.show(&one, text)
			row.Sent = append(row.Sent, one)
		}
	}
	if from.item >= 0 {
		item := r.Evaluation.Plan.Items[from.item]
		add("Question", item.Question)
		add("Reference answer", item.KnownReference())
		return nil
	}

	for k, document := range from.prompt {
		text, err := source.Text(ctx, document.Hash)
		if err != nil && !errors.Is(err, results.ErrNoText) {
			return fmt.Errorf("text of %s: %w", document.ID, err)
		}
		if from.kind == eval.KindPrompts {
			add("Prompt", promptWords(r.Evaluation.Plan.Prompts.Format, text))
		} else {
			add([]string{"Instructions", "Input"}[k]+": "+document.ID, text)
		}
	}
	return nil
}

// words returns the result in a few words; "" without verdicts and scores.
func (d documentResult) words() string {
	var words []string
	if d.wins+d.losses+d.ties > 0 {
		words = append(words, fmt.Sprintf("%d–%d", d.wins, d.losses))
		if d.ties > 0 {
			words[0] += "–" + strconv.Itoa(d.ties)
		}
	}
	for _, score := range []Score{d.scores, d.panel} {
		if score.N > 0 {
			words = append(words, fmt.Sprintf("%.1f", score.Mean()))
		}
	}
	return strings.Join(words, " · ")
}

// shadeOf returns the shade of a result: by its share of wins, a tie being half, or without verdicts on pairs by its
// scores; -1 without any.
func (r *Report) shadeOf(d documentResult) int {
	plan := r.Evaluation.Plan
	score := d.scores
	var scale eval.Scale
	switch {
	case d.wins+d.losses+d.ties > 0:
		return shade((float64(d.wins) + float64(d.ties)/2) / float64(d.wins+d.losses+d.ties))
	case d.scores.N > 0:
		scale = plan.Single.Scale
	case d.panel.N > 0:
		score, scale = d.panel, plan.Panel.Scale
	default:
		return -1
	}
	return shade((score.Mean() - float64(scale.Min)) / float64(scale.Max-scale.Min))
}
