package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/eval"
)

// Backlog describes the results of an evaluation that no results store has yet.
type Backlog struct {
	Bytes  int64     // of Redis's memory; 0: unknown
	Oldest time.Time // when the first of them was appended, by Redis's clock; zero: there are none
}

// Backlog returns the backlog of an evaluation's results in Redis.
func (s *Store) Backlog(ctx context.Context, id eval.ID) (Backlog, error) {
	key := s.keys.Results(id)
	pipe := s.client.Pipeline()
	first, memory := pipe.XRangeN(ctx, key, "-", "+", 1), pipe.MemoryUsage(ctx, key, 0)
	ask(ctx, pipe)
	var answered redis.Error
	var b Backlog
	switch err := memory.Err(); {
	case err == nil:
		b.Bytes = memory.Val()
	case !errors.As(err, &answered): // otherwise the key does not exist, or Redis refuses the command
		return b, fmt.Errorf("look at the results of %s: %w", id, err)
	}

	entries, err := first.Result()
	if err != nil {
		return b, fmt.Errorf("look at the results of %s: %w", id, err)
	}

	if len(entries) == 1 {
		text, _, _ := strings.Cut(entries[0].ID, "-")
		millis, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return b, fmt.Errorf("results of %s have the entry %s: %w", id, entries[0].ID, err)
		}
		b.Oldest = time.UnixMilli(millis)
	}

	return b, nil
}
