package gate

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// State is where asynq keeps a task that no worker holds.
type State string

// The states of such tasks. Those of asynq's groups are left out, because no run is in one.
const (
	Retry     State = "retry"
	Scheduled State = "scheduled"
	Pending   State = "pending"
	Archived  State = "archived"
	Completed State = "completed"
)

var (
	// Unpulled lists the states of tasks that are still to be pulled, in the order in which tasks
	// pass through them. A reader in this order misses none that moves on.
	Unpulled = []State{Retry, Scheduled, Pending}
	// Unheld lists all states.
	Unheld = append(slices.Clone(Unpulled), Archived, Completed)
)

// Pick returns the tasks of a page that must be removed.
type Pick func(ctx context.Context, state State, tasks []string) ([]string, error)

// Discard removes the tasks of queue that pick returns, from the given states, and returns how
// many. It reads 1,000 tasks and removes 100 in one command, so a long queue does not block Redis.
// A task that a worker pulls meanwhile stays, and one that moves against the order of states may be
// missed. Discard may be repeated, and called by several processes at once.
func Discard(ctx context.Context, client redis.Cmdable, queue string, states []State, pick Pick) (removed int, err error) {
	for _, state := range states {
		n, err := discardFrom(ctx, client, keysOf(queue), state, pick)
		removed += n
		if err != nil {
			return removed, fmt.Errorf("discard %s tasks of queue %s: %w", state, queue, err)
		}
	}
	return removed, nil
}

func discardFrom(ctx context.Context, client redis.Cmdable, keys queueKeys, state State, pick Pick) (removed int, err error) {
	key := keys.prefix + string(state)
	for from := 0; ; {
		tasks, err := page(ctx, client, key, state, from)
		if err != nil || len(tasks) == 0 {
			return removed, err
		}
		chosen, err := pick(ctx, state, tasks)
		if err != nil {
			return removed, err
		}

		from += len(tasks)
		for some := range slices.Chunk(chosen, returnAtOnce) {
			args := []any{keys.task, string(state)}
			for _, id := range some {
				args = append(args, id)
			}
			n, err := discardScript.Run(ctx, client, []string{key}, args...).Int()
			if err != nil {
				return removed, err
			}
			removed += n
			from -= n
		}

		if len(tasks) < readAtOnce {
			return removed, nil
		}
	}
}

// page reads tasks of one state from the end at which they arrive, so that tasks which leave at the
// other end meanwhile shift nothing.
func page(ctx context.Context, client redis.Cmdable, key string, state State, from int) ([]string, error) {
	first, last := int64(from), int64(from+readAtOnce-1)
	if state == Pending {
		return client.LRange(ctx, key, first, last).Result()
	}
	return client.ZRangeArgs(ctx, redis.ZRangeArgs{Key: key, Start: first, Stop: last, Rev: true}).Result()
}

// Forget removes a queue without tasks from asynq's list, with asynq's counts of it, and reports
// whether it did. A queue paused in asynq stays, so that the pause is visible. A process that
// pushes to the queue at the same moment may find it removed from the list; see List.
func Forget(ctx context.Context, client redis.Cmdable, queue string) (bool, error) {
	empty, err := forget(ctx, client, queue)
	if err != nil || !empty {
		return false, err
	}
	if err := client.SRem(ctx, queuesKey, queue).Err(); err != nil {
		return false, fmt.Errorf("forget queue %s: %w", queue, err)
	}
	// A task may have been pushed before the queue was removed from the list.
	empty, err = forget(ctx, client, queue)
	if err == nil && !empty {
		err = List(ctx, client, queue)
	}
	return empty, err
}

// forget removes what asynq keeps of a queue, if that is empty.
func forget(ctx context.Context, client redis.Cmdable, queue string) (empty bool, err error) {
	if empty, err = forgetScript.Run(ctx, client, forgottenKeys(queue)).Bool(); err != nil {
		return false, fmt.Errorf("forget queue %s: %w", queue, err)
	}
	return empty, nil
}

// List adds a queue to asynq's list, as asynq's client does before it pushes.
func List(ctx context.Context, client redis.Cmdable, queue string) error {
	if err := client.SAdd(ctx, queuesKey, queue).Err(); err != nil {
		return fmt.Errorf("list queue %s: %w", queue, err)
	}
	return nil
}

// forgottenKeys returns the keys of forget.lua.
func forgottenKeys(queue string) []string {
	prefix := keysOf(queue).prefix
	names := []string{
		"pending", "active", "scheduled", "retry", "archived", "completed", "groups", "paused",
		"lease", "aggregation_sets", "processed", "failed", "forwarded",
	}
	for day := range countDays {
		date := time.Now().UTC().AddDate(0, 0, 1-day).Format(time.DateOnly) // from tomorrow, as clocks may be ahead
		names = append(names, "processed:"+date, "failed:"+date)
	}
	for i, name := range names {
		names[i] = prefix + name
	}
	return names
}

// serverLate allows for clocks that differ.
const serverLate = time.Minute

// ForgetServers removes killed processes from asynq's lists of servers.
func ForgetServers(ctx context.Context, client redis.Cmdable) error {
	late := strconv.FormatInt(time.Now().Add(-serverLate).Unix(), 10)
	for _, key := range []string{serversKey, workersKey} {
		if err := client.ZRemRangeByScore(ctx, key, "-inf", late).Err(); err != nil {
			return fmt.Errorf("forget servers that were killed: %w", err)
		}
	}
	return nil
}
