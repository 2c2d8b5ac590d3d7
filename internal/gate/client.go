package gate

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// client is what asynq's servers get for Redis. asynq runs all its scripts by
// redis.Script.Run, which is EvalSha and, after NOSCRIPT, Eval.
type client struct {
	redis.UniversalClient
	gate *Gate
}

func (c client) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	if queue, ok := pulledQueue(keys); ok {
		return c.pull(ctx, queue)
	}
	if task, ok := endedTask(keys); ok {
		script, known := c.gate.endings.script(sha)
		if !known {
			// asynq answers this with Eval, which shows the script's text.
			cmd := redis.NewCmd(ctx)
			cmd.SetErr(redis.ErrNoScript)
			return cmd
		}
		return c.end(ctx, script, task, keys, args)
	}
	return c.forwarded(keys, c.UniversalClient.EvalSha(ctx, sha, keys, args...))
}

func (c client) Eval(ctx context.Context, source string, keys []string, args ...any) *redis.Cmd {
	if queue, ok := pulledQueue(keys); ok {
		return c.pull(ctx, queue)
	}
	if task, ok := endedTask(keys); ok {
		return c.end(ctx, c.gate.endings.learn(source), task, keys, args)
	}
	return c.forwarded(keys, c.UniversalClient.Eval(ctx, source, keys, args...))
}

func (c client) pull(ctx context.Context, queue string) *redis.Cmd {
	cmd := redis.NewCmd(ctx)
	if message, ok := c.gate.pull(ctx, queue); ok {
		cmd.SetVal(message)
	} else {
		cmd.SetErr(redis.Nil)
	}
	return cmd
}

// end runs one of asynq's endings behind the guard. When one fails, asynq tries it
// again with the context of the first time, which it has cancelled: so the
// context counts for nothing here.
func (c client) end(ctx context.Context, script *redis.Script, task int, keys []string, args []any) *redis.Cmd {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	key := keys[task-1]
	guarded := append(append(make([]any, 0, len(args)+3), args...), c.gate.results.of(key), task, c.gate.config.Owner)
	cmd := script.Run(ctx, c.UniversalClient, keys, guarded...)
	if cmd.Err() == nil {
		c.gate.results.forget(key)
	}
	return cmd
}

// HSet keeps a task's result, as asynq's ResultWriter writes it, until the task
// ends: the guard then writes it with the ending, where the task is still this
// worker's. Written at once, it would cost a command, and bring the key of a task
// back that another worker has ended.
func (c client) HSet(ctx context.Context, key string, values ...any) *redis.IntCmd {
	result, ok := writtenResult(key, values)
	if !ok {
		return c.UniversalClient.HSet(ctx, key, values...)
	}
	c.gate.results.put(key, result)
	cmd := redis.NewIntCmd(ctx)
	cmd.SetVal(1)
	return cmd
}

// forwarded looks at what has run: tasks whose delay is over became pending
// without anyone announcing them.
func (c client) forwarded(keys []string, cmd *redis.Cmd) *redis.Cmd {
	if queue, ok := forwardedQueue(keys); ok {
		if n, err := cmd.Int64(); err == nil && n > 0 {
			c.gate.Filled(queue)
		}
	}
	return cmd
}

// endings are asynq's scripts that end a task, each with the guard in front, by
// the hash under which asynq asks for it.
type endings struct {
	mu      sync.RWMutex
	guarded map[string]*redis.Script
}

func (e *endings) script(sha string) (*redis.Script, bool) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	script, ok := e.guarded[sha]
	return script, ok
}

func (e *endings) learn(source string) *redis.Script {
	script := redis.NewScript(guardSource + source)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.guarded[redis.NewScript(source).Hash()] = script
	return script
}

// results are those of tasks that have not ended yet, by the task's key.
type results struct {
	mu      sync.Mutex
	pending map[string][]byte
}

func (r *results) put(task string, result []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending[task] = result
}

func (r *results) of(task string) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pending[task]
}

func (r *results) forget(task string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pending, task)
}
