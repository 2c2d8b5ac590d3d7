package gate

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
)

// Counts says how many tasks of a queue are in each of asynq's states.
type Counts struct {
	Pending, Active, Scheduled, Retry, Archived, Completed int

	Paused bool // with asynq's own tools
	Listed bool // a task was pushed since the queue was last empty and forgotten
}

// Queues lists the queues that asynq knows, by name.
func Queues(ctx context.Context, client redis.Cmdable) ([]string, error) {
	names, err := client.SMembers(ctx, queuesKey).Result()
	if err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	slices.Sort(names)
	return names, nil
}

// Count counts the tasks of queues, which it returns in the same order.
func Count(ctx context.Context, client redis.Cmdable, queues []string) ([]Counts, error) {
	all := make([]Counts, 0, len(queues))
	for some := range slices.Chunk(queues, countedAtOnce) {
		var sizes []*redis.IntCmd
		var paused []*redis.IntCmd
		var listed []*redis.BoolCmd
		_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for _, queue := range some {
				keys := keysOf(queue)
				sizes = append(sizes, pipe.LLen(ctx, keys.pending), pipe.LLen(ctx, keys.active), pipe.ZCard(ctx, keys.scheduled),
					pipe.ZCard(ctx, keys.retry), pipe.ZCard(ctx, keys.archived), pipe.ZCard(ctx, keys.completed))
				paused = append(paused, pipe.Exists(ctx, keys.paused))
				listed = append(listed, pipe.SIsMember(ctx, queuesKey, queue))
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("count the tasks of %d queues: %w", len(some), err)
		}
		for i := range some {
			n := func(k int) int { return int(sizes[6*i+k].Val()) }
			all = append(all, Counts{n(0), n(1), n(2), n(3), n(4), n(5), paused[i].Val() > 0, listed[i].Val()})
		}
	}

	return all, nil
}

// countedAtOnce is the number of queues that Count queries in one round trip.
const countedAtOnce = 500

// Paused returns which of queues are paused with asynq's own tools.
func Paused(ctx context.Context, client redis.Cmdable, queues []string) (paused []string, err error) {
	asked := make([]*redis.IntCmd, len(queues))
	_, err = client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, queue := range queues {
			asked[i] = pipe.Exists(ctx, keysOf(queue).paused)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look whether queues are paused: %w", err)
	}
	for i, queue := range queues {
		if asked[i].Val() > 0 {
			paused = append(paused, queue)
		}
	}
	return paused, nil
}
