package web

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/view"
)

// overview lists the evaluations in the folder.
func (f *Folder) overview(ctx context.Context, looks *view.Looks) (*Overview, error) {
	reader, err := f.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	list, err := looks.InFolder(ctx, reader, "", f.Status, time.Now())
	if err != nil {
		return nil, err
	}
	o := &Overview{Evaluations: []Evaluation{}}
	for _, e := range list {
		o.Evaluations = append(o.Evaluations, shown(e))
	}
	newestFirst(o.Evaluations)
	return o, nil
}

func (f *Folder) evaluation(ctx context.Context, looks *view.Looks, id eval.ID) (*Detail, error) {
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
