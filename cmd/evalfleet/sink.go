package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/results"
)

// sinkIn is where the results are of what was begun in an output folder: results.db
// there, or what `run` was told with --sink. Then others may be there, too, and only
// is the one of this folder. found is false when neither is known.
func sinkIn(dir string) (url string, only eval.ID, found bool) {
	path := filepath.Join(dir, sinkFile)
	if _, err := os.Stat(path); err == nil {
		return path, "", true
	}
	saved, err := readResumption(dir)
	return saved.Sink, saved.Evaluation, err == nil && saved.Sink != ""
}

// readFolder opens the results of an output folder and finds its evaluation.
func readFolder(ctx context.Context, dir string) (results.Reader, eval.ID, error) {
	url, only, found := sinkIn(dir)
	if !found {
		return nil, "", usageError("%s holds no results: no %s is in it; name the output folder of an evaluation", dir, sinkFile)
	}
	reader, err := results.OpenReadOnly(ctx, url)
	if err != nil {
		return nil, "", sinkError(err)
	}
	listed, err := reader.Evaluations(ctx)
	if err == nil && len(listed) == 0 {
		err = usageError("%s holds no evaluation yet", url)
	}
	if err != nil {
		_ = reader.Close()
		return nil, "", err
	}
	return reader, cmp.Or(only, listed[len(listed)-1].ID), nil
}

// inFolder keeps of what a folder's sink lists what belongs to the folder.
func inFolder(dir string, listed []results.Listed) []results.Listed {
	_, only, _ := sinkIn(dir)
	return slices.DeleteFunc(listed, func(l results.Listed) bool { return only != "" && l.ID != only })
}

// publicSink is a sink's URL as it may be shown.
func publicSink(url string) string {
	public, err := results.Public(url)
	if err != nil {
		return "(a URL with a password)"
	}
	return public
}

// sinkError tells a results store that another command line mends from one that
// cannot be used now.
func sinkError(err error) error {
	if errors.Is(err, results.ErrUnfit) || errors.Is(err, results.ErrOtherSink) {
		return withCode(exitUsage, err)
	}
	return withCode(exitUnreachable, err)
}

// openSink opens an evaluation's results store and makes sure that the
// evaluation is in it.
func openSink(ctx context.Context, url string, out *folder, r record.Evaluation, e *eval.Evaluation, texts map[string]string) (results.Sink, error) {
	if url == "" {
		url = out.path(sinkFile)
	}
	sink, err := results.Open(ctx, url)
	if err != nil {
		out.undo()
		return nil, sinkError(err)
	}
	if r, err = withChoicesOf(ctx, sink, e, r); err != nil {
		_ = sink.Close()
		return nil, sinkError(err)
	}
	asked := results.Evaluation{ID: r.ID, Plan: e, Settings: r.Settings, Phases: r.Phases, Created: time.Now()}
	if r.Status == record.StatusCancelled {
		asked.Cancelled = time.Now()
	}
	err = sink.PutEvaluation(ctx, asked, maps.All(texts))
	if err != nil {
		_ = sink.Close()
		return nil, sinkError(err)
	}
	return sink, nil
}

// recordedIn yields the runs that a sink has the outcome of.
func recordedIn(ctx context.Context, sink results.Reader, r record.Evaluation) func(yield func(enqueue.Recorded, error) bool) {
	return func(yield func(enqueue.Recorded, error) bool) {
		for phase := range r.Phases {
			for run, err := range sink.States(ctx, r.ID, phase) {
				if !yield(enqueue.Recorded{Phase: phase, Index: run.Index, State: run.State, Generation: run.Generation}, err) {
					return
				}
			}
		}
	}
}
