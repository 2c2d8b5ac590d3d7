package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/prompt"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// AnswerSource reads what the page of answers shows. A results store implements it.
type AnswerSource interface {
	Text(ctx context.Context, hash string) (string, error)
	Run(ctx context.Context, run eval.RunID) (row results.RunRow, found bool, err error)
}

// documentResult holds the verdicts and scores on one document.
type documentResult struct {
	wins, losses, ties int
	scores, panel      Score
}

// finishAnswers counts the verdicts and scores on each document. As in rankings, people's votes count only if there
// are no judges.
func (b *builder) finishAnswers() {
	r := b.report
	r.documents = make([]documentResult, len(r.Evaluation.Plan.Documents))
	for d := range r.documents {
		r.documents[d].scores, r.documents[d].panel = b.documentScores[d], b.panelScores[d]
	}

	b.verdicts.merge()
	for _, c := range b.verdicts.cells {
		if len(r.Judges) > 0 && int(c.rater) >= len(r.Judges) {
			continue
		}
		first, second := &r.documents[c.first], &r.documents[c.second]
		first.wins, first.losses, first.ties = first.wins+int(c.wins), first.losses+int(c.losses), first.ties+int(c.ties)
		second.wins, second.losses, second.ties = second.wins+int(c.losses), second.losses+int(c.wins), second.ties+int(c.ties)
	}
}

// grid places all answers of an evaluation: a row for each question or prompt, a column for each candidate or model.
type grid struct {
	columns     []string
	rows        []gridRow
	row, column string // what they are
}

// gridRow is one question or prompt.
type gridRow struct {
	title   string
	item    int             // in the plan; -1: it is a prompt
	prompt  []eval.Document // what was sent: a prompt's line, or instructions and input
	kind    eval.Kind       // of a prompt
	answers []gridAnswer    // by column
}

// gridAnswer is one answer: a document, or the answer of a run.
type gridAnswer struct {
	column   int
	document int // in the plan; -1: the answer of run
	run      eval.RunID
	name     string // the run's own
}

const (
	mostGrouped      = 2_000 // prompts that are read to find those that are put to several models
	sharedTitleRunes = 60    // of a prompt's words as its title
)

// grid places the answers. Candidates are in the order of the ranking.
func (r *Report) grid(ctx context.Context, source AnswerSource) (*grid, error) {
	g := &grid{row: "question", column: "candidate"}
	plan := r.Evaluation.Plan
	if r.ListedOnly() {
		g.row, g.column = "prompt", "model"
	}
	if len(plan.Documents) > 0 {
		g.addDocuments(r)
	}
	for _, phase := range r.Phases {
		switch phase.Kind {
		case eval.KindRuns:
			g.addRuns(r.Evaluation.ID, phase.Phase, plan.Runs)
		case eval.KindPrompts:
			if err := g.addPrompts(ctx, r.Evaluation.ID, phase.Phase, plan.Prompts, source); err != nil {
				return nil, err
			}
		}
	}
	return g, nil
}

func (g *grid) addDocuments(r *Report) {
	plan := r.Evaluation.Plan
	column := map[string]int{}
	add := func(name string) {
		if _, known := column[name]; !known {
			column[name] = len(g.columns)
			g.columns = append(g.columns, name)
		}
	}
	for _, group := range r.Groups {
		for _, c := range group.Ranked {
			add(c.Name)
		}
	}
	for _, name := range r.candidates {
		add(name)
	}

	row := make([]int, len(plan.Items)) // position in rows, plus 1
	for d, document := range plan.Documents {
		if row[document.Item] == 0 {
			item := plan.Items[document.Item]
			title := cmp.Or(item.ID, "All documents")
			g.rows = append(g.rows, gridRow{title: title, item: document.Item})
			row[document.Item] = len(g.rows)
		}
		to := &g.rows[row[document.Item]-1]
		to.answers = append(to.answers, gridAnswer{column: column[document.Candidate], document: d})
	}
}

// modelColumns appends a column for each model and returns their positions.
func (g *grid) modelColumns(models []eval.Judge) []int {
	at := make([]int, len(models))
	for k, model := range models {
		at[k] = len(g.columns)
		g.columns = append(g.columns, cmp.Or(model.Name, model.Target()))
	}
	return at
}

func (g *grid) addRuns(id eval.ID, phase int, runs *eval.Runs) {
	columns, row := g.modelColumns(runs.Models), map[[2]int]int{}
	for k, run := range runs.List {
		files := [2]int{run.FileA, run.FileB}
		at, known := row[files]
		if !known {
			at = len(g.rows)
			row[files] = at
			sent := []eval.Document{runs.Files[run.FileA], runs.Files[run.FileB]}
			g.rows = append(g.rows, gridRow{title: sent[0].ID + " on " + sent[1].ID, item: -1, prompt: sent, kind: eval.KindRuns})
		}
		g.rows[at].answers = append(g.rows[at].answers, gridAnswer{
			column: columns[run.Model], document: -1, run: eval.RunID{Evaluation: id, Phase: phase, Index: k}, name: run.ID,
		})
	}
}

// addPrompts appends the prompts. Those with the same words, for different models, share a row.
func (g *grid) addPrompts(ctx context.Context, id eval.ID, phase int, prompts *eval.Prompts, source AnswerSource) error {
	columns, row := g.modelColumns(prompts.Models), map[string]int{}
	for k, one := range prompts.List {
		line := prompts.Rows[one.Row]
		words := line.ID
		if len(prompts.List) <= mostGrouped {
			text, err := source.Text(ctx, line.Hash)
			if err != nil && !errors.Is(err, results.ErrNoText) {
				return fmt.Errorf("prompt %s: %w", one.ID, err)
			}
			words = cmp.Or(promptWords(prompts.Format, text), words)
		}

		at, known := row[words]
		if !known {
			at = len(g.rows)
			row[words] = at
			g.rows = append(g.rows, gridRow{title: one.ID, item: -1, prompt: []eval.Document{line}, kind: eval.KindPrompts})
		}
		if len(g.rows[at].answers) == 1 { // shared, so that no id names it
			g.rows[at].title = wording.Clip(harmless.OneLine(words), sharedTitleRunes)
		}
		g.rows[at].answers = append(g.rows[at].answers, gridAnswer{
			column: columns[one.Model], document: -1, run: eval.RunID{Evaluation: id, Phase: phase, Index: k}, name: one.ID,
		})
	}
	return nil
}

// promptWords returns the messages of a prompt, as people read them, from the line that it was written in. It returns
// the line if it cannot be read.
func promptWords(format eval.PromptFormat, line string) string {
	read, err := prompt.ReadRow(format, line)
	if err != nil {
		return line
	}
	var words []string
	for _, turn := range read.Turns {
		for _, message := range turn {
			text := message.Content
			if message.Role != "user" {
				text = message.Role + ": " + text
			}
			words = append(words, text)
		}
	}
	return strings.Join(words, "\n\n")
}

// answerOf returns the text of an answer. note says why there is none, or what else to know.
func (r *Report) answerOf(ctx context.Context, source AnswerSource, of gridAnswer) (text, note string, err error) {
	if of.document >= 0 {
		document := r.Evaluation.Plan.Documents[of.document]
		text, err = source.Text(ctx, document.Hash)
		switch {
		case errors.Is(err, results.ErrNoText):
			return "", "The text is not stored.", nil
		case err != nil:
			return "", "", fmt.Errorf("text of %s: %w", document.ID, err)
		case text == "":
			return "", "The text is empty.", nil
		}
		return document.Readable(text), "", nil
	}

	row, found, err := source.Run(ctx, of.run)
	switch {
	case err != nil:
		return "", "", fmt.Errorf("answer of run %s: %w", of.run.Short(), err)
	case !found:
		return "", "The run has no result.", nil
	case row.State != eval.StateSucceeded.String():
		return "", strings.TrimSuffix(fmt.Sprintf("The run %s: %s", row.State, cmp.Or(row.Error, string(row.Class))), ": "), nil
	case len(row.Answers) > 0:
		return strings.Join(row.Answers, "\n\n---\n\n"), "", nil
	case row.Answer == "":
		return "", "The answer is empty.", nil
	}
	return row.Answer, "", nil
}
