package report

import (
	"fmt"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/lines"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/providers"
)

// Listed sums up the listed runs and prompts of one model.
type Listed struct {
	Model     string // provider:model
	Runs      int    // planned
	Succeeded int
	Failed    int
	Truncated int           // succeeded, with an answer that was cut off
	Used      results.Usage // of all their calls
}

// ListedOnly reports whether the evaluation asks nothing but listed runs or prompts, so that there is nothing to
// rank.
func (r *Report) ListedOnly() bool {
	plan := r.Evaluation.Plan
	return lists(plan) && plan.Single == nil && plan.Pairwise == nil && plan.Panel == nil
}

// Asked returns the head of a column of who was asked: "judge", or "model" where nothing is judged.
func (r *Report) Asked() string {
	if r.ListedOnly() {
		return "model"
	}
	return "judge"
}

// Shown returns the head of a column of what a run shows.
func (r *Report) Shown() string {
	if r.ListedOnly() && r.Evaluation.Plan.Prompts != nil {
		return "prompt"
	}
	return "documents"
}

// lists reports whether the evaluation has listed runs or prompts.
func lists(plan *eval.Evaluation) bool { return plan.Runs != nil || plan.Prompts != nil }

// newListed counts the listed runs and prompts by model, in the order in which models first appear.
func newListed(plan *eval.Evaluation) []Listed {
	var listed []Listed
	if runs := plan.Runs; runs != nil {
		for _, run := range runs.List {
			k := listedBy(&listed, runs.Models[run.Model].Target())
			listed[k].Runs++
		}
	}
	if prompts := plan.Prompts; prompts != nil {
		for _, prompt := range prompts.List {
			k := listedBy(&listed, prompts.Models[prompt.Model].Target())
			listed[k].Runs++
		}
	}
	return listed
}

// listedBy returns the position of a model in the list, and appends the model if it is missing.
func listedBy(listed *[]Listed, model string) int {
	for k := range *listed {
		if (*listed)[k].Model == model {
			return k
		}
	}
	*listed = append(*listed, Listed{Model: model})
	return len(*listed) - 1
}

func (b *builder) addListed(row results.RunRow) {
	l := &b.report.Listed[listedBy(&b.report.Listed, row.Model)]
	l.Used = l.Used.Plus(row.Used)
	b.report.addListedRun(row)
	switch row.State {
	case eval.StateSucceeded.String():
		l.Succeeded++
		if row.Finish == string(providers.FinishTruncated) {
			l.Truncated++
		}
		b.recorded(row.Phase, row.Judge, row.Ended)
	case eval.StateFailed.String():
		l.Failed++
	}
}

// answers returns how many listed runs have an answer, and how many of these answers were cut off.
func (r *Report) answers() (answers, truncated int) {
	for _, l := range r.Listed {
		answers += l.Succeeded
		truncated += l.Truncated
	}
	return answers, truncated
}

// listedAsked returns the counts that describe an evaluation of only listed runs or prompts.
func (r *Report) listedAsked() []string {
	var asked []string
	plan := r.Evaluation.Plan
	if plan.Runs != nil {
		asked = append(asked, wording.Counted(len(plan.Runs.List), "run"))
	}
	if plan.Prompts != nil {
		asked = append(asked, wording.Counted(len(plan.Prompts.List), "prompt"))
	}
	asked = append(asked, wording.Counted(len(r.Listed), "model"))
	if plan.Runs != nil {
		asked = append(asked, wording.Counted(len(plan.Runs.Files), "file"))
	}
	return asked
}

// listedNotes warns of answers that were cut off at the token limit.
func (r *Report) listedNotes() []string {
	_, truncated := r.answers()
	if truncated == 0 {
		return nil
	}
	return []string{fmt.Sprintf(
		"%s cut off at the token limit; raise it with max_completion_tokens in the overrides of a run.",
		wording.Counted(truncated, "answer"),
	)}
}

// listedRow holds the cells of one row of the table of models.
type listedRow struct {
	Model, Runs, Succeeded, Failed, Truncated, Input, Output, Cost string
}

func (r *Report) listedRows() []listedRow {
	var rows []listedRow
	for _, l := range r.Listed {
		rows = append(rows, listedRow{
			Model: l.Model, Runs: wording.Count(l.Runs), Succeeded: wording.Count(l.Succeeded),
			Failed: wording.Count(l.Failed), Truncated: wording.Count(l.Truncated),
			Input: tokens(l.Used.Input, l.Used), Output: tokens(l.Used.Output, l.Used), Cost: cost(l.Used),
		})
	}
	return rows
}

// ListedTitle returns the title of the section about listed runs and prompts.
func (r *Report) ListedTitle() string {
	if r.Evaluation.Plan.Runs == nil {
		return "Prompts"
	}
	return "Listed runs"
}

// listedSections returns a table of the models and one of the single runs.
func (r *Report) listedSections() []section {
	var sections []section
	if len(r.Listed) > 0 {
		sections = append(sections, r.listedSection())
	}
	if len(r.ListedRuns) > 0 {
		sections = append(sections, r.listedRunsSection())
	}
	return sections
}

func (r *Report) listedSection() section {
	t := append(lines.Table{{Head: "model", Flexible: true}}, lines.Heads(
		"runs", "succeeded", "failed", "cut off", "tokens in", "out", "cost",
	)...)
	for _, row := range r.listedRows() {
		t.Add(harmless.Line(row.Model), row.Runs, row.Succeeded, row.Failed, row.Truncated, row.Input, row.Output, row.Cost)
	}
	return section{title: r.ListedTitle(), table: t}
}
