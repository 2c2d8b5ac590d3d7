package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/evalfleet/evalfleet/config"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/fleet"
	"github.com/evalfleet/evalfleet/store"
	"github.com/evalfleet/evalfleet/web"
)

const maxUploadFlag = "max-upload-mib"

// receive returns the function that stores evaluations sent to the pages. Their authors
// are trusted like those of evaluation files: they name providers of fleet, and neither
// keys, addresses nor files of this machine.
func receive(d *fleet.Connection, known *config.Fleet) web.Submit {
	return func(ctx context.Context, sent web.Submission) (web.Receipt, error) {
		options := config.Options{
			Fleet: known, ForFleet: true, Again: sent.Again, Limit: sent.Limit, MaxConcurrency: sent.MaxConcurrency,
			JSON: eval.JSONMode(sent.JSON), Provider: sent.Provider, Model: sent.Model, Batch: sent.Batch,
		}
		in := config.InputAt(filepath.Join(sent.Folder, filepath.FromSlash(sent.File)))
		if in.Kind == config.ExperimentFile {
			return web.Receipt{}, invalid(sent.Folder, usageError("%s is an experiment, which cannot be sent to a server: use --%s", sent.File, redisFlag))
		}
		s, err := in.Load(sent.Judges, options)
		if err == nil && len(plan.Phases(s.Evaluation)) == 0 {
			err = usageError("no judges, so there is nothing to enqueue; `evalfleet run` ranks votes alone")
		}
		if err != nil {
			return web.Receipt{}, invalid(sent.Folder, err)
		}
		each := *d
		each.SinkURL = s.Sink
		if sent.RetryFailed {
			each.Retry = fleet.EveryFailed
		}
		receipt, err := each.Submit(ctx, s, false)
		switch {
		case errors.Is(err, store.ErrCancelled):
			return web.Receipt{}, fmt.Errorf("%w: %w; `evalfleet delete %s` lets it be submitted again", web.ErrConflict, err, s.Evaluation.ID())
		case codeOf(err) == exitUsage:
			return web.Receipt{}, invalid(sent.Folder, err)
		case err != nil:
			return web.Receipt{}, err
		}
		answer := web.Receipt{
			ID: receipt.ID, Name: s.Evaluation.Name, Created: receipt.Created, Kept: receipt.Kept, Runs: receipt.Runs,
			Queues: receipt.Queues, Warnings: []string{},
		}
		for _, w := range s.Warnings {
			answer.Warnings = append(answer.Warnings, within(sent.Folder, w.String()))
		}
		if warning := each.Unserved(ctx, s); warning != "" {
			answer.Warnings = append(answer.Warnings, warning)
		}
		return answer, nil
	}
}

// invalid returns the problems of the files in a folder, by their paths within it.
func invalid(folder string, err error) error {
	answer := &web.InvalidError{Text: within(folder, err.Error())}
	var problems config.Problems
	if errors.As(err, &problems) {
		for _, p := range problems {
			answer.Problems = append(answer.Problems, web.Problem{
				File: within(folder, p.File), Line: p.Line, Column: p.Column, Path: p.Path,
				Message: within(folder, p.Message), Fix: within(folder, p.Fix),
			})
		}
	}
	return answer
}

// within removes a folder from the paths in a text.
func within(folder, text string) string {
	return strings.ReplaceAll(text, folder+string(os.PathSeparator), "")
}

// uploads has the pages accept evaluations of up to so many MiB.
func (p *pages) uploads(d *fleet.Connection, known *config.Fleet, mib int) {
	if p.allowed {
		p.config.Submit, p.config.MaxUpload = receive(d, known), int64(mib)<<20
	}
}
