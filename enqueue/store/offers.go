package store

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Offer announces that this process can call providers for a while, by Redis's clock. It replaces
// announcements that would hold longer: those were made before the clock was set back.
func (s *Store) Offer(ctx context.Context, providers []string, holds time.Duration) error {
	now, err := s.client.Time(ctx).Result()
	if err != nil {
		return fmt.Errorf("publish which providers can be called: %w", err)
	}
	offers := make([]redis.Z, len(providers))
	for i, name := range providers {
		offers[i] = redis.Z{Score: float64(now.Add(holds).Unix()), Member: name}
	}
	key := s.keys.Offers()
	_, err = s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.ZAdd(ctx, key, offers...)
		p.Expire(ctx, key, holds)
		return nil
	})
	if err != nil {
		return fmt.Errorf("publish which providers can be called: %w", err)
	}
	return nil
}

// Offered returns the providers that some worker can call now.
func (s *Store) Offered(ctx context.Context) ([]string, error) {
	now, err := s.client.Time(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("read which providers can be called: %w", err)
	}
	least := strconv.FormatInt(now.Unix(), 10)
	names, err := s.client.ZRangeByScore(ctx, s.keys.Offers(), &redis.ZRangeBy{Min: least, Max: "+inf"}).Result()
	if err != nil {
		return nil, fmt.Errorf("read which providers can be called: %w", err)
	}
	return names, nil
}
