package fleet

import (
	"context"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/view"
)

// LimitsInForce reads the limits of a source, repeatedly if they are watched.
type LimitsInForce struct {
	source *Source
	looks  *view.Looks
}

// NewLimits returns a LimitsInForce for a source, which the caller closes.
func NewLimits(s *Source) *LimitsInForce {
	return &LimitsInForce{source: s, looks: view.NewLooks(s.Log)}
}

// Read reads the limits in force, or, for an ended run, those that applied.
func (l *LimitsInForce) Read(ctx context.Context, now time.Time) (view.Limits, error) {
	if redis := l.source.Fleet(ctx); redis != nil {
		limits, err := l.inRedis(ctx, redis, now)
		if err == nil || l.source.Dir == "" {
			return limits, err
		}
	}
	reader, id, err := l.source.StoreIn.Read(ctx)
	if err != nil {
		return view.Limits{}, err
	}
	return endedLimits(ctx, reader, id)
}

func (l *LimitsInForce) inRedis(ctx context.Context, redis *Connection, now time.Time) (view.Limits, error) {
	var only record.Evaluation
	kept, queues := view.AllLimits, []string(nil)
	if l.source.Only != "" || l.source.Dir != "" {
		ids, err := l.source.evaluations(ctx, redis)
		if err != nil {
			return view.Limits{}, err
		}
		if len(ids) == 1 { // a run's own Redis has none at the very beginning
			if only, err = redis.Store.Evaluation(ctx, ids[0]); err != nil {
				return view.Limits{}, failure.With(failure.Unavailable, err)
			}
			if only.Status == record.StatusDone || only.Status == record.StatusCancelled {
				if reader := l.source.reader(ctx, only); reader != nil {
					return endedLimits(ctx, reader, only.ID)
				}
			}
			queues = only.QueueNames()
			if kept, err = l.looks.Kept(ctx, redis.View(), only); err != nil {
				return view.Limits{}, failure.With(failure.Unavailable, err)
			}
		}
	}

	limits, err := redis.View().LimitsInForce(ctx, kept, queues, now)
	limits.Evaluation, limits.Name = only.ID, only.Name
	return limits, failure.With(failure.Unavailable, err)
}

// endedLimits reads the limits that applied to an evaluation, and closes the reader.
func endedLimits(ctx context.Context, reader results.Reader, id eval.ID) (view.Limits, error) {
	defer reader.Close()
	limits, err := view.EndedLimits(ctx, reader, id)
	return limits, failure.With(failure.Unavailable, err)
}
