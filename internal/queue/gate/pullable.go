package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
)

// Pullable returns the tasks of queue that a worker has or can pull, now or after their delay.
// Tasks that asynq has archived or completed are not among them.
func Pullable(ctx context.Context, client redis.Cmdable, queue string, tasks []string) (map[string]bool, error) {
	there := map[string]bool{}
	keys := keysOf(queue)
	for some := range slices.Chunk(tasks, readAtOnce) {
		states := make([]*redis.StringCmd, len(some))
		_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i, task := range some {
				states[i] = pipe.HGet(ctx, keys.task+task, "state")
			}
			return nil
		})
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, fmt.Errorf("look for tasks of queue %s: %w", queue, err)
		}
		for i, task := range some {
			switch states[i].Val() {
			case "pending", "active", "scheduled", "retry":
				there[task] = true
			}
		}
	}
	return there, nil
}
