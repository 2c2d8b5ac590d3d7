package report

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Answers says how the documents were made, if they are the answers to another evaluation's prompts.
type Answers struct {
	eval.Answered
	// Known is set if the results store has that evaluation. Its calls are then in Report.Calls, and Spent is part of
	// Report.Spent.
	Known bool
	Spent int64 // nano-USD

	outlays map[string]outlay // by candidate
}

// outlay is what a number of answers or verdicts used.
type outlay struct {
	results.Outlay
	rows int
}

func (o outlay) plus(of results.Outlay, rows int) outlay {
	o.Used, o.Took, o.rows = o.Used.Plus(of.Used), o.Took.Plus(of.Took), o.rows+rows
	return o
}

// readAnswers adds the calls that made the documents.
func (r *Report) readAnswers(ctx context.Context, source Source) error {
	answered := r.Evaluation.Plan.Answered
	if answered == nil {
		return nil
	}
	r.Answers = &Answers{Answered: *answered}
	_, err := source.Evaluation(ctx, answered.Evaluation)
	if errors.Is(err, results.ErrNoEvaluation) {
		return nil
	}
	if err != nil {
		return err
	}
	calls, err := source.CallTotals(ctx, answered.Evaluation)
	if err != nil {
		return err
	}
	if r.Answers.Spent, _, err = source.Spent(ctx, answered.Evaluation); err != nil {
		return err
	}

	made, err := source.OutlaysByName(ctx, answered.Evaluation)
	if err != nil {
		return err
	}

	candidate := map[string]string{} // by document, whose id is the name of the run that gave it
	for _, d := range r.Evaluation.Plan.Documents {
		candidate[d.ID] = d.Candidate
	}
	r.Answers.outlays = map[string]outlay{}
	for _, of := range made {
		if name, ok := candidate[of.Of]; ok {
			r.Answers.outlays[name] = r.Answers.outlays[name].plus(of, 1)
		}
	}

	r.Answers.Known = true
	r.Calls = slices.Concat(calls, r.Calls)
	r.Spent += r.Answers.Spent
	return nil
}

// settings says what each candidate is.
func (a *Answers) settings() []setting {
	var all []setting
	for _, c := range a.Candidates {
		all = append(all, setting{"candidate " + c.Name, "prompt " + c.Prompt + ", answered by " + c.Model})
	}
	return all
}

// shownMissing is how many missing answers a note names.
const shownMissing = 10

// notes says which answers are missing, and what the costs include.
func (a *Answers) notes() []string {
	var notes []string
	if n := len(a.Missing); n > 0 {
		named := make([]string, 0, shownMissing)
		for _, id := range a.Missing[:min(n, shownMissing)] {
			named = append(named, harmless.OneLine(id))
		}
		more := ""
		if n > shownMissing {
			more = ", and " + wording.Count(n-shownMissing) + " more"
		}
		notes = append(notes, fmt.Sprintf("%s missing and not ranked, because the model's calls failed: %s%s.",
			countedAre(n, "answer"), strings.Join(named, ", "), more))
	}
	if a.Known {
		return append(notes, "Calls and costs include those for making the answers.")
	}
	return append(notes, fmt.Sprintf("Calls and costs do not include those for making the answers: the results store "+
		"does not have %s.", a.Evaluation))
}

type answersJSON struct {
	Evaluation eval.ID               `json:"evaluation"`
	Included   bool                  `json:"calls_included"`
	Candidates array[eval.Candidate] `json:"candidates"`
	Missing    array[string]         `json:"missing"`
}

// form returns the JSON form; nil if the documents are not answers to prompts.
func (a *Answers) form() *answersJSON {
	if a == nil {
		return nil
	}
	return &answersJSON{a.Evaluation, a.Known, a.Candidates, a.Missing}
}
