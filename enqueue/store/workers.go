package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/enqueue/record"
)

// Tell stores a worker's report for as long as it is valid.
func (s *Store) Tell(ctx context.Context, worker string, of record.Worker, holds time.Duration) error {
	raw, err := json.Marshal(of)
	if err == nil {
		err = s.client.Set(ctx, s.keys.Worker(worker), raw, holds).Err()
	}
	if err != nil {
		return fmt.Errorf("publish worker %s: %w", worker, err)
	}
	return nil
}

// Told reads the reports of workers. It leaves out workers without a report, or with one of another
// version.
func (s *Store) Told(ctx context.Context, workers []string) (map[string]record.Worker, error) {
	asked := make([]*redis.StringCmd, len(workers))
	_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, worker := range workers {
			asked[i] = p.Get(ctx, s.keys.Worker(worker))
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("read the workers: %w", err)
	}
	told := map[string]record.Worker{}
	for i, worker := range workers {
		var of record.Worker
		if json.Unmarshal([]byte(asked[i].Val()), &of) == nil && of.V == record.WorkerVersion {
			told[worker] = of
		}
	}
	return told, nil
}
