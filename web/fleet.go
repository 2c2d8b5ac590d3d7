package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/gate"
	"github.com/evalfleet/evalfleet/internal/quarantine"
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/internal/store"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// fleet reads from the fleet's Redis.
type fleet struct {
	store  *store.Store
	limits *ratelimit.Limiter
	queues *asynq.Inspector
	paces  paces

	mu     sync.Mutex               // guards judges
	judges map[eval.ID][]eval.Judge // whom an evaluation's calls go to, its fallbacks among them
}

func newFleet(s *store.Store, limits *ratelimit.Limiter) *fleet {
	return &fleet{
		store: s, limits: limits, queues: asynq.NewInspectorFromRedisClient(s.Client()),
		paces: paces{of: map[eval.ID][]mark{}}, judges: map[eval.ID][]eval.Judge{},
	}
}

func (f *fleet) overview(ctx context.Context) (*Overview, error) {
	ids, err := f.store.Evaluations(ctx)
	if err != nil {
		return nil, err
	}
	o := &Overview{Evaluations: []Evaluation{}, Live: true}
	if o.Workers, err = f.workersAlive(ctx); err != nil || len(ids) == 0 {
		return o, err
	}
	standings, err := f.store.Standings(ctx, ids)
	if err != nil {
		return nil, err
	}
	limits, err := f.readLimits(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		e, r, err := f.read(ctx, id, standings[id])
		if err == nil && e.Status == record.StatusActive {
			var kept func(ratelimit.Scope) bool
			if kept, err = f.keptBy(ctx, r); err == nil {
				e.BoundBy = boundBy(limits.view(kept))
			}
		}
		switch {
		case errors.Is(err, store.ErrNoEvaluation):
			continue // expired or deleted, and not yet taken off the list
		case quarantine.Concerns(err):
			e = Evaluation{ID: id, Name: r.Name, Status: "unreadable", Created: r.Created}
		case err != nil:
			return nil, err
		}
		o.Evaluations = append(o.Evaluations, e)
	}
	newestFirst(o.Evaluations)
	return o, nil
}

func newestFirst(list []Evaluation) {
	slices.SortFunc(list, func(a, b Evaluation) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.ID, b.ID))
	})
}

// read reads one evaluation's record and adds how it stands.
func (f *fleet) read(ctx context.Context, id eval.ID, standing store.Standing) (Evaluation, record.Evaluation, error) {
	r, err := f.store.Evaluation(ctx, id)
	if err == nil {
		err = standing.Unreadable
	}
	if err != nil {
		return Evaluation{}, r, err
	}
	e := Evaluation{ID: id, Name: r.Name, Status: r.Status, Created: r.Created, Uncollected: int(standing.Waiting), Paused: slices.Sorted(maps.Keys(standing.Paused))}
	for i, phase := range r.Phases {
		of := Phase{Kind: phase.Kind, Runs: phase.Runs}
		for queue := range phase.Queues {
			of.Succeeded += standing.Counts[record.CountField(i, eval.StateSucceeded, queue)]
			of.Failed += standing.Counts[record.CountField(i, eval.StateFailed, queue)]
			of.Cancelled += standing.Counts[record.CountField(i, eval.StateCancelled, queue)]
		}
		e.Phases = append(e.Phases, of)
	}
	e.sum()
	if e.Status == record.StatusActive {
		f.paces.note(&e, time.Now())
	} else {
		f.paces.forget(id)
	}
	return e, r, nil
}

func (f *fleet) evaluation(ctx context.Context, id eval.ID) (*Detail, error) {
	standings, err := f.store.Standings(ctx, []eval.ID{id})
	if err != nil {
		return nil, err
	}
	e, r, err := f.read(ctx, id, standings[id])
	if errors.Is(err, store.ErrNoEvaluation) {
		return nil, fmt.Errorf("%w: Redis has no evaluation of this id", errNotFound)
	}
	if err != nil {
		return nil, err
	}
	d := &Detail{Evaluation: e, Live: true, Queues: []Queue{}, Failures: []Failure{}}
	if d.Workers, err = f.workersAlive(ctx); err != nil {
		return nil, err
	}
	limits, err := f.readLimits(ctx)
	if err != nil {
		return nil, err
	}
	kept, err := f.keptBy(ctx, r)
	if err != nil {
		return nil, err
	}
	d.Limits, d.Cooldowns = limits.view(kept)
	if d.Status == record.StatusActive {
		d.BoundBy = boundBy(d.Limits, d.Cooldowns)
	}
	for _, name := range queuesOf(r) {
		info, known, err := gate.QueueInfo(f.queues, name)
		if err != nil {
			return nil, err
		}
		if !known {
			continue
		}
		d.Queues = append(d.Queues, Queue{
			Name: name, Pending: info.Pending, Active: info.Active, Retry: info.Retry + info.Scheduled,
			Completed: info.Completed, Archived: info.Archived, Paused: info.Paused,
		})
		failures, err := f.failures(id, name, info.Archived)
		if err != nil {
			return nil, err
		}
		d.Failures = append(d.Failures, failures...)
	}
	d.Failures = lastFailures(d.Failures)
	return d, nil
}

// queuesOf are the queues of an evaluation's phases, by name.
func queuesOf(r record.Evaluation) []string {
	names := map[string]bool{}
	for _, phase := range r.Phases {
		for name := range phase.Queues {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// failures are the last of an evaluation's runs in a queue's archive. In a queue
// that others share, those of the last failuresPage tasks.
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

func (f *fleet) workersAlive(ctx context.Context) (int, error) {
	alive, err := f.limits.Alive(ctx)
	n := 0
	for _, beats := range alive {
		if beats {
			n++
		}
	}
	return n, err
}
