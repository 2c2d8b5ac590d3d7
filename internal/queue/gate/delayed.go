package gate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// forwardAtOnce bounds the tasks that one script moves or deletes.
const forwardAtOnce = 500

// Forward moves the tasks of queue whose time has come, by Redis's clock, to its pending list, and
// returns how many. asynq does that in every server of a queue. If that clock was set back, delayed
// tasks move with it. Any number of processes may call it at once. Like asynq, it also moves the
// tasks of a paused queue.
func Forward(ctx context.Context, client redis.Cmdable, queue string) (moved int, err error) {
	keys := keysOf(queue)
	for {
		all := []string{keys.pending, keys.forwarded, keys.scheduled, keys.retry, keys.active}
		answer, err := forwardScript.Run(ctx, client, all, keys.task, forwardAtOnce).Int64Slice()
		if err == nil && len(answer) != 2 {
			err = fmt.Errorf("unexpected answer %v", answer)
		}
		if err != nil {
			return moved, fmt.Errorf("forward the due tasks of %s: %w", queue, err)
		}
		moved += int(answer[1])
		if answer[0] == 0 || answer[1] == 0 {
			return moved, nil
		}
	}
}

// Expire deletes the tasks of queue that were kept after completion and whose time is over. asynq
// does that in every server of a queue. Any number of processes may call it at once.
func Expire(ctx context.Context, client redis.Cmdable, queue string) error {
	keys := keysOf(queue)
	for {
		n, err := expireScript.Run(ctx, client, []string{keys.completed}, keys.task, forwardAtOnce).Int()
		if err != nil {
			return fmt.Errorf("delete the ended tasks of %s: %w", queue, err)
		}
		if n < forwardAtOnce {
			return nil
		}
	}
}

// Waiting returns the queues in which tasks wait to be pulled. An error may concern only some of
// the queues; the others are still returned.
func Waiting(ctx context.Context, client redis.Cmdable, queues []string) (waiting []string, err error) {
	lengths := make([]*redis.IntCmd, len(queues))
	_, err = client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, queue := range queues {
			lengths[i] = pipe.LLen(ctx, keysOf(queue).pending)
		}
		return nil
	})
	if err != nil {
		err = fmt.Errorf("look for queues with tasks: %w", err)
	}
	for i, queue := range queues {
		if lengths[i].Val() > 0 {
			waiting = append(waiting, queue)
		}
	}
	return waiting, err
}

// Depth counts the tasks of a queue by where they are.
type Depth struct {
	Pending int
	Active  int // held by a worker, dead or alive
	Due     int // delayed, and due by the given time
	Delayed int // due later
	// Oldest is since when the task that is pulled next has been pending; zero: none is.
	Oldest time.Time
	Paused bool // with asynq's own tools
}

// DepthOf counts the tasks of a queue. Delayed tasks due by until, on Redis's clock, count as due.
func DepthOf(ctx context.Context, client redis.Cmdable, queue string, until time.Time) (Depth, error) {
	keys := keysOf(queue)
	pipe := client.Pipeline()
	pending, active := pipe.LLen(ctx, keys.pending), pipe.LLen(ctx, keys.active)
	next, paused := pipe.LRange(ctx, keys.pending, -1, -1), pipe.Exists(ctx, keys.paused)
	bound := strconv.FormatInt(until.Unix(), 10)
	var due, later [2]*redis.IntCmd
	for i, delayed := range []string{keys.scheduled, keys.retry} {
		due[i], later[i] = pipe.ZCount(ctx, delayed, "-inf", bound), pipe.ZCount(ctx, delayed, "("+bound, "+inf")
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return Depth{}, fmt.Errorf("look at queue %s: %w", queue, err)
	}
	depth := Depth{
		Pending: int(pending.Val()), Active: int(active.Val()), Paused: paused.Val() > 0,
		Due: int(due[0].Val() + due[1].Val()), Delayed: int(later[0].Val() + later[1].Val()),
	}

	if len(next.Val()) == 1 {
		nanos, err := client.HGet(ctx, keys.task+next.Val()[0], "pending_since").Int64()
		if err != nil && !errors.Is(err, redis.Nil) {
			return Depth{}, fmt.Errorf("look at queue %s: %w", queue, err)
		}
		if nanos > 0 {
			depth.Oldest = time.Unix(0, nanos)
		}
	}

	return depth, nil
}
