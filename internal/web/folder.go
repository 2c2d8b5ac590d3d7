package web

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/view"
)

// parts returns the output folders that the folder stands for.
func (f *Folder) parts() []Folder {
	if f.Inside == nil {
		return []Folder{*f}
	}
	return f.Inside()
}

// list reads the evaluations in an output folder: only, or all if only is empty.
func (f *Folder) list(ctx context.Context, looks *view.Looks, only eval.ID) ([]view.Evaluation, error) {
	reader, err := f.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	return looks.InFolder(ctx, reader, only, f.Status, time.Now())
}

// overview lists the evaluations in the folder, each once. Of several folders, it leaves out those that cannot be read.
func (f *Folder) overview(ctx context.Context, looks *view.Looks) (*Overview, error) {
	o := &Overview{Evaluations: []Evaluation{}}
	known := map[eval.ID]bool{}
	for _, part := range f.parts() {
		list, err := part.list(ctx, looks, "")
		if err != nil && f.Inside == nil {
			return nil, err
		}
		for _, e := range list {
			if !known[e.ID] {
				o.Evaluations = append(o.Evaluations, shown(e))
			}
			known[e.ID] = true
		}
	}
	newestFirst(o.Evaluations)
	return o, nil
}

func (f *Folder) evaluation(ctx context.Context, looks *view.Looks, id eval.ID) (*Detail, error) {
	for _, part := range f.parts() {
		d, err := part.detail(ctx, looks, id)
		if err == nil || f.Inside == nil {
			return d, err
		}
	}
	return nil, fmt.Errorf("%w: no folder has an evaluation with this id", errNotFound)
}

// detail reads one evaluation in an output folder.
func (f *Folder) detail(ctx context.Context, looks *view.Looks, id eval.ID) (*Detail, error) {
	reader, err := f.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	list, err := looks.InFolder(ctx, reader, id, f.Status, time.Now())
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: the folder has no evaluation with this id", errNotFound)
	}

	d := &Detail{Evaluation: shown(list[0]), Queues: []Queue{}, Limits: []Limit{}, Cooldowns: []Cooldown{}, Failures: []Failure{}}
	for run, err := range reader.Runs(ctx, id, eval.StateFailed) {
		if err != nil {
			return nil, err
		}
		d.Failures = append(d.Failures, Failure{
			Run: run.RunID(id).Short(), Model: run.Model, Documents: run.Documents, Known: run.Known(),
			Error: fmt.Sprintf("%s: %s", run.Class, run.Error), At: run.Ended, Queue: run.Queue,
		})
		if len(d.Failures) >= 2*failuresShown {
			d.Failures = lastFailures(d.Failures)
		}
	}

	d.Failures = lastFailures(d.Failures)
	return d, nil
}

// lastFailures returns the last failuresShown, newest first.
func lastFailures(list []Failure) []Failure {
	slices.SortStableFunc(list, func(a, b Failure) int { return b.At.Compare(a.At) })
	return list[:min(len(list), failuresShown)]
}
