package enqueue

import (
	"context"
	"slices"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/queue/gate"
)

// clearTasks removes an evaluation's tasks in these states from queues. It leaves tasks that a
// worker holds, and those of runs that have a job at a provider: the worker that drops such a task
// cancels the job. Call it for an evaluation that has ended or has no record. If the evaluation
// resumes meanwhile, its runs are pushed again.
func clearTasks(ctx context.Context, s *store.Store, id eval.ID, queues []string, states []gate.State) error {
	var jobs map[string]bool
	pick := func(ctx context.Context, state gate.State, tasks []string) (chosen []string, err error) {
		for _, task := range tasks {
			run, _, err := record.ParseTaskID(task)
			if err != nil || run.Evaluation != id {
				continue
			}
			if jobs == nil {
				if jobs, err = s.WithJob(ctx, id); err != nil {
					return nil, err
				}
			}
			if !jobs[run.Short()] {
				chosen = append(chosen, task)
			}
		}
		return chosen, nil
	}
	removed := 0
	for _, queue := range queues {
		n, err := gate.Discard(ctx, s.Client(), queue, states, pick)
		if err != nil {
			return err
		}
		removed += n
	}

	if removed == 0 {
		return nil
	}
	return s.PushAgain(ctx, id)
}

// queuesFor returns the known queues that may have tasks of an evaluation: all but those of another
// evaluation alone.
func queuesFor(ctx context.Context, s *store.Store, id eval.ID) ([]string, error) {
	queues, err := s.Queues(ctx)
	return slices.DeleteFunc(queues, func(queue string) bool {
		owner := record.OwnerOfQueue(queue)
		return owner != "" && owner != id
	}), err
}

// forgetQueues removes queues from asynq's list if they are empty and no evaluation uses them. With
// drop, it also removes them from ours. Use drop only for queues to which no process can be about
// to push.
func forgetQueues(ctx context.Context, s *store.Store, queues []string, drop bool) error {
	used, err := usedQueues(ctx, s)
	if err != nil {
		return err
	}
	var forgotten []string
	for _, queue := range queues {
		if used(queue) {
			continue
		}
		empty, err := gate.Forget(ctx, s.Client(), queue)
		if err == nil && empty && drop {
			err = s.DropQueue(ctx, queue)
		}
		if err != nil {
			return err
		}
		if empty {
			forgotten = append(forgotten, queue)
		}
	}

	if len(forgotten) == 0 {
		return nil
	}
	// An evaluation submitted meanwhile has a record before it pushes.
	if used, err = usedQueues(ctx, s); err != nil {
		return err
	}

	for _, queue := range forgotten {
		if !used(queue) {
			continue
		}
		if err := s.AddQueues(ctx, queue); err != nil {
			return err
		}
		if err := gate.List(ctx, s.Client(), queue); err != nil {
			return err
		}
	}

	return nil
}

// usedQueues returns a function that reports whether evaluations use a queue. A cancelled one uses
// none. One that this program cannot read may use every queue.
func usedQueues(ctx context.Context, s *store.Store) (func(queue string) bool, error) {
	ids, err := s.Evaluations(ctx)
	if err != nil {
		return nil, err
	}
	uses, err := s.Uses(ctx, ids)
	if err != nil {
		return nil, err
	}
	return usedBy(uses), nil
}

func usedBy(uses map[eval.ID]store.Use) func(queue string) bool {
	used, unreadable := map[string]bool{}, false
	for _, use := range uses {
		unreadable = unreadable || use.Unreadable
		if use.Status == record.StatusCancelled {
			continue
		}
		for _, queue := range use.Queues {
			used[queue] = true
		}
	}
	return func(queue string) bool {
		owner := record.OwnerOfQueue(queue)
		return used[queue] || unreadable && (owner == "" || uses[owner].Unreadable)
	}
}
