package enqueue

import (
	"context"
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

// push sends tasks to queue in one pipeline. A task that is in the queue
// already, in whatever state, is left as it is. It may be repeated.
//
// asynq has no batch enqueue, so its own client runs over a recorder that keeps
// the scripts it would send; encoding and scripts stay asynq's.
func push(ctx context.Context, client redis.UniversalClient, queue string, tasks []record.Task) error {
	if len(tasks) == 0 {
		return nil
	}
	recorder := &recorder{UniversalClient: client, pipe: client.Pipeline()}
	tool := asynq.NewClientFromRedisClient(recorder)
	for _, task := range tasks {
		_, err := tool.EnqueueContext(ctx, asynq.NewTask(string(task.Kind), task.Encode()),
			asynq.TaskID(task.ID()), asynq.Queue(queue), asynq.MaxRetry(math.MaxInt32), asynq.Timeout(taskTimeout))
		if err != nil {
			return fmt.Errorf("push %s to queue %s: %w", task.ID(), queue, err)
		}
	}
	if _, err := recorder.pipe.Exec(ctx); err != nil {
		return fmt.Errorf("push %d tasks to queue %s: %w", len(tasks), queue, err)
	}
	return nil
}

// recorder is a client that keeps scripts in a pipeline instead of sending
// them. It answers "done" to each; the pipeline's own answers (made, or there
// already) are both what push wants.
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
