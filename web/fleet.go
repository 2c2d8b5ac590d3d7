package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hibiken/asynq"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/record"
	"github.com/evalfleet/evalfleet/store"
	"github.com/evalfleet/evalfleet/view"
)

// fleet reads from the fleet's Redis.
type fleet struct {
	view.Fleet
	looks  *view.Looks
	queues *asynq.Inspector
}

func newFleet(of view.Fleet, looks *view.Looks) *fleet {
	return &fleet{Fleet: of, looks: looks, queues: asynq.NewInspectorFromRedisClient(of.Store.Client())}
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
	list, err := f.looks.InRedis(ctx, f.Fleet, ids, time.Now())
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
	e, limits, err := f.looks.One(ctx, f.Fleet, id, now)
	if errors.Is(err, store.ErrNoEvaluation) {
		return nil, fmt.Errorf("%w: Redis has no evaluation of this id", errNotFound)
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
		d.Queues = append(d.Queues, Queue{Queue: q, Held: q.Retry + q.Scheduled})
		failures, err := f.failures(id, q.Name, q.Archived)
		if err != nil {
			return nil, err
		}
		d.Failures = append(d.Failures, failures...)
	}
	d.Failures = lastFailures(d.Failures)
	return d, nil
}

// failures returns the last of an evaluation's runs in a queue's archive. In a queue that
// other evaluations share, it looks at the last failuresPage tasks.
func (f *fleet) failures(id eval.ID, queue string, archived int) ([]Failure, error) {
	if archived == 0 {
		return nil, nil
	}
	var list []Failure
	last := (archived + failuresPage - 1) / failuresPage // the oldest come first
	for page := max(last-1, 1); page <= last; page++ {
		tasks, err := f.queues.ListArchivedTasks(queue, asynq.PageSize(failuresPage), asynq.Page(page))
		if err != nil {
			return nil, fmt.Errorf("read the archive of queue %s: %w", queue, err)
		}
		for _, info := range tasks {
			task, err := record.DecodeTask(info.Payload)
			if err != nil || task.Evaluation != id {
				continue
			}
			list = append(list, Failure{
				Run: task.RunID().Short(), Model: task.Model, Documents: task.Documents,
				Error: info.LastErr, At: info.LastFailedAt.UTC(), Queue: queue, Task: info.ID,
			})
		}
	}
	return list, nil
}

// failuresPage is how much of an archive is read at once.
const failuresPage = 50
