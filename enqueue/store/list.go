package store

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/eval"
)

var (
	//go:embed lua/list.lua
	listSource string
	//go:embed lua/unlist.lua
	unlistSource string

	listScript   = redis.NewScript(listSource)
	unlistScript = redis.NewScript(unlistSource)
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

// Activate lists the evaluation under Active, so that the fleet tops it up. It also lists it under
// Evaluations again: a process that found no record may have removed it just before the record was
// made.
func (s *Store) Activate(ctx context.Context, id eval.ID) error {
	for _, list := range []string{s.keys.Active(), s.keys.Evaluations()} {
		if err := s.list(ctx, list, id); err != nil {
			return err
		}
	}
	return s.announce(ctx, "evaluation "+string(id))
}

// Deactivate removes the evaluation from Active, unless it is activated meanwhile. Its record
// remains.
func (s *Store) Deactivate(ctx context.Context, id eval.ID) error {
	listing, err := s.listing(ctx, s.keys.Active(), id)
	if err != nil {
		return err
	}
	return s.unlist(ctx, s.keys.Active(), id, listing)
}

// list adds an evaluation to a list.
func (s *Store) list(ctx context.Context, list string, id eval.ID) error {
	if err := listScript.Run(ctx, s.client, []string{list, s.keys.Listings(list)}, string(id), rand.Text()).Err(); err != nil {
		return fmt.Errorf("put %s on %s: %w", id, list, err)
	}
	return nil
}

// listing returns the name of an evaluation's current listing on a list. Read it before checking
// whether the evaluation has to be removed.
func (s *Store) listing(ctx context.Context, list string, id eval.ID) (string, error) {
	listing, err := s.client.HGet(ctx, s.keys.Listings(list), string(id)).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("read since when %s is on %s: %w", id, list, err)
	}
	return listing, nil
}

// unlist removes an evaluation from a list, unless it was listed again since that listing. So a
// command that arrives late removes nothing that was submitted since.
func (s *Store) unlist(ctx context.Context, list string, id eval.ID, listing string) error {
	if err := unlistScript.Run(ctx, s.client, []string{list, s.keys.Listings(list)}, string(id), listing).Err(); err != nil {
		return fmt.Errorf("take %s off %s: %w", id, list, err)
	}
	return nil
}
