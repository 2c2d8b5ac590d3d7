package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/collect"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/results"
)

// answersDir is the folder, in the output folder of a file with prompts, of the part that makes the answers. Both parts
// share the results store.
const answersDir = "answers"

// runPrompts runs an evaluation file with prompts: it makes the answers that are not recorded yet, and then has judges
// compare them. Repeating it after an interruption in either part resumes there.
func (p *process) runPrompts(c *cli.Context, s *config.Submission) error {
	dir := evaluationDir(c, s)
	makes, err := p.newJob(c, s, filepath.Join(dir, answersDir))
	if err != nil {
		return err
	}
	if err := p.confirmCost(c, s, makes.how.slots); err != nil {
		return err
	}

	both := bothParts{dir: dir, store: makes.StoreURL, failOn: makes.failOn, retry: makes.Retry != nil}
	return both.do(c.Context, s,
		func(_, store string) error {
			makes.StoreURL, makes.Earlier = store, p.own.Earlier(dir, s.Providers)
			makes.Resume, makes.part, makes.Judged = makes.Again, true, true // resuming its folder would not judge the answers
			return makes.run(c.Context)
		},
		func(judged *config.Submission) error {
			judges, err := p.newJob(c, judged, dir)
			if err != nil {
				return err
			}
			if err := p.runCommands(c.Context, judged, judges.stored); err != nil {
				return err
			}
			return judges.run(c.Context)
		})
}

// bothParts are the settings of a command that executes both parts of an evaluation file with prompts.
type bothParts struct {
	dir    string // output folder
	store  string // URL of the results store; empty: results.db in the folder
	failOn failOn
	retry  bool // failed answers are asked for again
}

// do makes the answers that are not recorded yet, with their files in a folder and their results in a store. Then it
// judges all answers. If either part was interrupted, it resumes there. It returns an error if answers failed, or if
// judging did.
func (b bothParts) do(
	ctx context.Context, s *config.Submission, makeAnswers func(dir, store string) error, judge func(*config.Submission) error,
) error {
	store, dir := b.store, filepath.Join(b.dir, answersDir)
	if store == "" {
		var err error
		if store, err = filepath.Abs(filepath.Join(b.dir, outdir.ResultsFile)); err != nil {
			return err
		}
	}
	made, err := recorded(ctx, store, s)
	if err != nil {
		return err
	}
	if !made.ended || b.retry && made.failed > 0 {
		if err := makeAnswers(dir, store); err != nil && (codeOf(err) != exitRunsFailed || collect.IsEnding(err)) {
			return err
		}
		if made, err = recorded(ctx, store, s); err != nil {
			return err
		}
	}

	failed := failedRuns(made.phases, b.failOn)
	judged, err := s.Judging.Of(made.answers)
	if err != nil {
		return cmp.Or(failed, err)
	}
	if err := made.leave(judged, dir, s.Evaluation.ID()); err != nil {
		return err
	}
	return cmp.Or(judge(judged), failed)
}

// judgedAlready reports whether judges have compared the answers to prompts in an evaluation that has ended.
func judgedAlready(ctx context.Context, reader results.Reader, answers eval.ID) (bool, error) {
	listed, err := reader.Evaluations(ctx)
	if err != nil {
		return false, outdir.StoreError(err)
	}
	for _, one := range listed {
		stored, err := reader.Evaluation(ctx, one.ID)
		if err != nil {
			return false, outdir.StoreError(err)
		}
		if by := stored.Plan.Answered; by != nil && by.Evaluation == answers && !stored.Finished.IsZero() {
			return true, nil
		}
	}
	return false, nil
}

// made is what a results store has of the answers to prompts.
type made struct {
	ended   bool // every run has ended, or the evaluation was ended
	failed  int
	phases  []results.PhaseCounts
	answers map[string]string // by the name of the run
	spent   map[eval.ID]int64 // nano-USD, by evaluation; see spentOn. nil without a budget
}

// recorded reads the answers that the results store at a URL has. It has none if the store does not exist.
func recorded(ctx context.Context, url string, s *config.Submission) (m made, err error) {
	if path, isFile := results.File(url); isFile {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return m, nil
		}
	}
	reader, err := results.OpenReadOnly(ctx, url)
	if err != nil {
		return m, outdir.StoreError(err)
	}
	defer reader.Close()
	id := s.Evaluation.ID()
	stored, err := reader.Evaluation(ctx, id)
	if errors.Is(err, results.ErrNoEvaluation) {
		return m, nil
	}
	if err != nil {
		return m, outdir.StoreError(err)
	}

	m = made{ended: !stored.Finished.IsZero(), answers: map[string]string{}}
	if m.phases, err = reader.Counts(ctx, id); err != nil {
		return m, outdir.StoreError(err)
	}
	for _, phase := range m.phases {
		m.failed += phase.Failed
	}
	for row, err := range reader.Responses(ctx, id) {
		if err != nil {
			return m, outdir.StoreError(err)
		}
		if row.State == eval.StateSucceeded.String() {
			m.answers[row.Name] = row.Answer
		}
	}
	if s.Settings.Budget() > 0 {
		m.spent, err = spentOn(ctx, reader, s)
	}
	return m, err
}

// spentOn returns the cost of making answers and of every evaluation that has judged them. There are several of those if
// failed answers were retried in between.
func spentOn(ctx context.Context, reader results.Reader, s *config.Submission) (map[eval.ID]int64, error) {
	answers := s.Evaluation.ID()
	listed, err := reader.Evaluations(ctx)
	if err != nil {
		return nil, outdir.StoreError(err)
	}
	spent := map[eval.ID]int64{}
	for _, one := range listed {
		stored, err := reader.Evaluation(ctx, one.ID)
		if err != nil {
			return nil, outdir.StoreError(err)
		}
		if by := stored.Plan.Answered; one.ID != answers && (by == nil || by.Evaluation != answers) {
			continue
		}
		if spent[one.ID], err = collect.Spent(ctx, one.ID, s.Settings, reader); err != nil {
			return nil, err
		}
	}
	return spent, nil
}

// leave lowers the budget of the evaluation that judges the answers by what making them has cost, and what judging others
// of them has. That includes calls that were in flight when a run was killed, which the answers' folder has noted.
func (m made) leave(judged *config.Submission, dir string, id eval.ID) error {
	budget := judged.Settings.Budget()
	if budget == 0 {
		return nil
	}
	spent := m.spent[id]
	path := filepath.Join(dir, outdir.SpentFile)
	if _, err := os.Stat(path); err == nil {
		noted, err := outdir.OpenSpent(path, id, spent)
		if err != nil {
			return failure.With(failure.Unavailable, err)
		}
		spent = noted.Nano()
		if err := noted.Close(); err != nil {
			return failure.With(failure.Unavailable, err)
		}
	}

	for other, nano := range m.spent {
		if other != id && other != judged.Evaluation.ID() {
			spent += nano
		}
	}
	judged.Settings.SetBudget(max(1, budget-spent)) // 0 would be no budget
	return nil
}
