package gate

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Holder is the worker that has an active task of queue, and since when by that
// worker's clock; "" when none has, or it is not written.
func Holder(ctx context.Context, client redis.UniversalClient, queue, task string) (owner string, since time.Time, err error) {
	fields, err := client.HMGet(ctx, keysOf(queue).task+task, "owner", "pull").Result()
	if err != nil {
		return "", since, fmt.Errorf("read who holds task %s: %w", task, err)
	}
	owner, _ = fields[0].(string)
	number, _ := fields[1].(string)
	if owner == "" || number == "" {
		return "", since, nil
	}
	micros, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return "", since, fmt.Errorf("task %s has pull %q, want a number", task, number)
	}
	return owner, time.UnixMicro(micros), nil
}

// Active is how many tasks of queue are held by workers.
func Active(ctx context.Context, client redis.UniversalClient, queue string) (int, error) {
	n, err := client.LLen(ctx, keysOf(queue).active).Result()
	if err != nil {
		return 0, fmt.Errorf("count the active tasks of %s: %w", queue, err)
	}
	return int(n), nil
}

// ActiveOf is how many tasks of queue are held by workers whose id begins with
// prefix.
func ActiveOf(ctx context.Context, client redis.UniversalClient, queue, prefix string) (int, error) {
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
