package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/view"
)

// fleet reads from the fleet's Redis.
type fleet struct {
	view.Redis
	looks *view.Looks
}

func newFleet(of view.Redis, looks *view.Looks) *fleet {
	return &fleet{of, looks}
}

func (f *fleet) overview(ctx context.Context) (*Overview, error) {
	ids, err := f.Store.Evaluations(ctx)
	if err != nil {
		return nil, err
	}
	o := &Overview{Evaluations: []Evaluation{}, Live: true}
	if o.Workers, err = f.WorkersAlive(ctx); err != nil || len(ids) == 0 {
		return o, err
	}
	list, err := f.looks.InRedis(ctx, f.Redis, ids, time.Now())
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		o.Evaluations = append(o.Evaluations, shown(e))
	}
	newestFirst(o.Evaluations)
	return o, nil
}

func newestFirst(list []Evaluation) {
	slices.SortFunc(list, func(a, b Evaluation) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.ID, b.ID))
	})
}

func (f *fleet) evaluation(ctx context.Context, id eval.ID) (*Detail, error) {
	now := time.Now()
	e, limits, err := f.looks.One(ctx, f.Redis, id, now)
	if errors.Is(err, store.ErrNoEvaluation) {
		return nil, fmt.Errorf("%w: Redis has no evaluation with this id", errNotFound)
	}
	if err != nil {
		return nil, err
	}

	d := &Detail{Evaluation: shown(e), Live: true, Workers: *e.Workers, Queues: []Queue{}, Failures: []Failure{}}
	d.Limits, d.Cooldowns = shownLimits(limits, now)
	for _, q := range e.Queues {
		if !q.Known {
			continue
		}
		d.Queues = append(d.Queues, queueOf(q))
		failures, err := f.failures(ctx, id, q)
		if err != nil {
			return nil, err
		}
		d.Failures = append(d.Failures, failures...)
	}

	d.Failures = lastFailures(d.Failures)
	return d, nil
}

// failurePages is how much of a queue's archive is searched for an evaluation's failures:
// other evaluations may share it.
const failurePages = 2

// failures returns the last of an evaluation's runs in a queue's archive.
func (f *fleet) failures(ctx context.Context, id eval.ID, of view.Queue) ([]Failure, error) {
	var list []Failure
	for page := 1; page <= failurePages && view.TasksShown*(page-1) < of.Archived; page++ {
		archived, err := f.Tasks(ctx, of.Name, "archived", page)
		if errors.Is(err, view.ErrNoQueue) || err == nil && archived.Page < page {
			return list, nil // removed a moment ago
		}
		if err != nil {
			return nil, err
		}
		for _, t := range archived.Tasks {
			if t.Evaluation != id || t.Ended == nil {
				continue
			}
			list = append(
				list,
				Failure{Run: t.Run, Model: t.Model, Documents: t.Documents, Known: t.Known, Error: t.Error, At: *t.Ended, Queue: of.Name, Task: t.ID},
			)
		}
	}
	return list, nil
}
