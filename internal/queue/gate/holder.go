package gate

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Holder is the worker that has an active task, and since when by that worker's clock.
type Holder struct {
	Worker string
	Since  time.Time
}

// Holders returns the workers that have active tasks of queue, by task. It leaves out tasks that no
// worker has.
func Holders(ctx context.Context, client redis.Cmdable, queue string, tasks ...string) (map[string]Holder, error) {
	read := make([]*redis.SliceCmd, len(tasks))
	_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, task := range tasks {
			read[i] = pipe.HMGet(ctx, keysOf(queue).task+task, "owner", "pull")
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read which workers have tasks of queue %s: %w", queue, err)
	}

	holders := map[string]Holder{}
	for i, task := range tasks {
		fields := read[i].Val()
		owner, _ := fields[0].(string)
		number, _ := fields[1].(string)
		if owner == "" || number == "" {
			continue
		}
		micros, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("task %s has pull %q, want a number", task, number)
		}
		holders[task] = Holder{owner, time.UnixMicro(micros)}
	}

	return holders, nil
}

// Active returns how many tasks of queue workers hold.
func Active(ctx context.Context, client redis.Cmdable, queue string) (int, error) {
	n, err := client.LLen(ctx, keysOf(queue).active).Result()
	if err != nil {
		return 0, fmt.Errorf("count the active tasks of %s: %w", queue, err)
	}
	return int(n), nil
}

// ActiveOf returns how many tasks of queue are held by workers whose ids begin with prefix.
func ActiveOf(ctx context.Context, client redis.Cmdable, queue, prefix string) (int, error) {
	ids, err := client.LRange(ctx, keysOf(queue).active, 0, -1).Result()
	if err != nil {
		return 0, fmt.Errorf("list the active tasks of %s: %w", queue, err)
	}
	n := 0
	for _, id := range ids {
		if strings.HasPrefix(id, prefix) {
			n++
		}
	}
	return n, nil
}
