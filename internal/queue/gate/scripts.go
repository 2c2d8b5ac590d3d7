package gate

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed lua/take.lua
	takeSource string
	//go:embed lua/guard.lua
	guardSource string
	//go:embed lua/delay.lua
	delaySource string
	//go:embed lua/done.lua
	doneSource string
	//go:embed lua/return.lua
	returnSource string
	//go:embed lua/reclaim.lua
	reclaimSource string
	//go:embed lua/holders.lua
	holdersSource string
	//go:embed lua/forward.lua
	forwardSource string
	//go:embed lua/discard.lua
	discardSource string
	//go:embed lua/expire.lua
	expireSource string
	//go:embed lua/forget.lua
	forgetSource string

	takeScript    = redis.NewScript(takeSource)
	doneScript    = redis.NewScript(doneSource)
	returnScript  = redis.NewScript(returnSource)
	reclaimScript = redis.NewScript(reclaimSource)
	holdersScript = redis.NewScript(holdersSource)
	forwardScript = redis.NewScript(forwardSource)
	discardScript = redis.NewScript(discardSource)
	expireScript  = redis.NewScript(expireSource)
	forgetScript  = redis.NewScript(forgetSource)
)

// pulled is a task in the reply of take.lua: its id, asynq's message, and the number of the pull.
type pulled struct {
	id, message string
	pull        int64
}

// taken is the reply of take.lua.
type taken struct {
	tasks  []pulled
	left   int64 // in pending
	paused bool
}

// pullTasks pulls up to n tasks for owner, under a pull number higher than those before. Even after an
// error, tasks may have been pulled, or may yet be pulled, until reclaim.
func pullTasks(
	ctx context.Context, client redis.UniversalClient, keys queueKeys, owner string, pull int64, n int, lease time.Time,
) (taken, error) {
	reply, err := once(ctx, client, takeScript, takeSource,
		[]string{keys.pending, keys.paused, keys.active, keys.lease, keys.fence + owner},
		keys.task, n, lease.Unix(), owner, pull)
	if err != nil {
		return taken{}, fmt.Errorf("pull tasks: %w", err)
	}

	list, ok := reply.([]any)
	if !ok || len(list) < 2 || len(list)%2 != 0 {
		return taken{}, fmt.Errorf("pull tasks: unexpected answer %v", reply)
	}
	left, leftOK := list[0].(int64)
	paused, pausedOK := list[1].(int64)
	ok = leftOK && pausedOK
	answer := taken{left: left, paused: paused == 1}
	for i := 2; i < len(list); i += 2 {
		id, idOK := list[i].(string)
		message, messageOK := list[i+1].(string)
		ok = ok && idOK && messageOK
		answer.tasks = append(answer.tasks, pulled{id, message, pull})
	}

	if !ok {
		return taken{}, fmt.Errorf("pull tasks: unexpected answer %v", reply)
	}
	return answer, nil
}

// held is an active task, the owner that pulled it, and the number of that pull; "" if these are not
// known.
type held struct{ id, owner, pull string }

// heldBy returns a task that a pull of owner holds.
func heldBy(owner, id string, pull int64) held { return held{id, owner, strconv.FormatInt(pull, 10)} }

// giveBack moves tasks that the given pulls still hold to the head of pending, the last of them
// first. It returns the ids of those moved.
func giveBack(ctx context.Context, client redis.Cmdable, keys queueKeys, tasks []held) ([]string, error) {
	args := make([]any, 0, 2+3*len(tasks))
	args = append(args, keys.task, int(orphanedAfter/time.Second))
	for _, task := range tasks {
		args = append(args, task.id, task.owner, task.pull)
	}
	moved, err := returnScript.Run(ctx, client, []string{keys.pending, keys.active, keys.lease}, args...).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("return %d tasks to %s: %w", len(tasks), keys.pending, err)
	}
	return moved, nil
}

// reclaim cancels owner's pull: its tasks go to the head of pending, and it can take no more.
func reclaim(ctx context.Context, client redis.Cmdable, keys queueKeys, owner string, pull int64) error {
	err := reclaimScript.Run(ctx, client, []string{keys.pending, keys.active, keys.lease, keys.fence + owner},
		keys.task, owner, pull).Err()
	if err != nil {
		return fmt.Errorf("return the tasks of a pull without answer to %s: %w", keys.pending, err)
	}
	return nil
}

// readActive reads up to n active tasks from position from, the latest pulled first.
func readActive(ctx context.Context, client redis.Cmdable, keys queueKeys, from, n int) ([]held, error) {
	reply, err := holdersScript.Run(ctx, client, []string{keys.active}, keys.task, from, from+n-1).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("read the owners of %s: %w", keys.active, err)
	}
	if len(reply)%3 != 0 {
		return nil, fmt.Errorf("read the owners of %s: %d values, want three for each task", keys.active, len(reply))
	}
	tasks := make([]held, 0, len(reply)/3)
	for i := 0; i < len(reply); i += 3 {
		tasks = append(tasks, held{reply[i], reply[i+1], reply[i+2]})
	}
	return tasks, nil
}

// unrepeated is a command that go-redis does not send again if its reply is lost.
type unrepeated struct{ *redis.Cmd }

func (unrepeated) NoRetry() bool { return true }

// once runs a script that go-redis must not repeat by itself.
func once(ctx context.Context, client redis.UniversalClient, script *redis.Script, source string, keys []string, args ...any) (any, error) {
	run := func(command, payload string) *redis.Cmd {
		words := []any{command, payload, strconv.Itoa(len(keys))}
		for _, key := range keys {
			words = append(words, key)
		}
		cmd := redis.NewCmd(ctx, append(words, args...)...)
		cmd.SetFirstKeyPos(3) // what Redis Cluster routes by
		_ = client.Process(ctx, unrepeated{cmd})
		return cmd
	}
	cmd := run("evalsha", script.Hash())
	if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
		cmd = run("eval", source)
	}
	return cmd.Result()
}
