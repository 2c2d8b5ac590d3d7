package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/collect"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/fleet"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/report"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/reuse"
)

// Folders, in the output folder of an evaluation file, of the parts that come before the last one. All parts share the
// results store.
const (
	anchorsDir = "anchors" // judges are asked about anchors
	answersDir = "answers" // models answer prompts
)

// inParts reports whether the evaluation file of a submission has several parts: its anchors, its answers, and the judging
// of those.
func inParts(s *config.Submission) bool { return s.Anchors != nil || s.Judging != nil }

// runParts runs an evaluation file with several parts, one after another. Repeating it after an interruption resumes in the
// part that was interrupted.
func (p *process) runParts(c *cli.Context, s *config.Submission) error {
	dir := evaluationDir(c, s)
	first, err := p.newJob(c, s, dir)
	if err != nil {
		return err
	}
	if err := p.confirmCost(c, s, first.how.slots); err != nil {
		return err
	}

	all := parts{process: p, c: c, dir: dir, store: first.StoreURL, failOn: first.failOn, retry: first.Retry != nil}
	return all.do(c.Context, s, func(s *config.Submission, at part) error {
		j, err := p.newJob(c, s, at.dir)
		if err != nil {
			return err
		}
		j.StoreURL = at.store
		if at.last {
			if err := p.runCommands(c.Context, s, j.stored); err != nil {
				return err
			}
			return j.run(c.Context)
		}
		j.Earlier = p.own.Earlier(dir, s.Providers)
		j.Resume, j.part = p.again(c), true // resuming its folder would not start the next part
		j.Judged = s.Judging != nil
		return j.run(c.Context)
	})
}

// parts are the settings of a command that executes the parts of an evaluation file.
type parts struct {
	*process
	c      *cli.Context
	dir    string // output folder
	store  string // URL of the results store; empty: results.db in the folder
	failOn failOn
	retry  bool // failed runs are retried
}

// part says where a part writes.
type part struct {
	dir   string
	store string // URL of the results store; empty: results.db in the folder
	last  bool   // its result is that of the file, and is printed
}

// do asks about anchors and makes answers, as far as that is not recorded yet, and then executes the last part. If any part
// was interrupted, it resumes there. It returns an error if runs of any part failed.
func (b parts) do(ctx context.Context, s *config.Submission, execute func(*config.Submission, part) error) error {
	store, budget := b.store, s.Settings.Budget()
	if store == "" {
		var err error
		if store, err = filepath.Abs(filepath.Join(b.dir, outdir.ResultsFile)); err != nil {
			return err
		}
	}

	before := func(one *config.Submission, dir string) (made, error) {
		done, err := recorded(ctx, store, one.Evaluation)
		if err != nil || done.ended && (!b.retry || done.failed == 0) {
			return done, err
		}
		if err := b.leave(ctx, s, one, budget, store); err != nil {
			return done, err
		}
		err = execute(one, part{dir: filepath.Join(b.dir, dir), store: store})
		if err != nil && (codeOf(err) != exitRunsFailed || collect.IsEnding(err)) {
			return done, err
		}
		return recorded(ctx, store, one.Evaluation)
	}

	var failed error
	last := s
	if s.Anchors != nil {
		if err := b.remember(ctx, s, store); err != nil {
			return err
		}
		asked, err := before(s.Anchors, anchorsDir)
		if err != nil {
			return err
		}
		failed = failedRuns(asked.phases, b.failOn)
		if err := b.warnOfJudges(ctx, s.Anchors.Evaluation.ID(), store); err != nil {
			return err
		}
	}
	if s.Judging != nil {
		answered, err := before(s, answersDir)
		if err != nil {
			return err
		}
		failed = cmp.Or(failed, failedRuns(answered.phases, b.failOn))
		if last, err = s.Judging.Of(answered.answers); err != nil {
			return cmp.Or(failed, err)
		}
	}

	if err := b.leave(ctx, s, last, budget, store); err != nil {
		return err
	}
	return cmp.Or(execute(last, part{dir: b.dir, store: b.store, last: true}), failed)
}

// remember adds to the anchors of an evaluation what the same judges said about them before: in the results store, and in
// those of the output folders beside this one.
func (b parts) remember(ctx context.Context, s *config.Submission, store string) error {
	own, err := fleet.OpenStore(ctx, store)
	if err != nil {
		return err
	}
	_, log, err := b.output(b.c)
	if err != nil {
		return err
	}
	readers, closeAll := reuse.Open(ctx, b.own.Earlier(b.dir, s.Providers), log)
	defer closeAll()
	if own != nil {
		defer own.Close()
		readers = append(readers, own)
	}
	s.Anchors.Evaluation.Anchors.History, err = reuse.History(ctx, s.Anchors.Evaluation, readers...)
	return outdir.StoreError(err)
}

// warnOfJudges says which judges have changed, before money is spent on their verdicts.
func (b parts) warnOfJudges(ctx context.Context, anchors eval.ID, store string) error {
	reader, err := fleet.OpenStore(ctx, store)
	if err != nil || reader == nil {
		return err
	}
	defer reader.Close()
	r, err := report.Build(ctx, reader, anchors, report.Options{})
	if err != nil {
		return outdir.StoreError(err)
	}
	for _, warning := range r.OverTime.Warnings() {
		fmt.Fprintln(b.stderr, b.folded("evalfleet: warning: "+warning))
	}
	return nil
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

// made is what a results store has of one part.
type made struct {
	ended   bool // every run has ended, or the evaluation was ended
	failed  int
	phases  []results.PhaseCounts
	answers map[string]string // to prompts, by the name of the run
}

// recorded reads what the results store at a URL has of a part. It has nothing if the store does not exist.
func recorded(ctx context.Context, url string, e *eval.Evaluation) (m made, err error) {
	reader, err := fleet.OpenStore(ctx, url)
	if err != nil || reader == nil {
		return m, err
	}
	defer reader.Close()
	id := e.ID()
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
	return m, nil
}

// spentOn returns the cost of all parts of an evaluation file, also of every evaluation that has judged its answers. There
// are several of those if failed answers were retried in between.
func spentOn(ctx context.Context, reader results.Reader, s *config.Submission) (map[eval.ID]int64, error) {
	first := s.Evaluation.ID()
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
		by, asks := stored.Plan.Answered, stored.Plan.Anchors
		if one.ID != first && (by == nil || by.Evaluation != first) && (asks == nil || asks.Of != first) {
			continue
		}
		if spent[one.ID], err = collect.Spent(ctx, one.ID, s.Settings, reader); err != nil {
			return nil, err
		}
	}
	return spent, nil
}

// leave lowers the budget of one part of an evaluation file by what the other parts have cost. That includes calls that were
// in flight when a run was killed, which their folders have noted.
func (b parts) leave(ctx context.Context, s, one *config.Submission, budget int64, store string) error {
	if budget == 0 {
		return nil
	}
	spent := map[eval.ID]int64{}
	reader, err := fleet.OpenStore(ctx, store)
	if err != nil {
		return err
	}
	if reader != nil {
		defer reader.Close()
		if spent, err = spentOn(ctx, reader, s); err != nil {
			return err
		}
	}

	notes := map[string]eval.ID{answersDir: s.Evaluation.ID()}
	if s.Anchors != nil {
		notes[anchorsDir] = s.Anchors.Evaluation.ID()
	}
	for dir, id := range notes {
		path := filepath.Join(b.dir, dir, outdir.SpentFile)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		noted, err := outdir.OpenSpent(path, id, spent[id])
		if err != nil {
			return failure.With(failure.Unavailable, err)
		}
		spent[id] = noted.Nano()
		if err := noted.Close(); err != nil {
			return failure.With(failure.Unavailable, err)
		}
	}

	for id, nano := range spent {
		if id != one.Evaluation.ID() {
			budget -= nano
		}
	}
	one.Settings.SetBudget(max(1, budget)) // 0 would be no budget
	return nil
}
