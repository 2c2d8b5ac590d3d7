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

	b.Oldest, err = oldest(id, entries)
	return b, err
}

// oldest returns when the first of an evaluation's entries was appended; zero: there are none.
func oldest(id eval.ID, entries []redis.XMessage) (time.Time, error) {
	if len(entries) == 0 {
		return time.Time{}, nil
	}
	text, _, _ := strings.Cut(entries[0].ID, "-")
	millis, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("results of %s have the entry %s: %w", id, entries[0].ID, err)
	}
	return time.UnixMilli(millis), nil
}

// Unattended reports whether results of an evaluation have waited for longer than most, and no controller has run in the
// last minute.
func (s *Store) Unattended(ctx context.Context, id eval.ID, most time.Duration) (bool, error) {
	controlled, err := s.client.Exists(ctx, s.keys.SweepLock()).Result()
	if err != nil {
		return false, fmt.Errorf("look for a controller: %w", err)
	}
	if controlled > 0 {
		return false, nil
	}

	pipe := s.client.Pipeline()
	first, now := pipe.XRangeN(ctx, s.keys.Results(id), "-", "+", 1), pipe.Time(ctx)
	if _, err := pipe.Exec(ctx); err != nil {
		return false, fmt.Errorf("look at the results of %s: %w", id, err)
	}
	since, err := oldest(id, first.Val())
	return !since.IsZero() && now.Val().Sub(since) > most, err
}
