package enqueue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/record"
)

// taskTimeout is asynq's bound on a task. It includes waiting for limits, so it
// is set out of reach: every call has a deadline of its own.
const taskTimeout = 30 * 24 * time.Hour

// push sends tasks of runs that have not ended to queue, in one pipeline. A task
// that is in the queue already, and not ended, is left as it is. It may be
// repeated. keeps says which tasks asynq keeps for a while after they succeeded.
func push(ctx context.Context, client redis.UniversalClient, queue string, tasks []record.Task, keeps func(index int) bool) error {
	refused, err := send(ctx, client, queue, tasks, keeps)
	if err != nil || len(refused) == 0 {
		return err
	}
	removed, err := removeEnded(ctx, client, queue, refused)
	if err != nil || len(removed) == 0 {
		return err
	}
	_, err = send(ctx, client, queue, removed, keeps)
	return err
}

// send pushes tasks and returns those whose ids are taken.
//
// asynq has no batch enqueue, so its own client runs over a recorder that keeps
// the scripts it would send; encoding and scripts stay asynq's.
func send(ctx context.Context, client redis.UniversalClient, queue string, tasks []record.Task, keeps func(index int) bool) (refused []record.Task, err error) {
	if len(tasks) == 0 {
		return nil, nil
	}
	recorder := &recorder{UniversalClient: client, pipe: client.Pipeline()}
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
	answers, err := recorder.pipe.Exec(ctx)
	if err != nil {
		return nil, fmt.Errorf("push %d tasks to queue %s: %w", len(tasks), queue, err)
	}
	for i, answer := range answers {
		if made, err := answer.(*redis.Cmd).Int(); err == nil && made == 0 {
			refused = append(refused, tasks[i])
		}
	}
	return refused, nil
}

// removeEnded removes those of tasks that asynq has completed or archived, and
// returns them. Their runs have not ended, so they are of another life: of an
// evaluation that was deleted, or expired, and submitted again.
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

// recorder is a client that keeps scripts in a pipeline instead of sending
// them. It answers "done" to each; the pipeline's own answers say which tasks
// were made.
type recorder struct {
	redis.UniversalClient
	pipe   redis.Pipeliner
	loaded map[string]bool // scripts that Redis has, by SHA-1
}

// errNoScript makes asynq show a script's source by asking for Eval.
type errNoScript struct{}

func (errNoScript) Error() string { return "NOSCRIPT not loaded by this pipeline yet" }

// RedisError marks the error as an answer of Redis, as go-redis wants it.
func (errNoScript) RedisError() {}

// EvalSha keeps a script that Redis has, and asks for the source of others.
func (r *recorder) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	answer := redis.NewCmd(ctx)
	if !r.loaded[sha] {
		answer.SetErr(errNoScript{})
		return answer
	}
	r.pipe.EvalSha(ctx, sha, keys, args...)
	answer.SetVal(int64(1))
	return answer
}

// Eval loads the script, so that the pipeline can send it by its hash.
func (r *recorder) Eval(ctx context.Context, source string, keys []string, args ...any) *redis.Cmd {
	answer := redis.NewCmd(ctx)
	sha, err := r.ScriptLoad(ctx, source).Result()
	if err != nil {
		answer.SetErr(err)
		return answer
	}
	if r.loaded == nil {
		r.loaded = map[string]bool{}
	}
	r.loaded[sha] = true
	return r.EvalSha(ctx, sha, keys, args...)
}

var _ redis.Error = errNoScript{}
