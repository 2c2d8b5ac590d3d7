package store

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/eval"
)

// Evaluations lists every evaluation that Redis knows by name.
func (s *Store) Evaluations(ctx context.Context) ([]eval.ID, error) {
	return s.members(ctx, s.keys.Evaluations())
}

// Active lists the evaluations that have runs to push or to end.
func (s *Store) Active(ctx context.Context) ([]eval.ID, error) {
	return s.members(ctx, s.keys.Active())
}

// IsActive reports whether an evaluation is among the Active.
func (s *Store) IsActive(ctx context.Context, id eval.ID) (bool, error) {
	active, err := s.client.SIsMember(ctx, s.keys.Active(), string(id)).Result()
	if err != nil {
		return false, fmt.Errorf("ask whether %s is active: %w", id, err)
	}
	return active, nil
}

func (s *Store) members(ctx context.Context, key string) ([]eval.ID, error) {
	names, err := s.client.SMembers(ctx, key).Result()
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", key, err)
	}
	ids := make([]eval.ID, len(names))
	for i, name := range names {
		ids[i] = eval.ID(name)
	}
	return ids, nil
}

// Activate lets the fleet top the evaluation up. It also lists it again, because a process
// that found no record may have taken it off the list just before the record was made.
func (s *Store) Activate(ctx context.Context, id eval.ID) error {
	_, err := s.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.SAdd(ctx, s.keys.Active(), string(id))
		pipe.SAdd(ctx, s.keys.Evaluations(), string(id))
		return nil
	})
	if err != nil {
		return fmt.Errorf("activate %s: %w", id, err)
	}
	return s.announce(ctx, "evaluation "+string(id))
}

// Deactivate takes the evaluation off Active. Its record remains.
func (s *Store) Deactivate(ctx context.Context, id eval.ID) error {
	if err := s.client.SRem(ctx, s.keys.Active(), string(id)).Err(); err != nil {
		return fmt.Errorf("deactivate %s: %w", id, err)
	}
	return nil
}
