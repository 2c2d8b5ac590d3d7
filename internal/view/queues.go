package view

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hibiken/asynq"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/queue/gate"
)

// Queues counts the tasks of every queue that asynq knows, by name. In the default namespace, these include queues of
// other programs that use asynq in the same Redis.
func (f Redis) Queues(ctx context.Context) ([]Queue, error) {
	names, err := gate.Queues(ctx, f.Store.Client())
	if err != nil {
		return nil, err
	}
	return f.count(ctx, names)
}

// queuesOf counts the tasks of an evaluation's queues; zero for a queue that asynq does not
// know.
func (f Redis) queuesOf(ctx context.Context, r record.Evaluation) ([]Queue, error) {
	var names []string
	for _, phase := range r.Phases {
		for name := range phase.Queues {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return f.count(ctx, slices.Compact(names))
}

func (f Redis) count(ctx context.Context, names []string) ([]Queue, error) {
	counts, err := gate.Count(ctx, f.Store.Client(), names)
	if err != nil {
		return nil, err
	}
	var queues []Queue
	for i, c := range counts {
		queues = append(queues, Queue{
			Name: names[i], Pending: c.Pending, Active: c.Active, Scheduled: c.Scheduled, Retry: c.Retry,
			Completed: c.Completed, Archived: c.Archived, Paused: c.Paused, Known: c.Listed,
		})
	}
	return queues, nil
}

// In returns how many tasks of the queue are in one of TaskStates.
func (q Queue) In(state string) int {
	return map[string]int{
		"pending": q.Pending, "active": q.Active, "retry": q.Retry, "scheduled": q.Scheduled,
		"completed": q.Completed, "archived": q.Archived,
	}[state]
}

// Task is a task in a queue, with its run.
type Task struct {
	ID string `json:"task"`
	// Evaluation and the fields below are empty for a task of another program.
	Evaluation eval.ID   `json:"evaluation,omitempty"`
	Run        string    `json:"run,omitempty"` // <phase>.<index>
	Kind       eval.Kind `json:"kind,omitempty"`
	Model      string    `json:"model,omitempty"`
	Documents  []string  `json:"documents,omitempty"`
	Known      []string  `json:"-"`               // Documents by the names that people know
	Retry      int       `json:"retry,omitempty"` // of a failed run

	Due    *time.Time `json:"due,omitempty"`    // retry, scheduled
	Since  *time.Time `json:"since,omitempty"`  // active, by the worker's clock
	Worker string     `json:"worker,omitempty"` // active
	Alive  bool       `json:"worker_alive,omitempty"`
	Ended  *time.Time `json:"ended,omitempty"`  // completed, archived
	Result string     `json:"result,omitempty"` // completed; the verdict in words (record.ResultInWords)
	Error  string     `json:"error,omitempty"`  // archived, or why it was put back
}

// Tasks is one page of the tasks of a queue in one state: pending and active tasks in the order
// in which they are pulled, delayed ones by when they are due, ended ones from the latest.
type Tasks struct {
	Queue
	State string `json:"state"`
	Page  int    `json:"page"` // from 1
	Pages int    `json:"pages"`
	Tasks []Task `json:"tasks"`
}

// TaskStates are asynq's states of a task, in the order in which a task passes through them.
var TaskStates = []string{"pending", "active", "retry", "scheduled", "completed", "archived"}

// TasksShown is how many tasks are on a page.
const TasksShown = 50

// ErrNoQueue means that asynq knows no queue with this name: no task was pushed to it, or it was empty after its
// evaluations had ended.
var ErrNoQueue = errors.New("no such queue")

// Tasks reads one page of a queue. For a page after the last one, it returns the last.
func (f Redis) Tasks(ctx context.Context, queue, state string, page int) (*Tasks, error) {
	counted, err := f.count(ctx, []string{queue})
	if err != nil {
		return nil, err
	}
	if !counted[0].Known {
		return nil, fmt.Errorf("%w: %s", ErrNoQueue, queue)
	}
	all := counted[0].In(state)
	t := &Tasks{Queue: counted[0], State: state, Pages: max(1, (all+TasksShown-1)/TasksShown), Tasks: []Task{}}
	t.Page = min(max(1, page), t.Pages)
	infos, err := f.list(queue, state, all, TasksShown*(t.Page-1))
	if err != nil {
		return nil, fmt.Errorf("read queue %s: %w", queue, err)
	}
	var active []string
	for _, info := range infos {
		t.Tasks = append(t.Tasks, taskOf(info))
		if state == "active" {
			active = append(active, info.ID)
		}
	}
	return t, f.addHolders(ctx, t, active)
}

// list reads up to TasksShown of the tasks that a queue has in a state, from a position.
func (f Redis) list(queue, state string, all, from int) ([]*asynq.TaskInfo, error) {
	if state != "completed" && state != "archived" {
		return gate.Tasks(f.Store.Client(), queue, state, 1+from/TasksShown, TasksShown)
	}

	// asynq lists the oldest first, so one page here is on two of its pages.
	end := all - from
	begin := max(0, end-TasksShown)
	var list []*asynq.TaskInfo
	for page := begin / TasksShown; page*TasksShown < end; page++ {
		tasks, err := gate.Tasks(f.Store.Client(), queue, state, 1+page, TasksShown)
		if err != nil {
			return nil, err
		}
		tasks = tasks[min(len(tasks), max(0, begin-page*TasksShown)):min(len(tasks), end-page*TasksShown)]
		list = append(list, tasks...)
	}
	slices.Reverse(list)
	return list, nil
}

func taskOf(info *asynq.TaskInfo) Task {
	t := Task{ID: info.ID, Error: info.LastErr, Result: record.ResultInWords(string(info.Result))}
	if of, err := record.DecodeTask(info.Payload); err == nil {
		t.Evaluation, t.Run, t.Kind, t.Model, t.Retry = of.Evaluation, of.RunID().Short(), of.Kind, of.Model, of.Generation
		t.Documents, t.Known = of.Documents, of.Known()
	}
	at := func(moment time.Time) *time.Time {
		if moment.IsZero() {
			return nil
		}
		moment = moment.UTC()
		return &moment
	}
	switch info.State {
	case asynq.TaskStateRetry, asynq.TaskStateScheduled:
		t.Due = at(info.NextProcessAt)
	case asynq.TaskStateCompleted:
		t.Ended = at(info.CompletedAt)
	case asynq.TaskStateArchived:
		t.Ended = at(info.LastFailedAt)
	}
	return t
}

func (f Redis) addHolders(ctx context.Context, t *Tasks, active []string) error {
	if len(active) == 0 {
		return nil
	}
	holders, err := gate.Holders(ctx, f.Store.Client(), t.Name, active...)
	if err != nil {
		return err
	}
	alive, err := f.Limits.Alive(ctx)
	if err != nil {
		return err
	}
	for i := range t.Tasks {
		if held, ok := holders[t.Tasks[i].ID]; ok {
			since := held.Since.UTC()
			t.Tasks[i].Worker, t.Tasks[i].Alive, t.Tasks[i].Since = held.Worker, alive[held.Worker], &since
		}
	}
	return nil
}
