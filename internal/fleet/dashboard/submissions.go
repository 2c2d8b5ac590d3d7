package dashboard

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/fleet"
	"github.com/evalfleet/evalfleet/internal/web"
	"github.com/evalfleet/evalfleet/internal/web/upload"
)

// Accept makes the pages store evaluations that are sent to them, of up to that many bytes. It has
// no effect if the pages must not change evaluations. Authors of such evaluations are trusted like
// those of evaluation files: they can name known providers, but no keys, addresses or files of this
// machine.
func (d *Dashboard) Accept(f *fleet.Connection, known *config.Fleet, bytes int64) {
	if !d.Changes {
		return
	}
	switch removed, err := upload.Sweep(); {
	case err != nil:
		d.Log.Warn().Err(err).Msg("cannot remove uploads that an earlier process left in the temporary folder")
	case removed > 0:
		d.Log.Info().Int("uploads", removed).Msg("removed uploads that an earlier process left in the temporary folder")
	}
	d.MaxUpload = bytes
	d.Submit = func(ctx context.Context, sent web.Received) (web.Receipt, error) {
		s, err := load(sent, known)
		if err != nil {
			return web.Receipt{}, invalid(err)
		}
		return submit(ctx, f, sent, s)
	}
}

// load makes the evaluation that was sent.
func load(sent web.Received, known *config.Fleet) (*config.Submission, error) {
	at := func(name string) string { return filepath.Join(sent.Folder, filepath.FromSlash(name)) }
	in := config.InputAt(at(sent.File))
	if len(sent.More) > 0 {
		in.Kind, in.Folder = config.AnswersFile, false
		for _, name := range sent.More {
			in.More = append(in.More, at(name))
		}
	}
	if in.Kind == config.ExperimentFile {
		return nil, failure.Usagef("%s is an experiment, which cannot be sent to a server; submit it to the fleet's Redis", sent.File)
	}
	s, err := in.Load(sent.Judges, config.Options{
		Fleet: known, ForFleet: true, Again: sent.Again, Limit: sent.Limit, MaxConcurrency: sent.MaxConcurrency,
		JSON: eval.JSONMode(sent.JSON), Provider: sent.Provider, Model: sent.Model, Batch: sent.Batch,
	})
	if err == nil && len(plan.Phases(s.Evaluation)) == 0 {
		err = failure.Usagef("no judges, so there is nothing to enqueue; `evalfleet run` ranks votes alone")
	}
	return s, err
}

// submit stores an evaluation in Redis.
func submit(ctx context.Context, f *fleet.Connection, sent web.Received, s *config.Submission) (web.Receipt, error) {
	each := *f
	each.ResultsURL = s.Sink
	var o fleet.Options
	if sent.RetryFailed {
		o.Retry = fleet.EveryFailed
	}
	receipt, err := each.Submit(ctx, s, o)
	switch {
	case errors.Is(err, store.ErrCancelled):
		return web.Receipt{}, fmt.Errorf("%w: %w; `evalfleet delete %s` lets it be submitted again", web.ErrConflict, err, s.Evaluation.ID())
	case failure.KindOf(err) == failure.Usage:
		return web.Receipt{}, invalid(err)
	case err != nil:
		return web.Receipt{}, err
	}

	done := false
	if !receipt.Created {
		known, err := each.Store.Evaluation(ctx, receipt.ID)
		if err != nil {
			return web.Receipt{}, fleet.WithKind(err)
		}
		done = known.Status == record.StatusDone
	}
	answer := web.Receipt{
		ID: receipt.ID, Name: s.Evaluation.Name, Created: receipt.Created, Done: done, Kept: receipt.Kept, Runs: receipt.Runs,
		Queues: receipt.Queues, Warnings: []string{},
	}
	for _, w := range s.Warnings {
		answer.Warnings = append(answer.Warnings, w.String())
	}
	if warning := each.Unserved(ctx, s); warning != "" {
		answer.Warnings = append(answer.Warnings, warning)
	}
	return answer, nil
}

// invalid returns the problems of an evaluation's files.
func invalid(err error) error {
	answer := &web.InvalidError{Text: err.Error()}
	var problems config.Problems
	if errors.As(err, &problems) {
		for _, p := range problems {
			answer.Problems = append(
				answer.Problems,
				web.Problem{File: p.File, Line: p.Line, Column: p.Column, Path: p.Path, Message: p.Message, Fix: p.Fix},
			)
		}
	}
	return answer
}
