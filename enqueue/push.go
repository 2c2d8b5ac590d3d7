package enqueue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/internal/redisx/batch"
)

// taskTimeout is asynq's bound on a task. It includes waiting for limits, so it is out of reach:
// every call has a deadline of its own.
const taskTimeout = 30 * 24 * time.Hour

const pushAtOnce = 100

// push sends tasks of runs that have not ended to queue, many in one script. A task that is already
// in the queue, and has not ended, is unchanged, so push may be repeated. keeps says which tasks
// asynq keeps for a while after they succeeded. queued, unless it is nil, receives each task that
// this call has queued; if two calls push one range at the same time, each receives its own tasks.
func push(
	ctx context.Context, s *store.Store, queue string, tasks []record.Task, keeps func(index int) bool,
	queued func(record.Task),
) error {
	if len(tasks) == 0 {
		return nil
	}
	// Listed first: the sweeper of leftovers looks into the listed queues.
	if err := s.AddQueues(ctx, queue); err != nil {
		return err
	}
	client := store.Universal(s)
	refused, err := send(ctx, client, queue, tasks, keeps, queued)
	if err != nil || len(refused) == 0 {
		return err
	}
	removed, err := removeEnded(ctx, client, queue, refused)
	if err != nil || len(removed) == 0 {
		return err
	}
	_, err = send(ctx, client, queue, removed, keeps, queued)
	return err
}

// send pushes tasks and returns those whose IDs are taken.
//
// asynq has no batch enqueue. So its own client runs over a recorder that keeps the commands;
// encoding and script remain asynq's.
func send(
	ctx context.Context, client redis.UniversalClient, queue string, tasks []record.Task, keeps func(index int) bool,
	queued func(record.Task),
) (refused []record.Task, err error) {
	if len(tasks) == 0 {
		return nil, nil
	}
	recorder := &recorder{UniversalClient: client}
	tool := asynq.NewClientFromRedisClient(recorder)
	for _, task := range tasks {
		options := []asynq.Option{asynq.TaskID(task.ID()), asynq.Queue(queue), asynq.MaxRetry(math.MaxInt32), asynq.Timeout(taskTimeout)}
		if keeps(task.Index) {
			options = append(options, asynq.Retention(record.KeptTime))
		}
		if _, err := tool.EnqueueContext(ctx, asynq.NewTask(string(task.Kind), task.Encode()), options...); err != nil {
			return nil, fmt.Errorf("push %s to queue %s: %w", task.ID(), queue, err)
		}
	}

	for len(tasks) > 0 {
		n := min(len(tasks), pushAtOnce)
		answers, err := batch.Run(ctx, client, recorder.script, recorder.calls[:n])
		if err != nil {
			return nil, fmt.Errorf("push %d tasks to queue %s: %w", n, queue, err)
		}
		for i, made := range answers {
			switch {
			case made == int64(0):
				refused = append(refused, tasks[i])
			case queued != nil:
				queued(tasks[i])
			}
		}
		tasks, recorder.calls = tasks[n:], recorder.calls[n:]
	}

	return refused, nil
}

// removeEnded removes the tasks that asynq has completed or archived, and returns them. Their runs
// have not ended, so the tasks belong to an earlier life of the evaluation, which was deleted, or
// expired, and submitted again.
func removeEnded(ctx context.Context, client redis.UniversalClient, queue string, tasks []record.Task) (removed []record.Task, err error) {
	inspector := asynq.NewInspectorFromRedisClient(client)
	for _, task := range tasks {
		if err := ctx.Err(); err != nil { // the inspector takes no context
			return nil, err
		}
		info, err := inspector.GetTaskInfo(queue, task.ID())
		switch {
		case errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound):
			removed = append(removed, task)
			continue
		case err != nil:
			return nil, fmt.Errorf("look at task %s in queue %s: %w", task.ID(), queue, err)
		case info.State != asynq.TaskStateCompleted && info.State != asynq.TaskStateArchived:
			continue
		}
		if err := inspector.DeleteTask(queue, task.ID()); err != nil && !errors.Is(err, asynq.ErrTaskNotFound) {
			return nil, fmt.Errorf("remove ended task %s from queue %s: %w", task.ID(), queue, err)
		}
		removed = append(removed, task)
	}
	return removed, nil
}

// recorder is a client that keeps the script that asynq would send for each task instead of sending
// it, and answers "done".
type recorder struct {
	redis.UniversalClient
	hash   string        // of asynq's script
	script *redis.Script // does the same for several tasks
	calls  []batch.Call
}

// errNoScript makes asynq reveal a script's source by sending it with Eval.
type errNoScript struct{}

func (errNoScript) Error() string { return "NOSCRIPT its source is not known yet" }

// RedisError marks the error as a reply of Redis, as go-redis requires.
func (errNoScript) RedisError() {}

// EvalSha records a call of a script with known source, and asks for the source of any other.
func (r *recorder) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	answer := redis.NewCmd(ctx)
	if sha != r.hash {
		answer.SetErr(errNoScript{})
		return answer
	}
	r.calls = append(r.calls, batch.Call{Keys: keys, Args: args})
	answer.SetVal(int64(1))
	return answer
}

// Eval stores the script's source.
func (r *recorder) Eval(ctx context.Context, source string, keys []string, args ...any) *redis.Cmd {
	if r.script != nil {
		answer := redis.NewCmd(ctx)
		answer.SetErr(errors.New("tasks are pushed by more than one script"))
		return answer
	}
	r.hash, r.script = redis.NewScript(source).Hash(), batch.Script(source)
	return r.EvalSha(ctx, r.hash, keys, args...)
}

var _ redis.Error = errNoScript{}
