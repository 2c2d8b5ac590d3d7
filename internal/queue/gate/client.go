package gate

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/redisx/batch"
)

// client is the Redis client that asynq's servers get. asynq runs all its scripts with
// redis.Script.Run, which sends EvalSha and, after NOSCRIPT, Eval.
type client struct {
	redis.UniversalClient
	gate *Gate
}

func (c client) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	learnt := func() (*redis.Script, bool) { return c.gate.endings.script(sha) }
	return c.intercept(ctx, learnt, keys, args, func(keys []string, args []any) *redis.Cmd {
		return c.UniversalClient.EvalSha(ctx, sha, keys, args...)
	})
}

func (c client) Eval(ctx context.Context, source string, keys []string, args ...any) *redis.Cmd {
	learn := func() (*redis.Script, bool) { return c.gate.endings.learn(source, keys), true }
	return c.intercept(ctx, learn, keys, args, func(keys []string, args []any) *redis.Cmd {
		return c.UniversalClient.Eval(ctx, source, keys, args...)
	})
}

// intercept answers one of asynq's scripts, or sends it. guarded returns the script to send in place
// of one that ends a task; ok is false if it is not known yet.
func (c client) intercept(
	ctx context.Context, guarded func() (_ *redis.Script, ok bool), keys []string, args []any, send func([]string, []any) *redis.Cmd,
) *redis.Cmd {
	task, ends := endedTask(keys)
	switch {
	case isPull(keys):
		return c.pull(ctx)
	case ends:
		script, known := guarded()
		if !known {
			// asynq responds to this with Eval, which reveals the script's text.
			cmd := redis.NewCmd(ctx)
			cmd.SetErr(redis.ErrNoScript)
			return cmd
		}
		return c.end(ctx, script, task, keys, args)
	case listsLapsed(keys):
		return c.lapsed(ctx, args, send)
	}
	return send(keys, args)
}

func (c client) pull(ctx context.Context) *redis.Cmd {
	cmd := redis.NewCmd(ctx)
	if message, ok := c.gate.pull(ctx); ok {
		cmd.SetVal(message)
	} else {
		cmd.SetErr(redis.Nil)
	}
	return cmd
}

// lapsed answers asynq's query for tasks with an expired lease, by querying each queue that is served or has tasks in
// hand. asynq does not write the end of a task whose lease expired while Redis was unreachable.
// Tasks of other workers pass no guard. A task whose end could not be written still belongs to this
// worker, and only its own server returns it.
func (c client) lapsed(ctx context.Context, args []any, ask func(keys []string, args []any) *redis.Cmd) *redis.Cmd {
	answer := redis.NewCmd(ctx)
	var all []any
	names := c.gate.hands.queues()
	for _, q := range c.gate.served() {
		names = append(names, q.name)
	}
	slices.Sort(names)

	for _, name := range slices.Compact(names) {
		keys, own := keysOf(name), slices.Clone(args)
		for i, arg := range own {
			if arg == keysOf(Served).task {
				own[i] = keys.task
			}
		}
		tasks, err := ask([]string{keys.lease}, own).Slice()
		if err != nil {
			answer.SetErr(err)
			return answer
		}
		all = append(all, tasks...)
	}
	answer.SetVal(all)
	return answer
}

// end runs one of asynq's endings behind the guard, together with those of other tasks that end in
// the same way at the same time. If one fails, asynq tries it again with the context of the first
// attempt, which it has cancelled. So end ignores the context.
//
// A task that was pulled again meanwhile goes back to its queue instead.
func (c client) end(ctx context.Context, script *redis.Script, task int, keys []string, args []any) *redis.Cmd {
	ctx, key := context.WithoutCancel(ctx), keys[task-1]
	cmd := redis.NewCmd(ctx)
	cmd.SetVal("OK")
	result, pull, again := c.gate.hands.ending(key)
	if !again {
		answer, err := c.write(ctx, script, task, keys, args, result, pull)
		if err != nil {
			cmd.SetErr(err)
			return cmd
		}
		cmd.SetVal(answer)
	}

	for !c.gate.hands.ended(key) {
		_, pull, _ := c.gate.hands.ending(key)
		if err := c.giveBack(ctx, key, pull); err != nil {
			c.gate.hands.markPulledAgain(key, pull) // still, for the next attempt
			cmd.SetErr(err)
			return cmd
		}
	}
	return cmd
}

// write sends an ending with the guard's arguments, and returns asynq's answer.
func (c client) write(
	ctx context.Context, script *redis.Script, task int, keys []string, args []any, result []byte, pull int64,
) (any, error) {
	number := ""
	if pull != 0 {
		number = strconv.FormatInt(pull, 10)
	}
	guarded := append(append(make([]any, 0, len(args)+4), args...), result, task, c.gate.config.Owner, number)
	if delays(keys) {
		due, _ := guarded[dueArgument].(int64)
		guarded[dueArgument] = max(0, time.Until(time.Unix(due, 0))).Microseconds()
	}
	queue, _, _ := strings.Cut(keys[task-1], "}:t:")
	answer, err := c.gate.endings.batcherOf(alike{script, queue, len(keys), len(guarded)}).
		Do(ctx, batch.Call{Keys: keys, Args: guarded})
	if failed, ok := answer.(error); ok {
		err = failed
	}
	return answer, err
}

// giveBack returns a task of a pull, by its key, to the queue it was pulled from.
func (c client) giveBack(ctx context.Context, key string, pull int64) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	queue, id := placeOf(key)
	if _, err := giveBack(ctx, c.gate.redis, keysOf(queue), []held{heldBy(c.gate.config.Owner, id, pull)}); err != nil {
		return err
	}
	c.gate.Filled(queue)
	return nil
}

// Subscribe subscribes to the channel on which asynq cancels tasks.
func (c client) Subscribe(ctx context.Context, channels ...string) *redis.PubSub {
	named := make([]string, len(channels))
	for i, channel := range channels {
		named[i] = c.gate.config.Prefix + channel
	}
	return c.UniversalClient.Subscribe(ctx, named...)
}

// HSet keeps a task's result, as asynq's ResultWriter writes it, until the task ends. The guard
// then writes it with the ending, if the task still belongs to this worker. If it was written at
// once, it would cost a command, and could recreate the key of a task that another worker has
// ended.
func (c client) HSet(ctx context.Context, key string, values ...any) *redis.IntCmd {
	result, ok := writtenResult(key, values)
	if !ok {
		return c.UniversalClient.HSet(ctx, key, values...)
	}
	c.gate.hands.put(key, result)
	cmd := redis.NewIntCmd(ctx)
	cmd.SetVal(1)
	return cmd
}

// endings holds asynq's scripts that end a task, each with the guard in front, and the batches in
// which they are sent.
type endings struct {
	redis redis.UniversalClient
	pause time.Duration // endPause; tests set others

	mu      sync.RWMutex             // guards all below
	guarded map[string]*redis.Script // by the hash of asynq's script
	batches map[alike]*batch.Batcher[batch.Call, any]
}

// alike identifies endings that can share a script.
type alike struct {
	script     *redis.Script
	queue      string // with its keys in one slot
	keys, args int
}

func (e *endings) script(sha string) (*redis.Script, bool) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	script, ok := e.guarded[sha]
	return script, ok
}

// learn makes the script that is sent in place of one of asynq's, which has these keys.
func (e *endings) learn(source string, keys []string) *redis.Script {
	hash := redis.NewScript(source).Hash()
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.guarded[hash] != nil:
	case hash == doneHash:
		e.guarded[hash] = doneScript
	case delays(keys):
		e.guarded[hash] = batch.Script(guardSource + delaySource + source)
	default:
		e.guarded[hash] = batch.Script(guardSource + source)
	}
	return e.guarded[hash]
}

// batcherOf returns the batcher of endings that go together.
func (e *endings) batcherOf(which alike) *batch.Batcher[batch.Call, any] {
	e.mu.RLock()
	b := e.batches[which]
	e.mu.RUnlock()
	if b != nil {
		return b
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if b = e.batches[which]; b == nil {
		cfg := batch.Config{Most: endAtOnce, Pause: e.pause, Enough: endEnough}
		b = batch.New(cfg, func(tasks []batch.Call) ([]any, error) {
			ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
			defer cancel()
			return batch.Run(ctx, e.redis, which.script, tasks)
		})
		e.batches[which] = b
	}
	return b
}
