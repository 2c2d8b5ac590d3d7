package web

import (
	"context"
	"fmt"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/results"
)

// overview is the list of what the folder holds.
func (f *Folder) overview(ctx context.Context) (*Overview, error) {
	reader, err := f.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	listed, err := reader.Evaluations(ctx)
	if err != nil {
		return nil, err
	}
	o := &Overview{Evaluations: []Evaluation{}}
	for _, of := range listed {
		e, err := f.read(ctx, reader, of)
		if err != nil {
			return nil, err
		}
		o.Evaluations = append(o.Evaluations, e)
	}
	newestFirst(o.Evaluations)
	return o, nil
}

func (f *Folder) read(ctx context.Context, reader results.Reader, of results.Listed) (Evaluation, error) {
	counts, err := reader.Counts(ctx, of.ID)
	if err != nil {
		return Evaluation{}, err
	}
	e := Evaluation{ID: of.ID, Name: of.Name, Status: f.Status(of), Created: of.Created}
	for _, phase := range counts {
		e.Phases = append(e.Phases, Phase{
			Kind: phase.Kind, Runs: phase.Runs, Succeeded: phase.Succeeded, Failed: phase.Failed, Cancelled: phase.Cancelled,
		})
	}
	e.sum()
	return e, nil
}

func (f *Folder) evaluation(ctx context.Context, id eval.ID) (*Detail, error) {
	reader, err := f.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	listed, err := reader.Evaluations(ctx)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(listed, func(of results.Listed) bool { return of.ID == id })
	if at < 0 {
		return nil, fmt.Errorf("%w: the folder has no evaluation of this id", errNotFound)
	}
	d := &Detail{Queues: []Queue{}, Limits: []Limit{}, Cooldowns: []Cooldown{}, Failures: []Failure{}}
	if d.Evaluation, err = f.read(ctx, reader, listed[at]); err != nil {
		return nil, err
	}
	for run, err := range reader.Runs(ctx, id, eval.StateFailed) {
		if err != nil {
			return nil, err
		}
		d.Failures = append(d.Failures, Failure{
			Run: run.RunID(id).Short(), Model: run.Model, Documents: run.Documents,
			Error: fmt.Sprintf("%s: %s", run.Class, run.Error), At: run.Ended, Queue: run.Queue,
		})
		if len(d.Failures) >= 2*failuresShown {
			d.Failures = lastFailures(d.Failures)
		}
	}
	d.Failures = lastFailures(d.Failures)
	return d, nil
}

// lastFailures keeps the last failuresShown, newest first.
func lastFailures(list []Failure) []Failure {
	slices.SortStableFunc(list, func(a, b Failure) int { return b.At.Compare(a.At) })
	return list[:min(len(list), failuresShown)]
}
