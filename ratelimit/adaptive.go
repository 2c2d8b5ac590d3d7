package ratelimit

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// cut is what an adaptive limit admits below its cap.
type cut struct {
	max   int64
	since time.Time // when it was last lowered
}

// adapted reads the registry, and which of its limits are cut, by ID.
func (a access) adapted(ctx context.Context) (*registry, map[string]cut, error) {
	registry, err := a.load(ctx)
	if err != nil {
		return nil, nil, err
	}
	saved := map[*rule]*redis.SliceCmd{}
	pipe := a.client.Pipeline()
	for _, r := range registry.rules {
		if r.Adaptive {
			saved[r] = pipe.HMGet(ctx, r.cut, "max", "cut")
		}
	}

	if _, err := pipe.Exec(ctx); err != nil {
		return nil, nil, fmt.Errorf("read what limits are cut to: %w", err)
	}
	cuts := map[string]cut{}
	for r, fields := range saved {
		most, lowered := fields.Val()[0], fields.Val()[1]
		if most == nil || lowered == nil {
			continue
		}
		n, err := strconv.ParseInt(most.(string), 10, 64)
		if err != nil {
			return nil, nil, fmt.Errorf("limit %s is cut to %q: %w", r.id, most, err)
		}
		micros, err := strconv.ParseInt(lowered.(string), 10, 64)
		if err != nil {
			return nil, nil, fmt.Errorf("limit %s was cut at %q: %w", r.id, lowered, err)
		}
		if n < r.Max {
			cuts[r.id] = cut{max: n, since: time.UnixMicro(micros)}
		}
	}

	return registry, cuts, nil
}
