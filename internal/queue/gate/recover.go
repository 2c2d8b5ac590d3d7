package gate

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// orphanedAfter is how long after its lease's end a task without an owner counts as abandoned.
	// asynq waits as long, because clocks differ.
	orphanedAfter = 30 * time.Second

	readAtOnce   = 1000 // active tasks per script
	returnAtOnce = 100  // each costs a pass over the active list
)

// Alive returns which of some owners are alive. It must look when it is called and not before, or a
// worker that has just started seems dead.
type Alive func(ctx context.Context, owners []string) (map[string]bool, error)

// Recover returns the tasks of dead workers to the head of queue, earliest pulls first. It returns
// their owners by task ID; "" for a task that had none. It uses up no attempt. Tasks that another
// process has returned meanwhile are not included, so that they can be counted as deaths. Any
// number of processes may call it at once.
//
// alive is called once, unless no active task has an owner, with the owners found, each once.
// Owners missing from its answer count as dead, permanently: such a worker must have stopped its
// calls by then.
//
// Active tasks without an owner were pulled by something other than a Gate. They are returned 30 s
// after their lease ended, or at once if they have no lease. IDs without a task are removed.
func Recover(ctx context.Context, client redis.Cmdable, queue string, alive Alive) (returned map[string]string, err error) {
	dead, err := orphans(ctx, client, queue, alive)
	if err != nil {
		return nil, err
	}
	owners := map[string]string{}
	for _, task := range dead {
		owners[task.id] = task.owner
	}
	returned = map[string]string{}
	keys := keysOf(queue)
	for len(dead) > 0 {
		n := min(len(dead), returnAtOnce)
		ids, err := giveBack(ctx, client, keys, dead[:n])
		if err != nil {
			return returned, err
		}
		for _, id := range ids {
			returned[id] = owners[id]
		}
		dead = dead[n:]
	}
	return returned, nil
}

// Orphans counts the active tasks of queue whose owner is dead. alive is as in Recover.
func Orphans(ctx context.Context, client redis.Cmdable, queue string, alive Alive) (int, error) {
	found, err := orphans(ctx, client, queue, alive)
	n := 0
	for _, task := range found {
		if task.owner != "" {
			n++
		}
	}
	return n, err
}

// orphans returns the active tasks of queue without a living owner, in their order.
func orphans(ctx context.Context, client redis.Cmdable, queue string, alive Alive) ([]held, error) {
	var active []held
	keys := keysOf(queue)
	for {
		// If tasks end while this reads, it misses others until the next time.
		some, err := readActive(ctx, client, keys, len(active), readAtOnce)
		if err != nil {
			return nil, err
		}
		active = append(active, some...)
		if len(some) < readAtOnce {
			break
		}
	}
	dead, err := abandoned(ctx, active, alive)
	if err != nil {
		return nil, fmt.Errorf("find orphaned tasks of queue %s: %w", queue, err)
	}
	return dead, nil
}

// abandoned returns the active tasks without a living owner, in their order.
func abandoned(ctx context.Context, active []held, alive Alive) ([]held, error) {
	var owners []string
	seen := map[string]bool{"": true}
	for _, task := range active {
		if !seen[task.owner] {
			seen[task.owner] = true
			owners = append(owners, task.owner)
		}
	}
	living := map[string]bool{}
	if len(owners) > 0 {
		var err error
		if living, err = alive(ctx, owners); err != nil {
			return nil, fmt.Errorf("ask which workers are alive: %w", err)
		}
	}
	var dead []held
	for _, task := range active {
		if task.owner == "" || !living[task.owner] {
			dead = append(dead, task)
		}
	}
	return dead, nil
}
