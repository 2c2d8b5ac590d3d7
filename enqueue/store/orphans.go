package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

// Orphan is a job that the limits count and that no run has. The worker that looks after it lists it again and again, so
// that another one takes it over if that worker dies.
type Orphan struct {
	Evaluation eval.ID    `json:"evaluation"`
	Job        record.Job `json:"job"`
	// Awaited: its run may get it back, because Redis has lost the evaluation or it was deleted.
	Awaited bool      `json:"awaited,omitempty"`
	Listed  time.Time `json:"listed"` // by Redis's clock
}

// PutOrphan lists an orphan, with the time of Redis's clock, or lists it again.
func (s *Store) PutOrphan(ctx context.Context, o Orphan) error {
	now, err := s.client.Time(ctx).Result()
	if err != nil {
		return fmt.Errorf("list orphan %s: read redis's clock: %w", o.Job.ID, err)
	}
	o.Listed = now.UTC()
	text, err := json.Marshal(o)
	if err == nil {
		err = s.client.HSet(ctx, s.keys.Orphans(), o.Job.ID, text).Err()
	}
	if err != nil {
		return fmt.Errorf("list orphan %s: %w", o.Job.ID, err)
	}
	return nil
}

// DropOrphan removes an orphan from the list. It is no error if it is not there.
func (s *Store) DropOrphan(ctx context.Context, job string) error {
	if err := s.client.HDel(ctx, s.keys.Orphans(), job).Err(); err != nil {
		return fmt.Errorf("remove orphan %s: %w", job, err)
	}
	return nil
}

// Orphans returns the orphans that are listed, in no order. It removes what cannot be read.
func (s *Store) Orphans(ctx context.Context) ([]Orphan, error) {
	listed, err := s.client.HGetAll(ctx, s.keys.Orphans()).Result()
	if err != nil {
		return nil, fmt.Errorf("read orphans: %w", err)
	}
	var all []Orphan
	for job, text := range listed {
		var o Orphan
		if err := json.Unmarshal([]byte(text), &o); err != nil || o.Job.ID != job {
			if err := s.DropOrphan(ctx, job); err != nil {
				return nil, err
			}
			continue
		}
		all = append(all, o)
	}
	return all, nil
}
