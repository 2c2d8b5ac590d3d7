package gate

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/encoding/protowire"
)

// checkMessage reports why asynq would not hand a task's message to its handler as that task: it
// cannot be decoded, names another task or queue, or has a deadline, after which asynq ends it
// without calling a handler.
func checkMessage(task, queue, message string) error {
	var id, of string
	for rest := []byte(message); len(rest) > 0; {
		number, kind, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return protowire.ParseError(n)
		}
		rest = rest[n:]
		if n = protowire.ConsumeFieldValue(number, kind, rest); n < 0 {
			return protowire.ParseError(n)
		}
		value, _ := protowire.ConsumeBytes(rest[:n])
		switch {
		case kind == protowire.BytesType && number != messagePayload && number != messageHeaders && !utf8.Valid(value):
			return errors.New("it has text that is not UTF-8")
		case number == messageID:
			id = string(value)
		case number == messageQueue:
			of = string(value)
		case number == messageDeadline:
			return errors.New("it has a deadline")
		}
		rest = rest[n:]
	}

	if id != task || of != queue {
		return fmt.Errorf("it belongs to task %.80q of queue %.80q", id, of)
	}
	return nil
}

// sound returns the tasks just pulled that asynq can handle, and removes the others.
func (g *Gate) sound(ctx context.Context, q *queue, tasks []pulled) ([]pulled, error) {
	var bad []pulled
	good := tasks[:0:0]
	for _, task := range tasks {
		if err := checkMessage(task.id, q.name, task.message); err != nil {
			bad = append(bad, task)
			g.config.Log.Error().Err(err).Str("queue", q.name).Str("task", fmt.Sprintf("%.80s", task.id)).
				Msg("the task's message is invalid; removing the task")
			continue
		}
		good = append(good, task)
	}

	if len(bad) == 0 {
		return tasks, nil
	}
	g.config.Permits.Cancel(q.name, len(bad))
	_, err := g.redis.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, task := range bad {
			pipe.LRem(ctx, q.keys.active, 1, task.id)
			pipe.ZRem(ctx, q.keys.lease, task.id)
			pipe.Del(ctx, q.keys.task+task.id)
		}
		return nil
	})
	if err != nil {
		return good, fmt.Errorf("remove invalid tasks: %w", err)
	}
	return good, nil
}
