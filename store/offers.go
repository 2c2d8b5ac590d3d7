package store

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Offer announces that this process can call providers until a time, by the caller's clock. It
// only ever extends other announcements.
func (s *Store) Offer(ctx context.Context, providers []string, until time.Time) error {
	offers := make([]redis.Z, len(providers))
	for i, name := range providers {
		offers[i] = redis.Z{Score: float64(until.Unix()), Member: name}
	}
	key := s.keys.Offers()
	_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.ZAddArgs(ctx, key, redis.ZAddArgs{GT: true, Members: offers})
		p.ExpireAt(ctx, key, until)
		return nil
	})
	if err != nil {
		return fmt.Errorf("publish which providers can be called: %w", err)
	}
	return nil
}

// Offered lists the providers that some worker can call now.
func (s *Store) Offered(ctx context.Context) ([]string, error) {
	now := strconv.FormatInt(time.Now().Unix(), 10)
	names, err := s.client.ZRangeByScore(ctx, s.keys.Offers(), &redis.ZRangeBy{Min: now, Max: "+inf"}).Result()
	if err != nil {
		return nil, fmt.Errorf("read which providers can be called: %w", err)
	}
	return names, nil
}
